"""The fewest exchanges of plugs, by the side of a search through all of them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.switches.moves import exchanges


def fewest_by_search(plugs: tuple[int | None, ...], wanted: dict[int, int]) -> int:
    """How many exchanges it takes at least, found by trying all of them.

    `plugs` are what sits in the ports 0, 1, …; `wanted` is the port of each plug that has one.
    """

    def done(state: tuple[int | None, ...]) -> bool:
        return all(state[port] == plug for plug, port in wanted.items())

    border, count = {plugs}, 0
    seen = set(border)
    while not any(map(done, border)):
        count += 1
        pairs = list(combinations(range(len(plugs)), 2))
        border = {exchanged(state, *pair) for state in border for pair in pairs} - seen
        seen |= border
    return count


def exchanged(state: tuple[int | None, ...], one: int, other: int) -> tuple[int | None, ...]:
    after = list(state)
    after[one], after[other] = after[other], after[one]
    return tuple(after)


@st.composite
def racks(draw: st.DrawFn) -> tuple[tuple[int | None, ...], dict[int, int]]:
    """Up to six ports with plugs in them, of which some belong somewhere."""
    ports = draw(st.integers(min_value=1, max_value=6))
    plugs = draw(
        st.permutations([*range(draw(st.integers(min_value=0, max_value=ports))), *[None] * ports])
    )[:ports]
    present = [plug for plug in plugs if plug is not None]
    known = draw(st.sets(st.sampled_from(present))) if present else set()
    goals = draw(st.permutations(range(ports)))
    return tuple(plugs), dict(zip(sorted(known), goals, strict=False))


@given(racks())
def test_no_shorter_list_of_exchanges_brings_every_phone_home(
    rack: tuple[tuple[int | None, ...], dict[int, int]],
) -> None:
    plugs, wanted = rack
    where = {plug: port for port, plug in enumerate(plugs)}
    found = exchanges({where[plug]: port for plug, port in wanted.items()})
    state = plugs
    for exchange in found:
        state = exchanged(state, exchange.one, exchange.other)
    assert all(state[port] == plug for plug, port in wanted.items())
    assert len(found) == fewest_by_search(plugs, wanted)


def test_a_port_for_two_plugs_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="two plugs"):
        exchanges({1: 3, 2: 3})
