"""What a second run of site.yml costs, on a provisioned rack: nothing is left to be done.

Beside it, in the same run, `ansible phones -m ping`: over kept connections, and over new ones.
Phase `verify` (MPI hello, exporters, facts) is reported apart. Stand-in phones share the
controller's cores, so wall time holds their work too; CPU time is the controller's own.

    export PHONERACK_RACK=benchmarks/provision/rack.yml
    fleetctl standin up && ansible-playbook -i "$PHONERACK_RACK" site.yml
    python benchmarks/provision/run.py --json docs/figures/provision.json
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fleetctl.cli.output import print_table, progress
from fleetctl.rack import find_rack_file, load_rack

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BIN = Path(sys.executable).parent
MEMORY_PAUSE_SECONDS = 0.5
TARGET_CALLS, TARGET_PINGS, TARGET_CPU_SECONDS, TARGET_BYTES = 7, 7.0, 2.5, 1_500_000_000


@dataclass(frozen=True)
class Cost:
    """Of one command. `memory_bytes` is the proportional share of the whole process tree at its
    highest."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int


def tree(root: int) -> Iterator[int]:
    """A process and all below it."""
    yield root
    with suppress(OSError):
        for task in Path(f"/proc/{root}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def memory_bytes(root: int) -> int:
    total = 0
    for pid in tree(root):
        with suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += 1024 * int(text.partition("\nPss:")[2].split()[0])
    return total


def run(command: list[str], environment: Mapping[str, str], log: Path) -> Cost:
    """Run to the end, whatever the result."""
    highest, done = [0], threading.Event()
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=PROJECT, env=environment, stdout=file, stderr=subprocess.STDOUT
        )

        def watch() -> None:
            while not done.wait(MEMORY_PAUSE_SECONDS):
                highest[0] = max(highest[0], memory_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        process.wait()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(seconds, spent, highest[0])


def ping(rack_file: Path, folder: Path, environment: Mapping[str, str]) -> Cost:
    command = [str(BIN / "ansible"), "-i", str(rack_file), "phones", "-m", "ping", "-o"]
    return run(command, environment, folder / "ping.log")


def site(rack_file: Path, folder: Path, environment: Mapping[str, str], *tags: str) -> Any:
    """Cost and plays of one run of site.yml."""
    report = folder / "calls.json"
    command = [str(BIN / "ansible-playbook"), "-i", str(rack_file), "site.yml", *tags]
    calls = {
        "ANSIBLE_CALLBACK_PLUGINS": str(HERE),
        "ANSIBLE_CALLBACKS_ENABLED": "calls",
        "PHONERACK_CALLS": str(report),
    }
    cost = run(command, {**environment, **calls}, folder / "site.log")
    return cost, json.loads(report.read_text())


def most_calls(plays: list[dict[str, Any]], phones: set[str]) -> dict[str, int]:
    """Calls of a typical and of the busiest phone (the first stands for all in some plays)."""
    total: Counter[str] = Counter()
    for play in plays:
        total.update({name: n for name, n in play["calls"].items() if name in phones})
    counts = sorted(total.values())
    return {"typical": counts[len(counts) // 2], "most": counts[-1]} if counts else {}


def forks() -> int:
    config = configparser.ConfigParser()
    config.read(PROJECT / "ansible.cfg")
    return int(os.environ.get("ANSIBLE_FORKS") or config["defaults"]["forks"])


def measure(rack_file: Path, folder: Path) -> dict[str, Any]:
    phones = set(load_rack(rack_file).phones)
    environment = {**os.environ, "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg")}
    progress().print("ping over new connections")
    cold = ping(rack_file, folder, environment)
    progress().print("site.yml without verify")
    cost, report = site(rack_file, folder, environment, "--skip-tags", "verify")
    progress().print("ping over kept connections")
    warm = ping(rack_file, folder, environment)
    progress().print("verify")
    verify_cost, verify = site(rack_file, folder, environment, "-t", "verify")
    plays = report["plays"]
    return {
        "phones": len(phones),
        "forks": forks(),
        "ping_new": asdict(cold),
        "ping_kept": asdict(warm),
        "rerun": asdict(cost),
        "calls": most_calls(plays, phones),
        "changed": sum(play["changed"] for play in plays),
        "failed": report["failed"],
        "plays": [{key: play[key] for key in ("play", "seconds", "local")} for play in plays],
        "pings": cost.seconds / warm.seconds,
        "cpu_seconds_per_phone": cost.cpu_seconds / len(phones),
        "verify": {
            **asdict(verify_cost),
            "calls": most_calls(verify["plays"], phones),
            "failed": verify["failed"],
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--logs", type=Path, help="keep the logs of the runs in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.logs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = measure(find_rack_file(), folder)
    rows = [
        ("calls a phone", found["calls"].get("typical", 0), TARGET_CALLS),
        ("times a ping", round(found["pings"], 2), TARGET_PINGS),
        ("CPU s a phone", round(found["cpu_seconds_per_phone"], 2), TARGET_CPU_SECONDS),
        ("memory, MB", found["rerun"]["memory_bytes"] // 1_000_000, TARGET_BYTES // 1_000_000),
        ("changed", found["changed"], 0),
    ]
    print_table(["", "MEASURED", "TARGET"], ((name, str(is_), str(at)) for name, is_, at in rows))
    print_table(
        ["PLAY", "SECONDS"], ((play["play"], f"{play['seconds']:.0f}") for play in found["plays"])
    )
    if options.json:
        options.json.write_text(json.dumps({"version": 1, **found}, indent=2) + "\n")
    failed = found["failed"] or found["verify"]["failed"]
    sys.exit(1 if failed or any(is_ > at for _, is_, at in rows) else 0)


if __name__ == "__main__":
    main()
