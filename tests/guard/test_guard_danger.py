"""Heat, bad batteries and silence: what guard does, in which order, and whom it calls."""

from __future__ import annotations

import pytest
from desk import PHONES, Desk

from fleetctl.guard.actions import DRAIN, Call, Drain, Kill, Stop, Switch
from fleetctl.guard.orders import CALL_AFTER_SECONDS
from fleetctl.power.outlets import LATCH_DRAIN


def calls(desk: Desk) -> list[str]:
    return [call.what for call in desk.said(Call)]


def test_a_cool_rack_is_left_alone() -> None:
    desk = Desk()
    assert desk.go(3600) == []


def test_warm_is_said_once_and_does_not_flap() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 40.0
    assert desk.go(5) == ["phone001: warm: 40.0 °C"]
    desk.celsius["phone001"] = 39.0
    assert desk.go(5) == []
    desk.celsius["phone001"] = 37.9
    assert desk.go(5) == ["phone001: cool again: 37.9 °C"]


def test_a_hot_phone_is_drained_at_once_its_job_ends_when_it_stays_hot_then_its_power() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1", "phone002": "digits-1"}
    desk.celsius["phone001"] = 45.0
    assert desk.go(1) == ["phone001: hot: 45.0 °C", "phone001: drained: its battery is hot"]
    assert desk.go(58) == [], "the job may slow down by itself"
    said = desk.go(20)
    assert said[0] == "phone001: kills its job: its battery has been hot for 60 s"
    assert said[1] == "outlet a: switches it off: phone001 has 45.0 °C without a job"
    assert desk.runs == {"phone002": "digits-1"}, "which goes on without it"
    assert desk.live == {"a": False, "strip": True}
    assert calls(desk) == []

    desk.celsius["phone001"] = 42.9
    assert desk.go(5) == ["phone001: warm: 42.9 °C", "phone001: undrained"]
    assert desk.live["a"] is False, "the charge window decides when it is charged again"


def test_a_job_that_nobody_supervises_is_stopped() -> None:
    desk = Desk()
    desk.supervised = False
    desk.runs = {"phone001": "digits-1", "phone002": "digits-1"}
    desk.celsius["phone001"] = 45.0
    desk.go(100)
    assert (len(desk.said(Kill)), desk.said(Stop)) == (1, [])
    desk.go(10)
    assert desk.said(Stop) == [Stop("digits-1", "its battery has been hot for 60 s")]
    assert desk.runs == {}


def test_a_hot_job_that_cools_in_time_goes_on() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 46.0
    desk.go(50)
    desk.celsius["phone001"] = 42.0
    assert desk.go(60) == ["phone001: warm: 42.0 °C", "phone001: undrained"]
    assert desk.said(Stop) == []


@pytest.mark.parametrize(
    ("celsius", "health", "why"),
    [
        (50.0, "GOOD", "its battery had 50.0 °C (limit 50)"),
        (30.0, "DEAD", "Android says of its battery: dead"),
        (30.0, "OVER_VOLTAGE", "Android says of its battery: over voltage"),
        (30.0, "OVERHEAT", "Android says of its battery: overheat"),
    ],
)
def test_at_the_hard_limit_all_happens_in_one_moment(celsius: float, health: str, why: str) -> None:
    desk = Desk()
    desk.runs = dict.fromkeys(PHONES, "digits-1")
    desk.celsius["phone002"], desk.health["phone002"] = celsius, health
    desk.go(1)
    kinds = [action.kind for action in desk.since(1)]
    assert {"drain", "kill", "switch"} <= set(kinds)
    assert desk.said(Kill) == [Kill("phone002", why)], "its neighbour goes on, on its battery"
    assert desk.drains == {"phone001": set(), "phone002": {LATCH_DRAIN}, "phone003": {DRAIN}}
    desk.go(5)
    assert desk.live == {"a": True, "strip": False}
    assert calls(desk) == ["latched"]
    assert f"phone002: {why}; its power is cut" in desk.said(Call)[0].message


def test_a_latch_holds_until_a_person_clears_it() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(10)
    desk.celsius["phone001"], desk.percent["phone001"] = 25.0, 5.0
    desk.go(7200)
    assert desk.live["a"] is False
    assert LATCH_DRAIN in desk.drains["phone001"]
    desk.restart()
    desk.drains["phone001"].clear()  # somebody has undrained it
    desk.go(2)
    assert LATCH_DRAIN in desk.drains["phone001"]

    said = desk.go(30, phone001="new battery")
    assert said[0] == "phone001: cleared by a person: new battery"
    assert "phone001: undrained" in said
    assert desk.live["a"] is True
    assert desk.drains["phone001"] == set()


def test_a_latch_that_only_the_state_knows_of_holds() -> None:
    """Memory was lost, or is older: whenever the state can be read, then or later."""
    desk = Desk()
    desk.go(10)
    desk.drains["phone001"].add(LATCH_DRAIN)
    said = desk.go(20)
    assert "phone001: latched: latched earlier; guard forgot why" in said
    assert desk.live["a"] is False
    assert desk.drains["phone001"] == {LATCH_DRAIN}
    assert calls(desk) == ["latched"]


def test_the_drain_of_a_latch_that_a_person_cleared_is_lifted_after_a_restart_too() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(10)
    desk.celsius["phone001"] = 30.0
    desk.obeys = False
    desk.go(2, phone001="new battery")
    assert LATCH_DRAIN in desk.drains["phone001"]
    desk.restart()
    desk.obeys = True
    desk.go(20)
    assert desk.drains["phone001"] == set()
    assert desk.memory.phones["phone001"].latch is None

    desk.go(20)
    desk.drains["phone001"].add(LATCH_DRAIN)  # of a later latch, which memory did not keep
    desk.go(5)
    assert desk.memory.phones["phone001"].latch is not None


def test_a_cleared_phone_gets_power_once_it_says_itself_that_it_is_well() -> None:
    desk = Desk(percent=(50.0, 20.0, 20.0))
    desk.celsius["phone002"] = 51.0
    desk.go(30)
    assert desk.live["strip"] is False
    desk.mute.add("phone002")
    desk.runs = {"phone003": "digits-1"}
    desk.go(30, phone002="looked at it")
    assert desk.live["strip"] is False, "it was too hot when it last said something"
    desk.mute.clear()
    desk.celsius["phone002"] = 30.0
    desk.go(30)
    assert desk.live["strip"] is True


def test_a_person_need_not_wait_for_an_hour() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(10)
    desk.celsius["phone001"], desk.percent["phone001"] = 30.0, 20.0
    desk.go(20, phone001="it was the sun")
    assert desk.live["a"] is True


def test_clearing_what_is_still_wrong_cuts_it_off_again() -> None:
    desk = Desk()
    desk.health["phone001"] = "DEAD"
    desk.go(10)
    said = desk.go(5, phone001="looks fine to me")
    assert "phone001: latched: Android says of its battery: dead" in said
    assert calls(desk) == ["latched", "latched"]


def test_a_hub_that_lies_calls_a_person_in_time_and_is_told_again() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.go(CALL_AFTER_SECONDS + 2)
    assert calls(desk) == ["power-not-cut"]
    assert "outlet a was switched off, the phone still has power" in desk.said(Call)[0].message
    assert desk.said(Kill)
    assert desk.runs == {}
    assert len(desk.said(Switch)) >= 2
    desk.go(3600)
    assert 40 < len(desk.said(Switch)) < 90, "at first often, then once a minute"
    assert calls(desk) == ["power-not-cut"], "once is enough"
    desk.lying.clear()
    desk.go(65)
    assert desk.live["a"] is False
    assert calls(desk) == ["power-not-cut", "latched"]


def test_who_was_called_for_a_hot_phone_is_called_again_when_it_is_in_danger() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.celsius["phone001"] = 46.0
    desk.go(CALL_AFTER_SECONDS + 2)
    assert [call.message.partition(";")[0] for call in desk.said(Call)] == [
        "phone001 has 46.0 °C without a job"
    ]
    desk.celsius["phone001"] = 51.0
    desk.go(2)
    assert calls(desk) == ["power-not-cut", "power-not-cut"]
    message = desk.said(Call)[-1].message
    assert message.startswith("phone001: its battery had 51.0 °C (limit 50)"), message
    desk.go(600)
    assert len(calls(desk)) == 2, "once is enough"


def test_who_was_called_for_charging_is_called_again_when_a_phone_is_in_danger() -> None:
    desk = Desk(percent=(50.0, 90.0, 90.0))
    desk.broken.add("strip")
    desk.go(120)
    assert calls(desk) == ["power-not-cut"]
    assert "it is not used for charging" in desk.said(Call)[0].message
    desk.celsius["phone003"] = 46.0
    desk.go(CALL_AFTER_SECONDS + 2)
    assert [call.phones for call in desk.said(Call)] == [("phone002",), ("phone003",)]
    assert "phone003 has 46.0 °C without a job" in desk.said(Call)[-1].message
    desk.celsius["phone003"] = 51.0
    desk.go(2)
    assert calls(desk) == ["power-not-cut"] * 3
    desk.go(5, phone002="its plug is loose")
    open_calls = [call.phone for call in desk.memory.calls.values()]
    assert open_calls == ["phone003"], "the other one still has power"


def test_a_phone_that_says_nothing_after_a_cut_is_unverified() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(1)
    desk.mute.add("phone001")
    desk.go(CALL_AFTER_SECONDS + 1)
    assert calls(desk) == ["unverified"]
    assert "the hub says: ok" in desk.said(Call)[0].message


def test_a_hub_whose_command_fails_is_told_with_its_words() -> None:
    desk = Desk()
    desk.broken.add("a")
    desk.celsius["phone001"] = 51.0
    desk.go(CALL_AFTER_SECONDS + 1)
    assert calls(desk) == ["power-not-cut"]
    assert "the hub says: exit code 1" in desk.said(Call)[0].message


def test_without_an_outlet_the_job_ends_and_a_person_is_called() -> None:
    desk = Desk(outlets={})
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.go(2)
    assert desk.said(Switch) == []
    assert len(desk.said(Kill)) == 1
    assert desk.drains["phone001"] == {LATCH_DRAIN}
    assert calls(desk) == ["no-outlet"]
    assert "pull its plug" in desk.said(Call)[0].message


def test_without_an_outlet_a_hot_idle_phone_calls_a_person_too() -> None:
    desk = Desk(outlets={})
    desk.celsius["phone001"] = 46.0
    desk.go(30)
    assert calls(desk) == []
    desk.go(60)
    assert calls(desk) == ["hot"]


def test_a_job_that_nobody_can_kill_calls_a_person() -> None:
    desk = Desk()
    desk.obeys = False
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.go(CALL_AFTER_SECONDS + 1)
    assert sorted(calls(desk)) == ["not-killed", "power-not-cut"]


def test_it_was_guard_that_slept_not_the_phones() -> None:
    desk = Desk()
    desk.mute.update(PHONES)
    desk.go(100)
    desk.now += 3600
    assert desk.go(60) == []
    desk.restart()
    desk.now += 3600
    assert desk.go(10) == []
    assert desk.go(40) != [], "and then they have their three minutes, no more"


def test_what_was_under_way_at_a_restart_is_done_again() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.obeys = False
    desk.go(1)
    desk.obeys = True
    desk.restart()
    desk.celsius["phone001"] = 49.0
    desk.go(5)
    assert desk.live["a"] is False
    assert len(desk.said(Kill)) == 2


def test_a_hub_that_comes_back_with_all_outlets_on_is_cut_again() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(10)
    desk.live["a"] = True
    desk.go(3)
    assert desk.live["a"] is False


def test_a_swollen_neighbour_keeps_a_strip_off() -> None:
    desk = Desk()
    desk.health["phone002"] = "UNSPECIFIED_FAILURE"
    desk.go(10)
    desk.percent["phone003"] = 3.0
    desk.go(7200)
    assert desk.live["strip"] is False
    assert desk.drains["phone003"] == {DRAIN}


def test_a_state_that_is_slow_is_not_asked_again_and_again() -> None:
    desk = Desk()
    desk.obeys = False
    desk.celsius["phone001"] = 46.0
    desk.go(10)
    assert 2 <= len(desk.said(Drain)) <= 4


def test_clearing_a_phone_that_a_lying_hub_still_feeds_calls_again() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.celsius["phone001"] = 51.0
    desk.go(30)
    assert calls(desk) == ["power-not-cut"]
    desk.go(20, phone001="it looks fine")
    assert calls(desk) == ["power-not-cut", "power-not-cut"]


def test_a_hub_that_a_person_has_mended_is_told_at_once() -> None:
    desk = Desk()
    desk.broken.add("a")
    desk.celsius["phone001"] = 51.0
    desk.go(605)
    assert desk.live["a"] is True
    desk.broken.clear()
    desk.go(3, phone001="the hub's plug was loose")
    assert desk.live["a"] is False, "its phone is still too hot"


def test_a_hub_that_does_not_come_back_has_not_cut_the_power() -> None:
    desk = Desk()
    desk.obeys = False
    desk.celsius["phone001"] = 51.0
    desk.go(CALL_AFTER_SECONDS + 1)
    (call,) = desk.said(Call)
    assert call.what == "power-not-cut"
    assert "the hub has not answered yet" in call.message
