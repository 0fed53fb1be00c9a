"""How long `status` and `check` take of many phones, with new connections and with kept ones.

The phones are those of a provisioned rack, or a crowd: a few stand-ins that bear many addresses, so
that 138 sshds, shells and Pythons do what they do on 138 phones, without 138 containers. For that
the rack needs `site.yml -e ssh_max_startups=1000`, and root. The dead of a provisioned rack are
stand-ins that are unplugged meanwhile; `--dead 0` leaves that out.

    export PHONERACK_RACK=…
    python benchmarks/fleet/run.py --crowd 138 --dead 10 --json docs/figures/fleet.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from fleetctl.checks import phone, vitals
from fleetctl.cli.output import print_table
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from fleetctl.remote import Fleet

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
CROWD = "crowd-bench"
TARGETS = {"cold": 8.0, "kept": 3.0}
TARGET_BYTES = 300_000_000


@dataclass(frozen=True)
class Measured:
    """Of one command. CPU time is the controller's own; memory is its highest."""

    what: str
    connections: str
    dead: int
    answered: int
    """Phones that did, in the worst turn: a figure without them would say nothing."""
    seconds: list[float]
    cpu_seconds: float
    memory_bytes: int | None


@contextmanager
def crowd(
    rack: Rack, paths: RackPaths, count: int, dead: int, dhcp: str
) -> Iterator[tuple[Path, Path]]:
    """A rack file and a home for `count` phones that the rack's phones play, and `dead` of them
    that nobody plays: with `dhcp: theirs`, `check` looks for these at all other addresses."""
    cidr = rack.network.cidr
    hosts = [str(address) for address in cidr.hosts()]
    taken = {each.address for each in rack.phones.values()} | {rack.network.services or ""}
    free = [a for a in hosts[20:] if a not in taken][:count]
    if len(free) < count:
        raise SystemExit(f"{cidr} is too small for {count} phones")
    players = list(rack.phones.values())
    placed = [(address, players[at % len(players)]) for at, address in enumerate(free)]
    played = placed[: count - dead]
    with tempfile.TemporaryDirectory() as folder:
        home, file = Path(folder) / "home", Path(folder) / "rack.yml"
        shutil.copytree(paths.ssh, home / CROWD / "ssh")
        own = RackPaths(CROWD, home)
        own.ensure()
        known = dict(
            line.split(" ", 1)
            for line in paths.known_hosts.read_text().splitlines()
            if not line.startswith("@")
        )
        lines = [f"phone{at:03} {known[player.name]}" for at, (_, player) in enumerate(placed, 1)]
        own.known_hosts.write_text("\n".join(lines) + "\n")
        file.write_text(
            f"rack: {CROWD}\nversion: 1\n"
            f"network: {{cidr: {cidr}, medium: ethernet, dhcp: {dhcp}, "
            f"controller: {rack.network.controller}, services: {rack.network.services}}}\n"
            f"versions: {{openmpi: '{rack.versions.openmpi}', torch: {rack.versions.torch}}}\n"
            "phones:\n"
            + "".join(f"  - {{target: linux-x86_64, addresses: {a}}}\n" for a, _ in placed)
        )
        try:
            for address, player in played:
                _bear(rack.name, player.name, player.address, address, cidr.prefixlen, "add")
            yield file, home
        finally:
            for address, player in played:
                _bear(rack.name, player.name, player.address, address, cidr.prefixlen, "del")


def _bear(
    rack: str, name: str, own: IPv4Address | str, address: str, prefix: int, act: str
) -> None:
    """Have a stand-in bear another address too, or no longer."""
    said = subprocess.run(
        ["podman", "inspect", "-f", "{{.State.Pid}}", f"pr-{rack}-{name}"],
        check=True,
        text=True,
        capture_output=True,
    )
    inside = ["nsenter", "-t", said.stdout.strip(), "-n", "ip"]
    shown = subprocess.run([*inside, "-json", "-4", "address"], check=True, capture_output=True)
    links = json.loads(shown.stdout)
    device = next(
        link["ifname"] for link in links for each in link["addr_info"] if each["local"] == str(own)
    )
    subprocess.run(
        [*inside, "address", act, f"{address}/{prefix}", "dev", device], check=act == "add"
    )


@contextmanager
def unplugged(rack: Rack, count: int) -> Iterator[None]:
    """The last `count` stand-ins are off the wire meanwhile."""
    last = ",".join(list(rack.phones)[-count:])
    subprocess.run([FLEETCTL, "standin", "fault", last, "unplug"], check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([FLEETCTL, "standin", "heal", last], check=True, capture_output=True)


def cold(words: Sequence[str], environment: dict[str, str], turns: int, dead: int) -> Measured:
    """A command of its own: program start, handshakes, everything."""
    times, cpu, memory, answered = [], 0.0, 0, []
    for _ in range(turns):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                [FLEETCTL, *words, "-o", "json"],
                env=environment,
                stdout=said,
                stderr=subprocess.DEVNULL,
            )
            _, _, usage = os.wait4(process.pid, 0)
            times.append(time.perf_counter() - began)
            said.seek(0)
            answered.append(sum(map(_answered, json.load(said)["phones"])))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        memory = max(memory, usage.ru_maxrss * 1024)
    return Measured(" ".join(words), "cold", dead, min(answered), times, cpu, memory)


def _answered(phone: dict[str, Any]) -> bool:
    """By the document of `status`, or of `check`."""
    if "checks" in phone:
        return any(one["name"] == "reachable" and one["status"] == "OK" for one in phone["checks"])
    return phone["state"] not in ("lost", "needs-hands") and not phone["problem"]


async def kept(rack: Rack, paths: RackPaths, turns: int) -> list[Measured]:
    """The same questions over connections that stand, as `status --watch` and `serve` ask them."""
    names = list(rack.phones)
    found = []
    async with Fleet(rack, paths) as fleet:
        await vitals.look(fleet, names)
        await phone.gather(fleet, rack, names)
        for what in ("status", "check"):
            times, answered = [], []
            cpu = time.process_time()
            for _ in range(turns):
                began = time.perf_counter()
                if what == "status":
                    looks = await vitals.look(fleet, names)
                    good = [look.reached and not look.problem for look in looks.values()]
                else:
                    facts = await phone.gather(fleet, rack, names)
                    phone.judge(facts, rack)
                    good = [each.reached for each in facts.values()]
                times.append(time.perf_counter() - began)
                answered.append(sum(map(bool, good)))
            used = (time.process_time() - cpu) / turns
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            found.append(Measured(what, "kept", 0, min(answered), times, used, memory))
    return found


def measure(file: Path, home: Path, dead: int, turns: int) -> list[Measured]:
    environment = {**os.environ, "PHONERACK_RACK": str(file), "PHONERACK_HOME": str(home)}
    # The first one has every phone try what the next ones are spared.
    subprocess.run([FLEETCTL, "check"], env=environment, capture_output=True)
    found = [cold((what,), environment, turns, dead) for what in ("status", "check")]
    if not dead:
        rack = load_rack(file)
        found += asyncio.run(kept(rack, RackPaths(rack.name, home), turns))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--crowd", type=int, default=0, help="so many phones, played by a few")
    parser.add_argument("--dead", type=int, default=10, help="and once more with so many dead")
    parser.add_argument("--dhcp", choices=["ours", "theirs"], default="ours", help="of the crowd")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    rack = load_rack(find_rack_file(None))
    paths = RackPaths(rack.name)
    found: list[Measured] = []
    if options.crowd:
        for dead in dict.fromkeys((0, options.dead)):
            with crowd(rack, paths, options.crowd, dead, options.dhcp) as (file, home):
                found += measure(file, home, dead, options.turns)
    else:
        found += measure(find_rack_file(None), paths.home, 0, options.turns)
        if options.dead:
            with unplugged(rack, options.dead):
                found += measure(find_rack_file(None), paths.home, options.dead, options.turns)
    print_table(
        ["COMMAND", "KIND", "DEAD", "ANSWERED", "MEDIAN", "WORST", "CPU", "MEMORY", "TARGET"],
        (
            (
                each.what,
                each.connections,
                each.dead,
                each.answered,
                f"{statistics.median(each.seconds):.2f} s",
                f"{max(each.seconds):.2f} s",
                f"{each.cpu_seconds:.2f} s",
                f"{(each.memory_bytes or 0) / 1e6:.0f} MB",
                f"{TARGETS[each.connections]:g} s, {TARGET_BYTES / 1e6:.0f} MB",
            )
            for each in found
        ),
    )
    if options.json:
        phones = options.crowd or len(rack.phones)
        document = {"phones": phones, "measured": [asdict(each) for each in found]}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
