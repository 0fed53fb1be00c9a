"""What measured links mean: classes, spreads, and who is measured with whom. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetctl.rack import Rack

type LinkClass = Literal["full speed", "below full speed", "USB 2 hub", "100 Mb/s link", "slower"]

_FULL, _USB_2, _FAST_ETHERNET = 0.7, 0.2, 0.05
"""Shares of the nominal rate from which on a link is of a class: USB 2 carries about 300 of
1000 Mb/s, Fast Ethernet 94."""

_USB_2_MOST = 0.45
_GIGABIT = 1000

_HEADERS_BYTES = 28
"""IPv4 and UDP, within the MTU."""


def link_class(goodput_mbits: float, nominal_mbits: float) -> LinkClass:
    """What kind of link carries so much, where `nominal_mbits` would be right."""
    share = goodput_mbits / nominal_mbits
    if share >= _FULL:
        return "full speed"
    if share >= _USB_2_MOST:
        return "below full speed"
    if share >= _USB_2:
        return "USB 2 hub"
    return "100 Mb/s link" if share >= _FAST_ETHERNET else "slower"


@dataclass(frozen=True, slots=True)
class Pair:
    """One flow, from a phone to a phone."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender} > {self.receiver}"


@dataclass(frozen=True, slots=True)
class Flow:
    """What one pair carried. `goodput_mbits` is None where `problem` says why not."""

    pair: Pair
    goodput_mbits: float | None
    retransmits: int | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Flows of so many phones at the same time, each phone in one of them."""

    phones: int
    mean_mbits: float
    deviation_mbits: float
    flows: int


def disjoint_pairs(rack: Rack, names: Iterable[str]) -> list[Pair]:
    """All of `names` in pairs, each phone once.

    A phone's partner stands half a ring away, so that with several switches the pairs cross
    uplinks, as a job's traffic does.
    """
    ring = rack.ring(names)
    half = len(ring) // 2
    return [Pair(ring[place], ring[place + half]) for place in range(half)]


def ring_pairs(rack: Rack, names: Iterable[str]) -> list[Pair]:
    """Each of `names` sends to the next in ring order: every link is tried in both directions."""
    ring = rack.ring(names)
    if len(ring) < 2:
        return []
    return [Pair(name, ring[(place + 1) % len(ring)]) for place, name in enumerate(ring)]


def steps(pairs: int) -> list[int]:
    """Numbers of pairs to measure at the same time: one, then twice as many, up to all."""
    found = []
    count = 1
    while count < pairs:
        found.append(count)
        count *= 2
    return [*found, pairs] if pairs else []


def spread(flows: Sequence[Flow]) -> Spread | None:
    """Mean and standard deviation; None where nothing was carried."""
    carried = [flow.goodput_mbits for flow in flows if flow.goodput_mbits is not None]
    if not carried:
        return None
    deviation = statistics.pstdev(carried)
    return Spread(2 * len(flows), statistics.fmean(carried), deviation, len(carried))


def _best(flows: Sequence[Flow]) -> tuple[dict[str, float], dict[str, set[str]]]:
    """What each phone carried in the best of its flows in Mb/s, and whom it was measured with.

    A slow phone makes all its flows slow, its partners only the one.
    """
    best: dict[str, float] = {}
    partners: dict[str, set[str]] = {}
    for flow in flows:
        if flow.goodput_mbits is not None:
            for name, other in (
                (flow.pair.sender, flow.pair.receiver),
                (flow.pair.receiver, flow.pair.sender),
            ):
                best[name] = max(best.get(name, 0.0), flow.goodput_mbits)
                partners.setdefault(name, set()).add(other)
    return best, partners


def second_looks(flows: Sequence[Flow], nominal_mbits: float) -> list[Pair]:
    """Phones that may be slow because their partners are, each with one that is known to be fast.

    Where nobody is fast yet, with the fastest of those that it was not measured with.
    """
    best, partners = _best(flows)
    fast = [name for name in best if link_class(best[name], nominal_mbits) == "full speed"]
    found: list[Pair] = []
    for name in best:
        others = [other for other in fast or best if other not in {name, *partners[name]}]
        if name in fast or partners[name] & set(fast) or not others:
            continue
        pair = Pair(name, max(others, key=best.__getitem__))
        if Pair(pair.receiver, pair.sender) not in found:
            found.append(pair)
    return found


def slow_phones(
    flows: Sequence[Flow], nominal_mbits: float, link_mbits: Mapping[str, int | None]
) -> dict[str, str]:
    """Phones whose link is below full speed, with its class.

    A phone is as fast as the best of its flows. What the switch says of the link (`link_mbits`)
    tells a slow link from a fast one with something slow behind it, and which of two phones is
    slow that were measured with each other only; else both stand under one name.
    """
    best, partners = _best(flows)
    found = {}
    for name, goodput in best.items():
        kind = link_class(goodput, nominal_mbits)
        if kind == "full speed":
            continue
        what = f"{kind}: carries {goodput:.0f} of {nominal_mbits:.0f} Mb/s"
        twins = sorted({name, *partners[name]})
        if len(twins) == 2 and all(len(partners[twin]) == 1 for twin in twins):
            speeds = {twin: link_mbits.get(twin) for twin in twins}
            slow = [
                twin for twin, mbits in speeds.items() if mbits is not None and mbits < _GIGABIT
            ]
            if len(slow) != 1:
                fine = all(mbits is not None and mbits >= _GIGABIT for mbits in speeds.values())
                other = f"carries {goodput:.0f} Mb/s over two links of 1000 Mb/s"
                found[" or ".join(twins)] = other if fine else what
            elif slow == [name]:
                found[name] = what
            continue
        speed = link_mbits.get(name)
        if kind == "100 Mb/s link" and speed is not None and speed >= _GIGABIT:
            what = f"carries {goodput:.0f} Mb/s over a link of {speed} Mb/s"
        found[name] = what
    return found


def payload_bytes(mtu_bytes: int) -> int:
    """The largest UDP payload that an MTU lets through in one packet."""
    return mtu_bytes - _HEADERS_BYTES
