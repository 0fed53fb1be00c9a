"""The fewest exchanges of plugs that bring every phone to its port."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange[Spot: Hashable]:
    """Exchange the plugs in two ports; one of them may be empty, then a plug just moves."""

    one: Spot
    other: Spot


def exchanges[Spot: Hashable](wanted: Mapping[Spot, Spot]) -> list[Exchange[Spot]]:
    """Exchanges, in their order, after which what was in each port is where it is `wanted`.

    Every port is wanted by one plug at most. What sits in a wanted port and is itself wanted
    nowhere goes wherever its exchange brings it. No shorter list does it: an exchange puts at
    best one more plug into its place, and two only where it closes a circle.
    """
    if len(set(wanted.values())) < len(wanted):
        raise ValueError("a port is wanted by two plugs")
    away = {here: there for here, there in wanted.items() if here != there}
    return [Exchange(one, other) for chain in _chains(away) for one, other in _along(chain, away)]


def _chains[Spot: Hashable](away: Mapping[Spot, Spot]) -> Iterator[list[Spot]]:
    """Runs of ports, each wanted by the plug in the one before; circles begin anywhere."""
    done: set[Spot] = set()
    starts = [here for here in away if here not in set(away.values())]
    for start in (*starts, *away):
        chain = []
        here = start
        while here in away and here not in done:
            done.add(here)
            chain.append(here)
            here = away[here]
        if chain:
            yield chain


def _along[Spot: Hashable](
    chain: list[Spot], away: Mapping[Spot, Spot]
) -> Iterator[tuple[Spot, Spot]]:
    last = away[chain[-1]]
    if last == chain[0]:
        # A circle: the first port hands its plug on, and gets the one that goes on next.
        yield from ((chain[0], there) for there in chain[1:])
    else:
        # A run: the plug at its end goes first, into a port that nobody claims.
        yield from ((here, away[here]) for here in reversed(chain))
