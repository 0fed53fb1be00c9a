"""Phones in danger that cannot be reached for a while: what holds meanwhile, and what they and
their hubs are told once they answer again."""

from __future__ import annotations

from desk import Desk

from fleetctl.guard.actions import Call, Kill, Switch
from fleetctl.guard.orders import CALL_AFTER_SECONDS, EAGER_TRIES, RETRY_SECONDS


def lose(desk: Desk) -> None:
    """Be out of reach until guard tries to kill the phone's job once a minute only, and just
    did; then answer again."""
    desk.stops = False
    desk.mute.add("phone001")
    while len(desk.said(Kill)) <= EAGER_TRIES:
        desk.go(1)
    desk.go(2)
    desk.mute.clear()


def test_a_phone_that_comes_back_too_hot_has_its_job_killed_at_once() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    lose(desk)
    desk.celsius["phone001"] = 51.0
    desk.go(1)
    kills = [action for action in desk.since(1) if isinstance(action, Kill)]
    assert kills == [Kill("phone001", "its battery had 51.0 °C (limit 50)")]


def test_a_phone_that_comes_back_too_hot_calls_for_its_job_only_if_that_goes_on() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    lose(desk)
    desk.celsius["phone001"] = 51.0
    desk.deaf.add("phone001")
    desk.go(CALL_AFTER_SECONDS - 1)
    assert "not-killed" not in [call.what for call in desk.said(Call)]
    desk.go(3)
    (call,) = [call for call in desk.said(Call) if call.what == "not-killed"]
    assert call.message.startswith("phone001: its battery had 51.0 °C (limit 50), and nothing")


def test_a_latched_phone_that_answers_again_has_its_job_killed_at_once() -> None:
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.deaf.add("phone001")
    desk.go(1)
    lose(desk)
    desk.deaf.clear()
    desk.go(1)
    assert [action.kind for action in desk.since(1)].count("kill") == 1
    desk.go(1)
    assert desk.runs == {}


def test_what_could_not_be_killed_on_a_latched_phone_is_when_it_answers_again() -> None:
    """Its run is over as far as anybody knows; what is left of it there may heat it still."""
    desk = Desk()
    desk.runs = {"phone001": "digits-1"}
    desk.celsius["phone001"] = 51.0
    desk.deaf.add("phone001")
    desk.go(1)
    desk.mute.add("phone001")
    desk.go(3600)
    assert desk.runs == {}
    assert len(desk.said(Kill)) == EAGER_TRIES, "nobody answers: it is not told for ever"
    desk.restart()
    desk.deaf.clear()
    desk.mute.clear()
    desk.go(1)
    assert len(desk.said(Kill)) == EAGER_TRIES + 1
    desk.go(600)
    assert len(desk.said(Kill)) == EAGER_TRIES + 1


def test_a_hub_is_told_again_soon_when_a_silent_phone_comes_back_too_hot() -> None:
    desk = Desk()
    desk.broken.add("a")
    desk.mute.add("phone001")
    desk.go(190)
    order = desk.memory.orders
    while order["switch:a"].tries <= EAGER_TRIES or order["switch:a"].answered != desk.now:
        desk.go(1)
    desk.broken.clear()
    desk.mute.clear()
    desk.celsius["phone001"] = 51.0
    desk.go(RETRY_SECONDS + 2)
    assert desk.live["a"] is False


def test_the_word_of_a_hub_that_lied_proves_nothing_when_its_phone_falls_silent() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.celsius["phone001"] = 51.0
    desk.go(30)
    desk.mute.add("phone001")
    desk.go(240)
    assert [call.what for call in desk.said(Call)] == ["power-not-cut", "silent"]
    assert "its outlet did not cut its power" in desk.said(Call)[1].message
    assert "power-not-cut:phone001" in desk.memory.calls
    desk.lying.clear()
    desk.restart()
    desk.go(65)
    assert desk.live["a"] is False, "it was told again"
    assert "latched" not in [call.what for call in desk.said(Call)], (
        "nobody says that its power is cut"
    )
    desk.mute.clear()
    desk.go(62)
    assert desk.memory.calls.keys() == {"latched:phone001"}


def test_after_a_clear_the_word_of_a_hub_that_lied_counts_again() -> None:
    desk = Desk()
    desk.lying.add("a")
    desk.celsius["phone001"] = 51.0
    desk.go(30)
    desk.mute.add("phone001")
    desk.go(240)
    desk.lying.clear()
    desk.go(240, phone001="mended its hub")
    assert desk.live["a"] is False
    switches = len(desk.said(Switch))
    desk.go(600)
    assert len(desk.said(Switch)) == switches


def test_of_a_latched_phone_that_fell_silent_nothing_proves_that_its_power_is_cut() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.go(1)
    desk.mute.add("phone001")
    desk.go(240)
    (call,) = [call for call in desk.said(Call) if call.what == "latched"]
    assert "its power is cut, which nothing proves; look at it" in call.message
