"""Verify the network between phones: `python -m fleetctl.bench.verify --rack FILE PHONE…`

Standard input is what switches were asked: `{"phone001": {"speed_mbits": 1000, "full_duplex":
true}}`, or nothing. Prints one JSON document: `lost`, pairs between which whole packets do not
pass; `notes`, links that work and are not as they should be; `goodput`, what a sample of pairs
carries. It needs no secret: errors and flaps come from the switch exporter's records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetctl.bench.links import Flow, disjoint_pairs, ring_pairs, second_looks, slow_phones
from fleetctl.bench.net import Network
from fleetctl.bench.nominal import nominal_mbits
from fleetctl.checks.links import (
    BYTES_A_MEGABIT,
    Asked,
    LinkCounters,
    recent,
    unknown,
    with_asked,
)
from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.remote import Fleet


async def look(
    rack: Rack,
    names: Sequence[str],
    asked: Mapping[str, Asked],
    sample: int,
    seconds: float,
) -> dict[str, Any]:
    """The document, about the phones named; `sample` pairs are measured, one after the other, and
    where one is slow each of the two with another phone."""
    paths = RackPaths(rack.name)
    nominal = nominal_mbits(paths)
    async with Fleet(rack, paths) as fleet:
        network = Network(rack, fleet)
        lost = await network.mtu(ring_pairs(rack, names))
        flows = await network.alone(disjoint_pairs(rack, names)[:sample], seconds)
        flows += await network.alone(second_looks(flows, nominal), seconds)
    return {
        "lost": [f"{pair}: {problem}" for pair, problem in lost.items()],
        "notes": notes(rack, names, flows, recent(rack), asked, nominal),
        "goodput": [
            f"{flow.pair}: {flow.goodput_mbits:.0f} Mb/s"
            for flow in flows
            if flow.goodput_mbits is not None
        ],
    }


def notes(
    rack: Rack,
    names: Sequence[str],
    flows: Sequence[Flow],
    counted: Mapping[str, LinkCounters] | None,
    asked: Mapping[str, Asked],
    nominal: float,
) -> list[str]:
    """What to look at: flows that failed or are slow, links in trouble, and what is not known."""
    told = with_asked(counted, asked)
    speeds = {
        name: round(link.speed_bytes / BYTES_A_MEGABIT)
        for name, link in told.items()
        if link.speed_bytes is not None
    }
    found = [flow.problem for flow in flows if flow.problem]
    found += [f"{name}: {what}" for name, what in slow_phones(flows, nominal, speeds).items()]
    found += [
        f"{name}: {told[name].trouble}"
        for name in sorted(told)
        if name in names and told[name].trouble
    ]
    missing = unknown(rack, counted, names, asked)
    return [*found, missing] if missing else found


def read_asked(text: str) -> dict[str, Asked]:
    """What standard input tells; nothing where it is empty."""
    return {name: Asked(**link) for name, link in json.loads(text or "{}").items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.bench.verify")
    parser.add_argument("--rack", required=True, type=Path, help="the rack file")
    parser.add_argument("--sample", type=int, default=2, help="pairs to measure")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of them")
    parser.add_argument("phones", nargs="+")
    options = parser.parse_args()
    try:
        rack = load_rack(options.rack)
        asked = read_asked(sys.stdin.read())
        found = asyncio.run(look(rack, options.phones, asked, options.sample, options.seconds))
    except FleetError as problem:
        print(f"verify: {problem}", file=sys.stderr)
        return problem.exit_code
    print(json.dumps(found))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
