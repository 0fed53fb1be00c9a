"""Fans follow the warmest phone that they cool."""

from __future__ import annotations

from desk import Desk

from fleetctl.guard.actions import Blow, Call
from fleetctl.guard.fans import REST_AGAIN_SECONDS, RUN_AGAIN_SECONDS
from fleetctl.guard.memory import Memory
from fleetctl.rack import Outlet

FANS = {"front": Outlet("front", ("phone001", "phone002"), ("fan", "{state}"))}


def told(desk: Desk) -> list[bool]:
    return [action.on for action in desk.said(Blow)]


def test_at_the_start_a_fan_is_told_what_it_shall_do() -> None:
    desk = Desk(fans=FANS)
    desk.go(5)
    assert told(desk) == [False]
    assert desk.blows == {"front": False}
    desk.go(REST_AGAIN_SECONDS - 20)
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


def test_a_fan_that_lost_what_it_was_told_is_told_again() -> None:
    """A plug that starts anew may be off, or on."""
    desk = Desk(fans=FANS)
    desk.celsius["phone002"] = 37.0
    desk.go(5)
    desk.blows["front"] = False
    said = desk.go(RUN_AGAIN_SECONDS + 20)
    assert said == ["fan front: switches it on: phone002 has 37.0 °C"]
    assert desk.blows == {"front": True}

    desk.celsius["phone002"] = 30.0
    desk.go(5)
    desk.blows["front"] = True
    desk.go(REST_AGAIN_SECONDS + 20)
    assert desk.blows == {"front": False}
    assert told(desk) == [False, True, True, False, False]


def test_a_fan_that_runs_and_cannot_be_told_again_calls_a_person() -> None:
    desk = Desk(fans=FANS)
    desk.celsius["phone002"] = 37.0
    desk.go(5)
    desk.broken.add("front")
    desk.go(RUN_AGAIN_SECONDS + 120)
    assert [call.what for call in desk.said(Call)] == ["fan"]
    desk.broken.clear()
    desk.go(90)
    assert desk.memory.calls == {}


def test_when_a_fan_was_told_is_known_after_a_restart_and_to_no_older_guard() -> None:
    desk = Desk(fans=FANS)
    desk.celsius["phone002"] = 37.0
    desk.go(60)
    desk.restart()
    desk.go(60)
    assert told(desk) == [False, True]
    kept = desk.memory.document()
    del kept["fans_told"]
    desk.memory = Memory.from_document(kept, desk.now)
    desk.go(5)
    assert told(desk) == [False, True, True]


def test_a_guard_whose_clock_was_set_back_tells_fans_again_in_time() -> None:
    desk = Desk(fans=FANS)
    desk.celsius["phone002"] = 37.0
    desk.go(60)
    desk.now -= 86_400
    desk.restart()
    desk.go(RUN_AGAIN_SECONDS)
    assert told(desk) == [False, True, True]
