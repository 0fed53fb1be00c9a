"""`ansible-inventory --list` of a large rack, against a trivial plugin that adds the same.

Both run in turns on the same machine; the plugin of the rack reads a rack file in groups of one
switch, as people write it, and the same rack with one entry a phone and a lock file. How long the
rack's own model takes to load and validate stands beside it.

    python benchmarks/inventory/run.py --json docs/figures/inventory.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path

from fleetctl.cli.output import print_table
from fleetctl.rack import load_rack

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
PORTS = 48
HEAD = (
    "rack: big\n"
    "network: {cidr: 10.64.0.0/16, medium: ethernet, dhcp: theirs, controller: 10.64.255.1}\n"
    "switches:\n"
)
TARGET_RATIO, TARGET_LOAD_SECONDS = 1.3, 1.0


@dataclass(frozen=True)
class Figure:
    """Medians. CPU time is the command's with all its children."""

    rack_file: str
    phones: int
    load_seconds: float
    load_cpu_seconds: float
    list_seconds: float
    list_cpu_seconds: float
    trivial_seconds: float
    trivial_cpu_seconds: float

    @property
    def ratio(self) -> float:
        return self.list_cpu_seconds / self.trivial_cpu_seconds


def address(number: int) -> IPv4Address:
    return IPv4Address("10.64.1.0") + number


def grouped(phones: int) -> str:
    """A rack file with one entry a switch."""
    text = HEAD
    edges = range(0, phones, PORTS)
    text += "".join(f"  sw{place + 1}: {{ports: {PORTS}}}\n" for place in range(len(edges)))
    text += "phones:\n"
    for place, first in enumerate(edges):
        last = min(first + PORTS, phones) - 1
        text += (
            f"  - {{names: 'phone[{first:04}-{last:04}]', switch: sw{place + 1}, model: SM-G975F,"
            f" ports: 1-{last - first + 1}, addresses: {address(first)}-{address(last)}}}\n"
        )
    return text


def single(phones: int) -> str:
    """The same rack with one entry a phone."""
    text = HEAD
    text += "".join(f"  sw{n + 1}: {{ports: {PORTS}}}\n" for n in range(-(-phones // PORTS)))
    text += "phones:\n"
    for number in range(phones):
        text += (
            f"  - {{names: 'phone{number:04}', switch: sw{number // PORTS + 1}, model: SM-G975F,"
            f" ports: {number % PORTS + 1}, addresses: {address(number)}}}\n"
        )
    return text


def lock(phones: int) -> str:
    text = "rack: big\nversion: 1\nphones:\n"
    for number in range(phones):
        mac = f"02:00:00:00:{number // 256:02x}:{number % 256:02x}"
        text += f"  phone{number:04}: {{serial: R58M{number:07}, mac: '{mac}', api_level: 31}}\n"
    return text


def listing(inventory: Path, *, trivial: bool) -> tuple[float, float]:
    """Wall and CPU seconds of one `ansible-inventory --list`."""
    environment = dict(os.environ, ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"))
    if trivial:
        environment |= {
            "ANSIBLE_INVENTORY_PLUGINS": str(HERE),
            "ANSIBLE_INVENTORY_ENABLED": "trivial",
        }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command(inventory), check=True, env=environment, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, spent


def command(inventory: Path, *more: str) -> list[str]:
    program = Path(sys.executable).with_name("ansible-inventory")
    return [str(program), "-i", str(inventory), "--list", *more]


def load_seconds(rack_file: Path) -> tuple[float, float]:
    """Wall and CPU seconds, the first time in a process; the latter with all imports."""
    code = (
        "import sys, time; from fleetctl.rack import load_rack; began = time.perf_counter();"
        "load_rack(sys.argv[1]); print(time.perf_counter() - began, time.process_time())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, rack_file], check=True, capture_output=True, text=True
    )
    wall, spent = map(float, done.stdout.split())
    return wall, spent


def measure(kind: str, folder: Path, phones: int, turns: int) -> Figure:
    rack_file, same = folder / "rack.yml", folder / "same.json"
    rack_file.write_text(grouped(phones) if kind == "one entry a switch" else single(phones))
    (folder / "rack.lock.yml").write_text(lock(phones))
    if len(load_rack(rack_file).phones) != phones:
        sys.exit(f"{rack_file} has not {phones} phones")
    environment = dict(os.environ, ANSIBLE_CONFIG=str(PROJECT / "ansible.cfg"))
    with same.open("w") as file:
        subprocess.run(command(rack_file, "--export"), check=True, env=environment, stdout=file)
    ours, theirs, loads = [], [], []
    for _ in range(turns):
        ours.append(listing(rack_file, trivial=False))
        theirs.append(listing(same, trivial=True))
        loads.append(load_seconds(rack_file))
    median = statistics.median
    return Figure(
        rack_file=kind,
        phones=phones,
        load_seconds=median(wall for wall, _ in loads),
        load_cpu_seconds=median(spent for _, spent in loads),
        list_seconds=median(wall for wall, _ in ours),
        list_cpu_seconds=median(spent for _, spent in ours),
        trivial_seconds=median(wall for wall, _ in theirs),
        trivial_cpu_seconds=median(spent for _, spent in theirs),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    figures = []
    for kind in ("one entry a switch", "one entry a phone"):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PHONERACK_HOME"] = folder
            figures.append(measure(kind, Path(folder), options.phones, options.turns))
    print_table(
        ["RACK FILE", "LOAD", "--list", "TRIVIAL", "RATIO"],
        (
            (
                figure.rack_file,
                f"{figure.load_seconds:.2f} s",
                f"{figure.list_cpu_seconds:.2f} s",
                f"{figure.trivial_cpu_seconds:.2f} s",
                f"{figure.ratio:.2f}",
            )
            for figure in figures
        ),
    )
    if options.json:
        rows = [asdict(figure) | {"ratio": figure.ratio} for figure in figures]
        options.json.write_text(json.dumps({"version": 1, "figures": rows}, indent=2) + "\n")
    bad = [f for f in figures if f.ratio > TARGET_RATIO or f.load_seconds > TARGET_LOAD_SECONDS]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
