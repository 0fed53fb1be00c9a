"""A large data set to one phone, to many by the pipelined broadcast, and to many by a copy each.

    fleetctl standin up --phones 8 --switches 2 --rate 200mbit && ansible-playbook site.yml
    python benchmarks/staging/run.py --rate 200mbit --phones 8 --megabytes 400

The controller's own link is shaped to `--rate` too, as a controller's in the same switch is: copies
to many phones share it. Every series begins with phones that have nothing, and ends when the data
set has taken its place, verified, on all of them. Series take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fleetctl.jobs import onphone, staging
from fleetctl.provision.shards import samples_per_shard, write_split
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from fleetctl.remote import Fleet
from fleetctl.state import State
from standin.fabric import plan_fabric
from standin.narrowing import narrow_controller
from trainer.formats import MANIFEST, DataManifest, DataSpec, ModelSpec, OptimizerSpec, Plan

NAME = "bench-staging"
SHAPE = (3, 224, 224)
TARGET_RATIO = 1.3
NEVER, ALWAYS = 1 << 62, 1
ONE, BROADCAST, COPIES = "one phone", "broadcast", "a copy each"


def make_data(folder: Path, megabytes: float) -> None:
    """Random images: nothing on the way could compress them."""
    folder.mkdir(parents=True, exist_ok=True)
    sample_bytes = int(np.prod(SHAPE)) + 8
    samples = int(megabytes * 1e6) // sample_bytes
    each = samples_per_shard(samples, sample_bytes)
    images = np.random.default_rng().integers(0, 256, (samples, *SHAPE), np.uint8)
    labels = np.arange(samples) % 10
    train = write_split(folder, "train", images, labels, each)
    test = write_split(folder, "test", images[:1], labels[:1], 1)
    manifest = DataManifest(NAME, 10, SHAPE, "uint8", time.time_ns(), train, test)
    manifest.write(folder / MANIFEST)


def a_plan(phones: Sequence[str]) -> Plan:
    return Plan(
        run="bench-staging",
        phones=tuple(phones),
        samples_per_rank=(1,) * len(phones),
        model=ModelSpec("digits-cnn"),
        data=DataSpec(NAME, NAME),
        epochs=1,
        optimizer=OptimizerSpec("sgd", {"lr": 0.1}),
    )


class Bench:
    def __init__(self, rack: Rack, paths: RackPaths, phones: Sequence[str]) -> None:
        self._rack, self._paths, self._phones = rack, paths, phones

    async def series(self, what: str) -> float:
        """Seconds until the data set is in its place everywhere."""
        phones = self._phones[:1] if what == ONE else self._phones
        staging.BROADCAST_FROM_BYTES = ALWAYS if what == BROADCAST else NEVER
        async with Fleet(self._rack, self._paths) as fleet:
            await self._clear(fleet)
            link = f"basename $(readlink -f {onphone.CURRENT})"
            release = (await fleet.run_on(self._phones[0], link)).stdout.strip()
            with State(self._paths.state_db) as state:
                room = staging.StageRoom(fleet, self._rack, state, self._paths.data, release, print)
                staged = await staging.stage_data(room, a_plan(phones))
            if set(staged.sent_to) != set(phones):
                raise RuntimeError(f"only {staged.sent_to} got it")
            await self._clear(fleet)
        return staged.seconds

    async def _clear(self, fleet: Fleet) -> None:
        data = onphone.DATA
        command = f"rm -rf {data}/{NAME} {data}/.{NAME}.*"
        answers = await fleet.run(self._phones, command, timeout_seconds=120)
        if bad := [answer.failure(name) for name, answer in answers.items() if not answer.ok]:
            raise RuntimeError("; ".join(bad))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rack", help="rack file, chosen like fleetctl's")
    parser.add_argument("--rate", required=True, help="of the phones' links, in tc's words")
    parser.add_argument("--phones", type=int, default=8)
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="the numbers")
    options = parser.parse_args()
    rack = load_rack(find_rack_file(options.rack))
    paths = RackPaths(rack.name)
    phones = rack.ring(rack.enrolled)[: options.phones]
    if len(phones) < options.phones:
        parser.error(f"--phones {options.phones}: the rack has {len(phones)}")
    bench = Bench(rack, paths, phones)
    seconds: dict[str, list[float]] = {ONE: [], BROADCAST: [], COPIES: []}
    make_data(paths.data / NAME, options.megabytes)
    try:
        with narrow_controller(plan_fabric(rack), options.rate):
            for _ in range(options.turns):
                for what, found in seconds.items():
                    found.append(asyncio.run(bench.series(what)))
                    print(f"{what}: {found[-1]:.1f} s", flush=True)
    finally:
        shutil.rmtree(paths.data / NAME)
    medians = {what: statistics.median(found) for what, found in seconds.items()}
    for what, median in medians.items():
        print(f"{what:12} {median:6.1f} s  {median / medians[ONE]:5.2f} times one phone")
    if options.json:
        document = {"megabytes": options.megabytes, "phones": len(phones), "rate": options.rate}
        options.json.write_text(json.dumps(document | {"seconds": seconds}, indent=2) + "\n")
    return 0 if medians[BROADCAST] <= TARGET_RATIO * medians[ONE] else 1


if __name__ == "__main__":
    sys.exit(main())
