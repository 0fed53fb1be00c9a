"""The ring beside MPI_Allreduce, on the phones of a rack, against the bound of the link.

For each number of phones, in one run: the goodput B of one link by iperf3 between two phones,
then our ring, MPI_Allreduce as it comes, and its tuned ring. The bound is 2(p-1)/p * S/B
(Patarasuk and Yuan, 2009). The rack is provisioned; its links may be shaped:

    fleetctl standin up --phones 8 --switches 1 --rate 200mbit
    ansible-playbook -i "$PHONERACK_RACK" site.yml
    python benchmarks/ring/on_rack.py --phones 4 8 --json docs/figures/ring.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fleetctl.cli.output import print_table, progress
from fleetctl.jobs import mpirun, onphone
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from fleetctl.rack.variables import TERMUX_HOME
from fleetctl.remote import Fleet

RUN = "bench-ring"
PROGRAM = Path(__file__).with_name("ring_bench.py")
TUNED = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm"]
RING_ALGORITHM = "4"
VARIANTS: dict[str, tuple[list[str], str]] = {
    "our ring": ([], "ring"),
    "MPI_Allreduce, default": ([], "allreduce"),
    "MPI_Allreduce, tuned ring": ([*TUNED, RING_ALGORITHM], "allreduce"),
}


@dataclass(frozen=True, slots=True)
class Measurement:
    phones: int
    what: str
    goodput_bytes_per_second: float
    bound_seconds: float
    best_seconds: float
    median_seconds: float
    ratio: float
    """best_seconds / bound_seconds."""


async def phone_says(fleet: Fleet, phone: str, command: str, limit_seconds: float = 180) -> str:
    result = await fleet.run_on(phone, command, timeout_seconds=limit_seconds)
    if not result.ok:
        raise SystemExit(f"benchmark: {result.failure(phone)}\n{result.stdout[-2000:]}")
    return result.stdout


async def goodput(fleet: Fleet, rack: Rack, sender: str, receiver: str, seconds: int) -> float:
    """Bytes/s that iperf3 carries from one phone to another, at the receiver."""
    server = asyncio.create_task(phone_says(fleet, receiver, "iperf3 --server --one-off --json"))
    await asyncio.sleep(1)
    address = rack.phones[receiver].address
    command = f"iperf3 --client {address} --time {seconds} --omit 1 --json"
    report = json.loads(await phone_says(fleet, sender, command))
    await server
    return float(report["end"]["sum_received"]["bits_per_second"]) / 8


async def reduce_times(
    fleet: Fleet, rack: Rack, phones: Sequence[str], what: str, options: argparse.Namespace
) -> list[float]:
    """Seconds of each repeat on the slowest phone."""
    parameters, collective = VARIANTS[what]
    world = mpirun.World(
        series=rack.versions.openmpi,
        run=RUN,
        ranks=len(phones),
        cidr=str(rack.network.cidr),
        folder=onphone.folder(RUN),
        environment={"PYTHONPATH": f"{TERMUX_HOME}/phonerack/current/python"},
    )
    program = [onphone.PYTHON, PROGRAM.name, collective]
    program += ["--megabytes", str(options.megabytes), "--repeats", str(options.repeats)]
    command, *arguments = mpirun.arguments(world, program)
    line = " ".join([command, *parameters, *(f"'{word}'" for word in arguments)])
    said = await phone_says(fleet, phones[0], line)
    results = [line[line.index("{") :] for line in said.splitlines() if '"seconds"' in line]
    return list(json.loads(results[-1])["seconds"])


async def measure(rack: Rack, options: argparse.Namespace) -> list[Measurement]:
    size_bytes = int(options.megabytes * 1e6)
    found = []
    async with Fleet(rack, RackPaths(rack.name)) as fleet:
        for count in options.phones:
            phones = rack.ring()[:count]
            folder = onphone.folder(RUN)
            await fleet.run(phones, f"mkdir -p {folder}")
            await fleet.put(phones, PROGRAM, f"{folder}/{PROGRAM.name}")
            addresses = mpirun.hostfile(rack.phones[phone].address for phone in phones)
            await fleet.run(phones[:1], f"cat >{folder}/hostfile", stdin=addresses)
            speed = await goodput(fleet, rack, phones[0], phones[1], options.iperf_seconds)
            bound = 2 * (count - 1) / count * size_bytes / speed
            for what in VARIANTS:
                progress().print(f"{count} phones: {what}", markup=False)
                times = await reduce_times(fleet, rack, phones, what, options)
                best, median = min(times), statistics.median(times)
                found.append(
                    Measurement(count, what, speed, bound, best, median, round(best / bound, 3))
                )
            await fleet.run(phones, f"rm -r {folder}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--phones", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--megabytes", type=float, default=37.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--iperf-seconds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="Write the results here, too.")
    options = parser.parse_args()
    rack = load_rack(find_rack_file())
    found = asyncio.run(measure(rack, options))
    print_table(
        ["PHONES", "WHAT", "B, Mb/s", "BOUND, s", "BEST, s", "MEDIAN, s", "BEST / BOUND"],
        (
            (
                one.phones,
                one.what,
                round(one.goodput_bytes_per_second * 8e-6, 1),
                round(one.bound_seconds, 3),
                round(one.best_seconds, 3),
                round(one.median_seconds, 3),
                one.ratio,
            )
            for one in found
        ),
    )
    if options.json:
        document = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "openmpi": rack.versions.openmpi,
            "megabytes": options.megabytes,
            "results": [asdict(one) for one in found],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
