"""Fans follow the warmest phone that they cool."""

from __future__ import annotations

from desk import Desk

from fleetctl.guard.actions import Blow, Call
from fleetctl.rack import Outlet

FANS = {"front": Outlet("front", ("phone001", "phone002"), ("fan", "{state}"))}


def told(desk: Desk) -> list[bool]:
    return [action.on for action in desk.said(Blow)]


def test_at_the_start_a_fan_is_told_what_it_shall_do() -> None:
    desk = Desk(fans=FANS)
    desk.go(5)
    assert told(desk) == [False]
    assert desk.blows == {"front": False}
    desk.go(3600)
    assert told(desk) == [False]


def test_it_starts_before_guard_warns_and_rests_when_all_are_cool() -> None:
    desk = Desk(fans=FANS)
    desk.celsius["phone002"] = 37.0
    said = desk.go(5)
    assert said == ["fan front: switches it on: phone002 has 37.0 °C"]
    desk.celsius["phone002"] = 34.5
    assert desk.go(60) == []
    desk.celsius["phone002"] = 33.0
    assert desk.go(5) == ["fan front: switches it off: its phones have 33.0 °C at most"]
    desk.celsius["phone003"] = 39.0
    assert desk.go(5) == [], "it cools others"


def test_a_fan_that_does_not_start_calls_a_person_and_is_tried_again() -> None:
    desk = Desk(fans=FANS)
    desk.broken.add("front")
    desk.celsius["phone001"] = 38.0
    desk.go(120)
    (call,) = desk.said(Call)
    assert call.what == "fan"
    assert call.message == "fan front does not start: exit code 1; phone001 has 38.0 °C"
    desk.broken.clear()
    desk.go(70)
    assert desk.blows == {"front": True}
    assert "fan:phone001" not in desk.memory.calls


def test_for_phones_that_nobody_hears_of_it_runs() -> None:
    desk = Desk(fans=FANS)
    desk.go(5)
    desk.mute.add("phone001")
    desk.go(190)
    assert desk.blows == {"front": True}
