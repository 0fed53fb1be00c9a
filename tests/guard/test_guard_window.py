"""The charge window: idle phones only, apart from each other, not too often, not too many."""

from __future__ import annotations

from desk import PHONES, Desk
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.guard.actions import DRAIN, Call, Drain, Switch
from fleetctl.guard.layout import Layout, window_of
from fleetctl.power.outlets import OFF_DRAIN
from fleetctl.rack import GuardLimits, Outlet

HOUR = 3600


def test_an_idle_phone_is_drained_cut_off_when_full_and_let_go() -> None:
    desk = Desk()
    desk.percent["phone001"] = 60.0
    said = desk.go(10)
    assert said == [
        "phone001: drained: its power is being switched: charged to 60 %",
        "outlet a: switches it off: charged to 60 %",
        "phone001: outlet a is off: charged to 60 %",
        "phone001: undrained",
    ]
    assert desk.live["a"] is False


def test_between_the_limits_it_stays_as_it_is() -> None:
    desk = Desk()
    desk.percent["phone001"] = 56.0
    assert desk.go(HOUR) == []
    desk.percent["phone001"] = 60.0
    desk.go(10)
    desk.percent["phone001"] = 44.0
    desk.go(2 * HOUR)
    assert desk.live["a"] is False
    desk.percent["phone001"] = 40.0
    desk.go(10)
    assert desk.live["a"] is True


def test_it_is_not_switched_on_within_an_hour_of_the_last_time() -> None:
    desk = Desk()
    desk.percent["phone001"] = 60.0
    desk.go(10)
    desk.percent["phone001"] = 20.0
    desk.go(HOUR - 60)
    assert len(desk.said(Switch)) == 1
    desk.go(120)
    assert [each.on for each in desk.said(Switch)] == [False, True]


def test_a_busy_phone_is_charged_whatever_its_charge() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    desk.percent["phone001"] = 84.0
    assert desk.go(HOUR) == []


def test_a_phone_that_a_job_takes_just_now_keeps_its_power() -> None:
    desk = Desk()
    desk.percent["phone001"] = 60.0
    desk.obeys = False
    desk.go(1)
    assert desk.said(Drain)
    desk.obeys = True
    desk.runs = {"phone001": "digits-1"}
    desk.drains["phone001"] = {DRAIN}
    assert desk.go(60) == ["phone001: undrained"]
    assert desk.said(Switch) == []


def test_a_job_on_battery_gets_power_when_it_runs_low() -> None:
    desk = Desk()
    desk.percent["phone001"] = 60.0
    desk.go(10)
    desk.runs = {"phone001": "digits-1"}
    desk.percent["phone001"] = 45.0
    desk.go(2 * HOUR)
    assert desk.live["a"] is False
    desk.percent["phone001"] = 39.0
    desk.go(10)
    assert desk.live["a"] is True


def test_a_shared_outlet_goes_by_its_emptiest_phone() -> None:
    desk = Desk()
    desk.percent |= {"phone002": 84.0, "phone003": 50.0}
    assert desk.go(60) == []
    desk.percent["phone003"] = 60.0
    desk.go(10)
    assert desk.live["strip"] is False
    desk.go(HOUR)
    desk.percent["phone002"] = 40.0
    desk.go(10)
    assert desk.live["strip"] is True


def test_a_person_who_switched_it_off_is_not_contradicted() -> None:
    desk = Desk()
    desk.live["a"] = False
    desk.drains["phone001"] = {OFF_DRAIN}
    desk.percent["phone001"] = 5.0
    assert desk.go(2 * HOUR) == []


def test_a_high_of_100_leaves_charging_to_the_phones() -> None:
    desk = Desk(charge_high_percent=100.0)
    desk.percent = dict.fromkeys(PHONES, 99.0)
    assert desk.go(HOUR) == []


def test_a_hub_that_lies_is_not_used_for_charging_until_a_person_has_looked() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.percent["phone001"] = 60.0
    desk.go(60)
    (call,) = desk.said(Call)
    assert call.what == "power-not-cut"
    assert "until `fleetctl guard clear phone001`" in call.message
    switched = len(desk.said(Switch))
    assert switched == 2
    desk.go(3 * HOUR)
    assert len(desk.said(Switch)) == switched
    assert desk.drains["phone001"] == set(), "it is no worse than without a window"
    desk.lying.clear()
    desk.go(10, phone001="another hub")
    assert desk.live["a"] is False


def test_an_outlet_that_gives_no_power_is_noticed() -> None:
    desk = Desk()
    desk.live["a"] = False
    desk.lying.add("a")
    desk.percent["phone001"] = 30.0
    desk.go(60)
    assert [call.what for call in desk.said(Call)] == ["power-not-given"]


def test_a_phone_that_is_gone_after_it_was_switched_is_unverified() -> None:
    desk = Desk()
    desk.percent["phone001"] = 60.0
    desk.go(2)
    assert desk.said(Switch)
    desk.mute.add("phone001")
    desk.go(50)
    assert desk.said(Call) == [], "its adapter may have lost the link with the power"
    desk.go(20)
    assert [call.what for call in desk.said(Call)] == ["unverified"]


MANY = {f"o{n}": Outlet(f"o{n}", (name,), ("hub", "{state}")) for n, name in enumerate(PHONES)}


def test_at_most_so_many_charge_at_once_the_emptiest_first() -> None:
    desk = Desk(outlets=MANY, percent=(50.0, 55.0, 45.0), max_charging=1)
    desk.go(60)
    assert desk.live == {"o0": False, "o1": False, "o2": True}
    desk.go(HOUR)
    desk.percent = {"phone001": 30.0, "phone002": 25.0, "phone003": 50.0}
    desk.go(60)
    assert desk.live == {"o0": False, "o1": False, "o2": True}
    desk.percent["phone003"] = 60.0
    desk.go(60)
    assert desk.live == {"o0": False, "o1": True, "o2": False}


def stuck() -> Desk:
    """One of three may charge, and phone003's outlet stays on whatever it is told."""
    desk = Desk(outlets=MANY, percent=(50.0, 50.0, 60.0), max_charging=1)
    desk.live |= {"o0": False, "o1": False}
    desk.lying.add("o2")
    desk.go(60)
    assert desk.memory.outlets["o2"].distrust
    desk.percent |= {"phone001": 20.0, "phone002": 30.0}
    return desk


def test_an_outlet_that_is_stuck_on_counts_for_as_long_as_its_phone_takes_charge() -> None:
    desk = stuck()
    desk.go(2 * HOUR)
    assert desk.live == {"o0": False, "o1": False, "o2": True}, "the supply gives no more"
    desk.full.add("phone003")
    desk.go(60)
    assert desk.live == {"o0": True, "o1": False, "o2": True}
    desk.go(HOUR)
    assert desk.live["o0"] is True, "nor does it thin out the others"


def test_an_outlet_that_is_stuck_on_and_tells_nothing_may_be_charging() -> None:
    desk = stuck()
    desk.full.add("phone003")
    desk.mute.add("phone003")
    desk.broken.add("o2")
    desk.go(HOUR)
    assert desk.live == {"o0": False, "o1": False, "o2": True}
    assert "silent:phone003" in desk.memory.calls


def test_a_hub_that_does_not_cut_in_danger_keeps_no_others_charging() -> None:
    desk = Desk(outlets=MANY, percent=(50.0, 55.0, 45.0), max_charging=1)
    desk.broken.add("o0")
    desk.celsius["phone001"] = 51.0
    desk.go(120)
    assert desk.live == {"o0": True, "o1": False, "o2": False}


@given(st.text(min_size=1), st.floats(5, 80), st.floats(10, 95))
def test_no_window_is_wider_than_the_rack_file_says(name: str, low: float, more: float) -> None:
    limits = GuardLimits(charge_low_percent=low, charge_high_percent=min(100.0, low + more))
    window = window_of(name, limits)
    assert low <= window.low_percent < window.high_percent <= limits.charge_high_percent
    assert window == window_of(name, limits)


def test_windows_differ_from_outlet_to_outlet() -> None:
    windows = {window_of(f"phone{number:03}", GuardLimits()) for number in range(1, 139)}
    assert len(windows) > 130


def test_places_without_a_phone_are_not_watched() -> None:
    layout = Layout.of(["phone002"], {**MANY}, GuardLimits())
    assert list(layout.outlets) == ["o1"]
