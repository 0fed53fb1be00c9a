"""Phones that say nothing of their batteries: cut, told to a person, cleared, taken away."""

from __future__ import annotations

from desk import PHONES, Desk

from fleetctl.guard.actions import DRAIN, Call, Outcome, Switch
from fleetctl.guard.layout import Layout
from fleetctl.rack import GuardLimits, Outlet


def calls(desk: Desk) -> list[str]:
    return [call.what for call in desk.said(Call)]


def test_silence_while_charging_is_unsafe_after_some_minutes() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    desk.mute.add("phone001")
    desk.go(178)
    assert desk.said(Switch) == []
    desk.go(70)
    assert desk.live["a"] is False
    assert desk.runs == {}, "it could not be killed, so its run was stopped"
    assert calls(desk) == ["silent"]
    (call,) = desk.said(Call)
    assert call.message == (
        "phone001 has told nothing of its battery for 3 min while it may be charging, or computes "
        "(no answer); its power is cut, which nothing proves"
    )
    switched = len(desk.said(Switch))
    desk.go(3600)
    assert len(desk.said(Switch)) == switched, "a hub is not told for ever what it has done"

    desk.mute.clear()
    said = desk.go(3)
    assert "phone001: tells the state of its battery again" in said
    assert "phone001: undrained" in said


def test_a_phone_that_is_unplugged_and_idle_may_be_silent() -> None:
    desk = Desk()
    desk.live["a"] = False
    desk.go(2)
    desk.mute.add("phone001")
    assert desk.go(7200) == []


def test_silence_of_a_whole_rack_is_one_call() -> None:
    desk = Desk()
    desk.mute.update(PHONES)
    desk.go(240)
    (call,) = desk.said(Call)
    assert call.phones == PHONES


def test_a_silence_that_goes_on_after_a_clear_calls_and_cuts_again() -> None:
    desk = Desk()
    desk.mute.add("phone001")
    desk.go(240)
    assert calls(desk) == ["silent"]
    desk.go(170, phone001="restarted it")
    assert calls(desk) == ["silent"]
    assert desk.drains["phone001"] == set()
    desk.go(30)
    assert calls(desk) == ["silent", "silent"]
    assert "silent:phone001" in desk.memory.calls
    assert desk.drains["phone001"] == {DRAIN}


def test_nobody_is_silent_without_a_call() -> None:
    """An earlier guard may have left one so."""
    desk = Desk()
    desk.mute.add("phone001")
    desk.go(240)
    desk.memory.calls.clear()
    desk.go(20)
    assert calls(desk) == ["silent", "silent"]


def test_clearing_a_phone_leaves_the_silence_of_its_neighbour_open() -> None:
    desk = Desk()
    desk.celsius["phone003"] = 51.0
    desk.go(10)
    desk.live["strip"] = True  # by hand
    desk.mute.add("phone002")
    desk.lying.add("strip")
    desk.go(240)
    assert {"latched:phone003", "silent:phone002"} <= desk.memory.calls.keys()
    desk.celsius["phone003"] = 30.0
    desk.go(5, phone003="new battery")
    assert "silent:phone002" in desk.memory.calls
    assert "latched:phone003" not in desk.memory.calls


def test_a_cleared_silent_phone_gives_its_strip_power_for_as_long_as_it_may_be_silent() -> None:
    desk = Desk(percent=(50.0, 20.0, 20.0))
    desk.mute.add("phone002")
    desk.go(240)
    assert desk.live["strip"] is False
    desk.go(100, phone002="restarted it")
    assert desk.live["strip"] is True
    desk.go(120)
    assert desk.live["strip"] is False, "it may be charging, and nobody sees it"
    assert calls(desk) == ["silent", "silent"]


def test_a_dead_phone_that_leaves_the_rack_file_gives_its_neighbours_their_power_back() -> None:
    desk = Desk(percent=(50.0, 20.0, 20.0))
    desk.mute.add("phone002")
    desk.go(240)
    strip = Outlet("strip", ("phone003",), ("hub", "{state}"))
    desk.layout = Layout.of(("phone001", "phone003"), {"strip": strip}, GuardLimits())
    desk.restart()
    desk.go(3700)
    assert desk.live["strip"] is True
    assert desk.memory.calls == {}
    assert desk.drains["phone003"] == set()

    desk.layout = Desk().layout
    desk.go(100)
    assert calls(desk) == ["silent"], "it is expected from now on"
    desk.go(120)
    assert calls(desk) == ["silent", "silent"]


def test_a_silent_phone_is_not_charged_unseen_because_its_neighbour_is_low() -> None:
    desk = Desk()
    desk.live["strip"] = False
    desk.go(5)
    desk.mute.add("phone002")
    assert desk.go(7200) == [], "it is idle and without power"
    desk.percent["phone003"] = 30.0
    desk.go(100)
    assert desk.live["strip"] is True, "it may start now that it has power"
    desk.go(150)
    assert desk.live["strip"] is False
    assert calls(desk) == ["silent"]
    assert [each.on for each in desk.said(Switch) if each.outlet == "strip"] == [True, False]


def test_a_cut_for_charging_that_failed_is_tried_again_when_its_phone_falls_silent() -> None:
    desk = Desk(percent=(60.0, 50.0, 50.0))
    desk.broken.add("a")
    desk.go(1)
    desk.mute.add("phone001")
    desk.go(120)
    assert calls(desk) == ["unverified"]
    desk.broken.clear()
    desk.go(120)
    assert desk.live["a"] is False
    assert calls(desk) == ["unverified", "silent"]


def test_an_outlet_that_is_switched_on_by_hand_gives_its_phone_time_to_start() -> None:
    desk = Desk()
    desk.live["strip"] = False
    desk.go(5)
    desk.mute.add("phone002")
    desk.go(7200)
    desk.live["strip"] = True
    desk.go(170)
    assert calls(desk) == []
    desk.mute.clear()
    desk.go(600)
    assert calls(desk) == []


def test_a_run_that_does_not_stop_calls_again_after_a_clear() -> None:
    desk = Desk()
    desk.obeys = False
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.go(60)
    fails(desk)
    assert calls(desk).count("not-stopped") == 1
    desk.go(1, phone001="its job is stuck")
    fails(desk)
    assert calls(desk).count("not-stopped") == 2


def fails(desk: Desk) -> None:
    """Two tries to stop the run."""
    for _ in range(2):
        desk._coming.append(Outcome("stop:digits-1", False, "no route"))
        desk.go(15)
