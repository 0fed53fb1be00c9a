"""Time from `fleetctl launch` to the first iteration, against a hand-written mpirun.

Both run the same trainer program on the same phones, in turns, in one run of this benchmark. By
hand means: the run folder lies on every phone already, and one ssh to the head phone starts a
plain `mpirun --hostfile … python -m trainer plan.json` there. Preflight is shown apart. Times are
taken by this machine's clock; the head phone's is compared with it in every turn.

    ansible-playbook -i "$PHONERACK_RACK" site.yml && fleetctl data add digits
    python benchmarks/launch/launch_time.py --phones 6 --turns 6 --json docs/figures/launch.json

`--without-torch` starts a program that sums one number over all ranks instead, for racks of many
phones; the sum counts as its first iteration.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fleetctl.cli.output import print_table, progress
from fleetctl.jobs import onphone, runs
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote import Fleet

JOB = """\
train:
  model: digits-cnn
  data: digits
  epochs: 1
  global_batch: 96
  optimizer: {name: sgd, lr: 0.1}
"""
SUM = """\
import json, time
import numpy as np
from trainer.exchange.engine import Engine
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange

engine = Engine(MpiTransport, Exchange())
total = engine.all_reduce(np.ones(1, np.float32))[0]
if engine.rank == 0:
    assert total == engine.size
    with open("first.jsonl", "w") as file:
        print(json.dumps({"time": time.time(), "kind": "iteration"}), file=file)
engine.close()
"""
HAND = "bench-launch"
FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds until the first iteration."""

    by_hand_seconds: float
    launch_seconds: float
    """Preflight excluded."""
    preflight_seconds: float


async def first_iteration(fleet: Fleet, head: str, run: str) -> float:
    """When the run's first iteration ended, by this machine's clock."""
    before = time.time()
    clock = (await fleet.run_on(head, "date +%s.%N")).stdout
    skew_seconds = float(clock) - (before + time.time()) / 2
    shown = await fleet.run_on(head, f"grep -m 1 '\"iteration\"}}' {onphone.folder(run)}/*.jsonl")
    if not shown.ok:
        raise SystemExit(f"benchmark: run {run} on {head} had no iteration")
    return float(json.loads(shown.stdout)["time"]) - skew_seconds


def finish(command: list[str]) -> float:
    """Run a command to its end; returns when it began."""
    began = time.time()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"benchmark: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return began


async def by_launch(
    fleet: Fleet, paths: RackPaths, job: Path, phones: int
) -> tuple[Turn, RunFolder]:
    began = finish([FLEETCTL, "launch", "-n", str(phones), str(job)])
    run = runs.find(paths.runs, None)
    preflight_seconds = float(run.events()[0]["preflight_seconds"])
    first = await first_iteration(fleet, run.summary().phones[0], run.name)
    return Turn(0.0, first - began - preflight_seconds, preflight_seconds), run


async def by_hand(
    fleet: Fleet, rack: Rack, paths: RackPaths, run: RunFolder, program: str
) -> float:
    """The same once more, started as a person would who has prepared everything."""
    phones = run.summary().phones
    there, here = onphone.folder(HAND), onphone.folder(run.name)
    await fleet.run(
        phones,
        f"rm -rf {there} && mkdir {there} && cd {here} && cp hostfile {there} && "
        f"for file in *.py; do [ ! -e $file ] || cp $file {there}; done && "
        f"[ ! -e plan.json ] || sed 's/{run.name}/{HAND}/' plan.json >{there}/plan.json",
        timeout_seconds=30,
    )
    line = (
        f"cd {there} && export PYTHONPATH=$HOME/phonerack/current/python && "
        f"mpirun --hostfile hostfile -n {len(phones)} --map-by ppr:1:node --bind-to none "
        f"-x PYTHONPATH {onphone.PYTHON} {program} >mpirun.log 2>&1"
    )
    head = phones[0]
    began = finish(ssh(rack, paths, head, line))
    return await first_iteration(fleet, head, HAND) - began


def ssh(rack: Rack, paths: RackPaths, phone: str, line: str) -> list[str]:
    return [
        *("ssh", "-p", str(PHONE_PORT), "-i", str(paths.operator), "-o", "IdentitiesOnly=yes"),
        *("-o", f"UserKnownHostsFile={paths.known_hosts}", "-o", f"HostKeyAlias={phone}"),
        f"phone@{rack.phones[phone].address}",
        line,
    ]


async def measure(phones: int, turns: int, torch: bool, say: Callable[[str], None]) -> list[Turn]:
    program = "-m trainer plan.json" if torch else "sum.py"
    rack = load_rack(find_rack_file(None))
    paths = RackPaths(rack.name)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "bench-launch.yml"
        job.write_text(JOB if torch else "command: [python, sum.py]\n")
        (Path(folder) / "sum.py").write_text(SUM)
        async with Fleet(rack, paths) as fleet:
            _, warm = await by_launch(fleet, paths, job, phones)
            await by_hand(fleet, rack, paths, warm, program)
            found = []
            for number in range(turns):
                # Each goes first as often as the other.
                hand = await by_hand(fleet, rack, paths, warm, program) if number % 2 else None
                turn, _ = await by_launch(fleet, paths, job, phones)
                hand = hand or await by_hand(fleet, rack, paths, warm, program)
                found.append(replace(turn, by_hand_seconds=hand))
                say(f"turn {number + 1}: {found[-1]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, default=6)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--without-torch", action="store_true", help="sum one number instead")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    torch = not options.without_torch
    turns = asyncio.run(measure(options.phones, options.turns, torch, progress().print))
    hand = statistics.median(turn.by_hand_seconds for turn in turns)
    launch = statistics.median(turn.launch_seconds for turn in turns)
    preflight = statistics.median(turn.preflight_seconds for turn in turns)
    print_table(
        ["", "MEDIAN", "AGAINST BY HAND"],
        [
            ["mpirun by hand", f"{hand:.2f} s", "1.00"],
            ["launch, without preflight", f"{launch:.2f} s", f"{launch / hand:.2f}"],
            ["preflight", f"{preflight:.2f} s", ""],
        ],
    )
    if options.json:
        figures = {
            "benchmark": "launch",
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "phones": options.phones,
            "ratio": round(launch / hand, 3),
            "turns": [asdict(turn) for turn in turns],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
