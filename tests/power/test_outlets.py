"""Outlets off and on: phones drained first, and believed only when they say so themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hub import Hub

from fleetctl.power import battery
from fleetctl.power.actuator import Actuator, Ran
from fleetctl.power.errors import BusyError, LatchedError
from fleetctl.power.outlets import LATCH_DRAIN, OFF_DRAIN, Fed, OutletPower
from fleetctl.rack import InputError, Outlet
from fleetctl.state import State


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(tmp_path / "hub")
    made.folder.mkdir()
    made.outlet("a", "phone001", "phone002")
    made.outlet("b", "phone003")
    return made


def power(hub: Hub, state: State) -> OutletPower:
    rack: Any = SimpleNamespace(outlets=hub.outlets)
    fleet: Any = hub
    return OutletPower(
        rack, state, fleet, Actuator(), "sam",
        settle_seconds=0.1, answer_seconds=0.1, pause_seconds=0,
    )  # fmt: skip


def verdicts(outcomes: list[Fed]) -> dict[str, str | None]:
    return {each.phone: each.verdict for each in outcomes}


def drains(state: State) -> dict[str, list[str]]:
    return {
        name: [drain.who for drain in facts.drains]
        for name, facts in state.phones().items()
        if facts.drains
    }


def test_all_phones_of_an_outlet_are_drained_cut_and_given_back(hub: Hub, state: State) -> None:
    off = asyncio.run(power(hub, state).off(["phone002"]))
    assert verdicts(off) == {"phone001": "done", "phone002": "done"}
    assert off[0].hub == "outlet a is off"
    assert (hub.state("a"), hub.state("b")) == ("off", "on")
    assert drains(state) == {"phone001": [OFF_DRAIN], "phone002": [OFF_DRAIN]}

    shown = asyncio.run(power(hub, state).show(["phone001", "phone003"]))
    assert [(each.phone, each.plugged) for each in shown] == [
        ("phone001", False),
        ("phone003", True),
    ]

    on = asyncio.run(power(hub, state).on(["phone001"]))
    assert verdicts(on) == {"phone001": "done", "phone002": "done"}
    assert drains(state) == {}


def test_a_hub_that_lies_is_found_out(hub: Hub, state: State) -> None:
    hub.lying.add("a")
    off = asyncio.run(power(hub, state).off(["phone001"]))
    assert verdicts(off) == {"phone001": "power not cut", "phone002": "power not cut"}
    assert not off[0].ok
    assert off[0].hub == "outlet a is off"
    assert drains(state), "nobody may use them until that is known"


def test_a_command_that_fails_is_told_with_its_words(hub: Hub, state: State) -> None:
    (hub.folder / "broken").touch()
    off = asyncio.run(power(hub, state).off(["phone003"]))
    assert verdicts(off) == {"phone003": "power not cut"}
    assert off[0].hub == "exit code 7: outlet b is off"


def test_a_phone_that_does_not_answer_is_unverified(hub: Hub, state: State) -> None:
    hub.silent.add("phone002")
    off = asyncio.run(power(hub, state).off(["phone001"]))
    assert verdicts(off) == {"phone001": "done", "phone002": "unverified"}
    assert off[1].problem == "phone002 stopped answering"


def test_a_neighbours_job_keeps_the_outlet_on(hub: Hub, state: State) -> None:
    state.drain(["phone001"], who="sam", why="swollen")
    state.allocate("run-1", ["phone002"])
    with pytest.raises(BusyError, match="phone002 by run run-1"):
        asyncio.run(power(hub, state).off(["phone001"]))
    assert hub.state("a") == "on"
    assert drains(state) == {"phone001": ["sam"]}


def test_an_earlier_drain_of_its_own_outlives_a_refusal(hub: Hub, state: State) -> None:
    asyncio.run(power(hub, state).off(["phone003"]))
    state.undrain(["phone003"])
    state.allocate("run-1", ["phone003"])
    state.drain(["phone003"], who=OFF_DRAIN, why="off since yesterday", origin="check")
    with pytest.raises(BusyError):
        asyncio.run(power(hub, state).off(["phone003"]))
    assert drains(state) == {"phone003": [OFF_DRAIN]}


def test_an_outlet_that_gives_no_power_leaves_its_phones_drained(hub: Hub, state: State) -> None:
    asyncio.run(power(hub, state).off(["phone001", "phone003"]))
    (hub.folder / "broken").touch()
    on = asyncio.run(power(hub, state).on(["phone001"]))
    assert verdicts(on) == {"phone001": "power not given", "phone002": "power not given"}
    assert list(drains(state)) == ["phone001", "phone002", "phone003"]
    hub.silent |= {"phone003"}
    assert verdicts(asyncio.run(power(hub, state).on(["phone003"]))) == {"phone003": "unverified"}
    assert "phone003" in drains(state), "nobody says that it has power"


def test_a_silent_neighbour_does_not_keep_an_outlet_recorded_as_off(hub: Hub, state: State) -> None:
    asyncio.run(power(hub, state).off(["phone001", "phone003"]))
    hub.silent |= {"phone002", "phone003"}
    on = asyncio.run(power(hub, state).on(["phone001", "phone003"]))
    assert verdicts(on) == {
        "phone001": "done",
        "phone002": "unverified",
        "phone003": "unverified",
    }
    assert drains(state) == {}


def test_what_guard_has_latched_stays_off(hub: Hub, state: State) -> None:
    state.drain(["phone002"], who=LATCH_DRAIN, why="its battery had 51.0 °C", origin="check")
    for act in (power(hub, state).on, power(hub, state).cycle):
        with pytest.raises(LatchedError, match=r"phone002: its battery had 51\.0 °C; look at it"):
            asyncio.run(act(["phone001"]))
    assert not (hub.folder / "a").exists(), "nothing was switched"


def test_cycle_gives_the_power_back_even_where_it_was_not_cut(hub: Hub, state: State) -> None:
    assert verdicts(asyncio.run(power(hub, state).cycle(["phone003"]))) == {"phone003": "done"}
    hub.lying.add("b")
    assert verdicts(asyncio.run(power(hub, state).cycle(["phone003"]))) == {
        "phone003": "power not cut"
    }
    assert hub.state("b") == "on"
    assert drains(state) == {}


@pytest.mark.parametrize("at", ["off", "looked", "on"])
def test_a_cycle_that_is_interrupted_gives_the_power_back(
    hub: Hub, state: State, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """At the command that switches off, while phones are asked, at the command that switches on."""
    here = power(hub, state)
    interrupted: list[str] = []
    plain_switch, plain_look = Actuator.switch, battery.look

    async def interrupt(point: str) -> None:
        if point == at and not interrupted:
            interrupted.append(point)
            raise asyncio.CancelledError

    async def switch(self: Actuator, outlet: Outlet, on: bool) -> Ran:
        await interrupt("on" if on else "off")
        return await plain_switch(self, outlet, on)

    async def look(*given: Any) -> Any:
        await interrupt("looked")
        return await plain_look(*given)

    monkeypatch.setattr(Actuator, "switch", switch)
    monkeypatch.setattr(battery, "look", look)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(here.cycle(["phone001"]))
    assert interrupted == [at]
    assert hub.state("a") == "on"
    assert drains(state) == {}


def test_a_cycle_that_cannot_give_the_power_back_says_who_may_lack_it(
    hub: Hub, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    here = power(hub, state)
    here.say = said.append

    async def look(*_: Any) -> Any:
        (hub.folder / "broken").touch()
        raise asyncio.CancelledError

    monkeypatch.setattr(battery, "look", look)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(here.cycle(["phone001"]))
    assert list(drains(state)) == ["phone001", "phone002"]
    assert "phone[001-002] may be without power" in said[-1]
    assert "--outlet on" in said[-1]


def test_a_phone_without_an_outlet_is_bad_input(hub: Hub, state: State) -> None:
    with pytest.raises(InputError, match="phone009: the rack file gives no outlet"):
        asyncio.run(power(hub, state).off(["phone001", "phone009"]))
    assert drains(state) == {}
    assert cast(Any, hub).asked == 0
