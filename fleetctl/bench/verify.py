"""Verify the network between phones: `python -m fleetctl.bench.verify --rack FILE PHONE…`

Prints one JSON document: `lost`, pairs between which whole packets do not pass; `notes`, links that
work and are not as they should be; `goodput`, what a sample of pairs carries. It needs no secret:
what switches say comes from the switch exporter's records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetctl.bench.links import Flow, disjoint_pairs, ring_pairs, slow_phones
from fleetctl.bench.net import Network
from fleetctl.bench.nominal import nominal_mbits
from fleetctl.checks.links import BYTES_A_MEGABIT, LinkCounters, recent, unknown
from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.remote import Fleet


async def look(rack: Rack, names: Sequence[str], sample: int, seconds: float) -> dict[str, Any]:
    """The document, about the phones named; `sample` pairs are measured, one after the other."""
    paths = RackPaths(rack.name)
    async with Fleet(rack, paths) as fleet:
        network = Network(rack, fleet)
        lost = await network.mtu(ring_pairs(rack, names))
        flows = await network.alone(disjoint_pairs(rack, names)[:sample], seconds)
    return {
        "lost": [f"{pair}: {problem}" for pair, problem in lost.items()],
        "notes": notes(rack, names, flows, recent(rack), nominal_mbits(paths)),
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
    links: Mapping[str, LinkCounters] | None,
    nominal: float,
) -> list[str]:
    """What to look at: flows that failed or are slow, links in trouble, and what is not known."""
    told = links or {}
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
    missing = unknown(rack, links, names)
    return [*found, missing] if missing else found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.bench.verify")
    parser.add_argument("--rack", required=True, type=Path, help="the rack file")
    parser.add_argument("--sample", type=int, default=2, help="pairs to measure")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of them")
    parser.add_argument("phones", nargs="+")
    options = parser.parse_args()
    try:
        rack = load_rack(options.rack)
        found = asyncio.run(look(rack, options.phones, options.sample, options.seconds))
    except FleetError as problem:
        print(f"verify: {problem}", file=sys.stderr)
        return problem.exit_code
    print(json.dumps(found))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
