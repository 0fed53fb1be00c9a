"""A wire a phone against one medium for all: goodput of a flow by the number of phones.

    fleetctl standin up --phones 8 --switches 2 --rate 100mbit && ansible-playbook site.yml
    python benchmarks/net/run.py --rate 100mbit --svg docs/figures/net.svg

The pairs of `fleetctl bench net` cross the uplink between two switches. As it is, each phone has
its own wire. For the second series the uplink is shaped to the rate of one phone's link, in both
directions, so that all flows share it as phones in one room share the air. Real air is worse: it
collapses, where this is divided without loss. Only for stand-in racks of two plain bridges.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import asdict
from pathlib import Path

from fleetctl.bench.figures import draw_goodput
from fleetctl.bench.links import Spread, disjoint_pairs, spread
from fleetctl.bench.net import Network
from fleetctl.bench.plotting import render
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from fleetctl.remote import Fleet
from standin.fabric import plan_fabric
from standin.narrowing import narrow_uplinks


async def measure(rack: Rack, seconds: float) -> list[Spread]:
    """One pair, two pairs, … all pairs at the same time."""
    pairs = disjoint_pairs(rack, rack.enrolled)
    async with Fleet(rack, RackPaths(rack.name)) as fleet:
        network = Network(rack, fleet, lambda text: print(text, flush=True))
        rounds = [
            await network.together(pairs[:count], seconds) for count in range(1, len(pairs) + 1)
        ]
    return [found for flows in rounds if (found := spread(flows))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rack", help="rack file, chosen like fleetctl's")
    parser.add_argument("--rate", required=True, help="of a phone's link, in tc's words")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round")
    parser.add_argument("--svg", type=Path, help="the figure")
    parser.add_argument("--json", type=Path, help="the numbers")
    options = parser.parse_args()
    rack = load_rack(find_rack_file(options.rack))
    series = {"a wire each": asyncio.run(measure(rack, options.seconds))}
    with narrow_uplinks(plan_fabric(rack), options.rate):
        series["one medium for all"] = asyncio.run(measure(rack, options.seconds))
    for name, spreads in series.items():
        for point in spreads:
            mean, deviation = point.mean_mbits, point.deviation_mbits
            print(
                f"{name}: {point.phones} phones, {mean:.1f} Mb/s a flow, deviation {deviation:.1f}"
            )
    if options.svg:
        options.svg.write_bytes(render(draw_goodput(series), "svg"))
    if options.json:
        numbers = {name: [asdict(point) for point in points] for name, points in series.items()}
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
