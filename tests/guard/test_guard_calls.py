"""Calls to persons: none is lost, none is made twice once somebody is reached."""

from __future__ import annotations

from desk import Desk

from fleetctl.guard.actions import Call, Outcome
from fleetctl.guard.calls import EAGER_TRIES, LATER_SECONDS
from fleetctl.guard.memory import Memory


def latched(desk: Desk) -> list[Call]:
    return [call for call in desk.said(Call) if call.what == "latched"]


def test_who_was_reached_is_not_called_again_after_a_restart() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(20)
    desk.restart()
    desk.go(3600)
    assert len(latched(desk)) == 1


def test_a_call_that_was_under_way_at_a_restart_is_made_again() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.reachable = None
    desk.go(20)
    assert len(latched(desk)) == 1
    desk.restart()
    desk.reachable = True
    desk.go(60)
    desk.restart()
    desk.go(60)
    assert len(latched(desk)) == 2


def test_a_call_that_an_older_guard_began_is_made_again() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(20)
    kept = desk.memory.document()
    del kept["called"]
    for call in kept["calls"].values():
        for field in ("number", "reached", "tries", "failed", "said"):
            del call[field]
    desk.memory = Memory.from_document(kept, desk.now)
    desk.go(60)
    assert len(latched(desk)) == 2


def test_a_call_that_fails_is_made_again_until_somebody_is_reached() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.reachable = False
    desk.go(600)
    assert 8 <= len(latched(desk)) <= 10, "once a minute"
    desk.restart()
    desk.go(3600)
    before = len(latched(desk))
    assert before >= EAGER_TRIES
    desk.go(3 * LATER_SECONDS)
    assert 2 <= len(latched(desk)) - before <= 3, "guard does not give up"
    (call,) = desk.memory.calls.values()
    assert (call.reached, call.said) == (False, "no route")

    desk.reachable = True
    desk.go(LATER_SECONDS)
    after = len(latched(desk))
    desk.go(3600)
    assert len(latched(desk)) == after
    assert len({each.key for each in desk.said(Call)}) == len(desk.said(Call))


def test_what_is_settled_meanwhile_is_not_called_for_again() -> None:
    desk = Desk()
    desk.reachable = False
    desk.mute.add("phone001")
    desk.go(200)
    assert len(desk.said(Call)) == 1
    desk.mute.clear()
    desk.go(600)
    assert len(desk.said(Call)) == 1


def test_an_old_call_that_comes_back_late_proves_nothing_for_a_new_one() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.reachable = None
    desk.go(20)
    desk.go(20, phone001="looks fine to me")
    first, second = latched(desk)
    desk._coming.append(Outcome(first.key, True))
    desk.go(2)
    assert not desk.memory.calls["latched:phone001"].reached
    desk._coming.append(Outcome(second.key, True))
    desk.go(2)
    assert desk.memory.calls["latched:phone001"].reached
