"""138 stand-in phones on three Open vSwitches: brought up, all reached, their cables checked.

    python benchmarks/switches/fabric.py --json docs/figures/fabric.json

The rack is a new one with a network of its own, and goes again. Run it as root on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleetctl.cli.output import print_table, progress
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.remote.knock import answering
from fleetctl.switches.fleet import Switches
from fleetctl.switches.job import Report
from standin.commands import run
from standin.openvswitch.enrolment import PASSWORD
from standin.record import native_target, open_rig

FLEETCTL = Path(sys.executable).with_name("fleetctl")
TARGETS_SECONDS = {"standin up": 90.0, "check cables": 10.0}
REACH_LIMIT_SECONDS = 120.0
UPLINKS = ("{sw2: 49-50}", "{sw1: 49-50, sw3: 51-52}", "{sw2: 49-50}")
PLATFORMS = ("cisco_ios", "arista_eos", "cisco_ios")


def rack_file(name: str, subnet: str, phones: int) -> str:
    """`phones` phones in equal parts on three switches of 54 ports."""
    each = -(-phones // len(PLATFORMS))
    lines = [
        f"rack: {name}",
        f"network: {{cidr: {subnet}.0/24, medium: ethernet, dhcp: ours, vlan: 10,",
        f"  controller: {subnet}.1, services: {subnet}.2}}",
        "switches:",
    ]
    for number, (platform, uplinks) in enumerate(zip(PLATFORMS, UPLINKS, strict=True), 1):
        lines.append(
            f"  sw{number}: {{platform: {platform}, address: {subnet}.{2 + number}, ports: 54, "
            f"uplinks: {uplinks}, reserved: 53-54}}"
        )
    lines.append("phones:")
    for number in range(len(PLATFORMS)):
        mine = min(each, phones - number * each)
        first = 11 + number * each
        lines.append(
            f"  - {{target: {native_target()}, switch: sw{number + 1}, ports: 1-{mine}, "
            f"addresses: {subnet}.{first}-{first + mine - 1}}}"
        )
    return "\n".join([*lines, ""])


def fleetctl(*arguments: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    began = time.perf_counter()
    done = subprocess.run([FLEETCTL, *arguments], text=True, stdout=subprocess.PIPE)
    return time.perf_counter() - began, done


@contextmanager
def standing() -> Iterator[float]:
    """The rack of $PHONERACK_RACK, up; yields the seconds that it took."""
    try:
        seconds, done = fleetctl("standin", "up", "-o", "json")
        if done.returncode:
            raise SystemExit("fabric: the rack did not come up")
        yield seconds
    finally:
        fleetctl("standin", "down")


def give_addresses(rack: Rack) -> None:
    """As DHCP does once site.yml has made the services host serve it."""
    prefix = rack.network.cidr.prefixlen
    for host, container in open_rig(rack).containers().items():
        if host in rack.phones:
            address = f"{rack.phones[host].address}/{prefix}"
            enter = ("nsenter", "-t", str(container.pid), "-n")
            run((*enter, "ip", "address", "replace", address, "dev", "eth0"))


def reach(rack: Rack) -> tuple[int, float]:
    """How many phones are reached, and the seconds until the last was."""
    left = {phone.name: phone.address for phone in rack.phones.values()}
    began = time.perf_counter()
    while left and time.perf_counter() - began < REACH_LIMIT_SECONDS:
        for name in answering(left):
            del left[name]
    return len(rack.phones) - len(left), time.perf_counter() - began


def measure(file: Path) -> dict[str, Any]:
    rack = load_rack(file)
    with standing() as seconds:
        figures: dict[str, Any] = {
            "phones": len(rack.phones),
            "load": os.getloadavg()[0],
            "standin up": seconds,
        }
        give_addresses(rack)
        figures["reached"], figures["reaching"] = reach(rack)
        figures["check cables"], done = fleetctl("check", "cables", "-o", "json")
        figures["right"] = len(json.loads(done.stdout)["right"])
        progress().print("configuring the switches")
        began = time.perf_counter()
        answers = Switches(load_rack(file), RackPaths(rack.name)).provision()
        figures["configuring"] = time.perf_counter() - began
        failed = [answer for answer in answers.values() if not isinstance(answer, Report)]
        if failed:
            raise SystemExit(f"fabric: {failed[0]}")
        figures["reached configured"], figures["reaching configured"] = reach(rack)
        figures["check configured"], done = fleetctl("check", "cables", "-o", "json")
        figures["findings configured"] = len(json.loads(done.stdout)["findings"])
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--phones", type=int, default=138)
    parser.add_argument("--name", default="fabric-bench")
    parser.add_argument("--subnet", default="10.142.0")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    os.environ["SWITCH_PASSWORD"] = PASSWORD
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rack.yml"
        file.write_text(rack_file(options.name, options.subnet, options.phones))
        os.environ |= {"PHONERACK_HOME": folder, "PHONERACK_RACK": str(file)}
        figures = measure(file)
    print_table(
        ["WHAT", "MEASURED", "TARGET"],
        (
            (
                what,
                f"{value:.1f} s" if isinstance(value, float) and what != "load" else f"{value:g}",
                f"{TARGETS_SECONDS[what]:g} s" if what in TARGETS_SECONDS else "",
            )
            for what, value in figures.items()
        ),
    )
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    late = any(figures[what] > most for what, most in TARGETS_SECONDS.items())
    missed = {figures["reached"], figures["right"], figures["reached configured"]}
    return int(late or missed != {figures["phones"]})


if __name__ == "__main__":
    sys.exit(main())
