"""Three stand-in switches of 48 ports from factory state, beside netmiko's own send_config_set.

python benchmarks/switches/push.py --json docs/figures/switches.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from netmiko import ConnectHandler

from fleetctl.cli.output import print_table
from fleetctl.rack import Network, Phone, Rack, RackPaths, Switch
from fleetctl.rack.model import Bundle
from fleetctl.switches.fleet import Switches
from fleetctl.switches.job import Report
from fleetctl.switches.plan import plan_change
from standin.switches.device import Device, Knobs
from standin.switches.plane import End, MemoryNetwork
from standin.switches.printed import configuration
from standin.switches.server import SwitchServer

PASSWORD = "of-the-bench"  # noqa: S105  of switches that live for a minute, on loopback
KINDS = {"sw1": "cisco_ios", "sw2": "arista_eos", "sw3": "cisco_ios"}
UPLINKS = {
    "sw1": {"sw2": (49, 50)},
    "sw2": {"sw1": (49, 50), "sw3": (51, 52)},
    "sw3": {"sw2": (49, 50)},
}


def paper_rack() -> Rack:
    """138 phones, 46 a switch, and bundles of two between neighbours."""
    switches, phones = {}, {}
    for number, (name, kind) in enumerate(KINDS.items(), 1):
        bundles = tuple(Bundle(to, ports) for to, ports in UPLINKS[name].items())
        uplinks = tuple(port for bundle in bundles for port in bundle.ports)
        address = f"127.66.0.{number}"
        switches[name] = Switch(name, kind, address, 52, uplinks, bundles=bundles)  # type: ignore[arg-type]
        for port in range(1, 47):
            phone = f"phone{(number - 1) * 46 + port:03}"
            # No phone is on loopback, so none has to come back.
            phones[phone] = Phone(phone, f"127.67.{number}.{port}", switch=name, port=port)
    network = Network(IPv4Network("127.66.0.0/15"), "ethernet", vlan=10, vlans={10: "phones"})
    return Rack("bench", network, phones, switches)


@dataclass
class Bench:
    """Switches fresh from the factory, and who works on them."""

    fleet: Switches
    server: SwitchServer
    devices: dict[str, Device]

    def lines(self, name: str) -> list[str]:
        """What a switch as it is now needs, as one list of lines."""
        platform, intent = self.fleet.intent(self.fleet.rack.switches[name])
        text = self.server.on(self.devices[name], lambda item: "\n".join(_running(item)))
        running = platform.read(text, intent)
        first = [*running.lacking, "exit"] if running.lacking else []
        return [*first, *plan_change(platform, intent, running).commands]


def _running(device: Device) -> Iterator[str]:
    return iter(configuration(device, device.running, "running"))


@contextmanager
def bench(latency_seconds: float) -> Iterator[Bench]:
    rack, server, network = paper_rack(), SwitchServer(), MemoryNetwork()
    with tempfile.TemporaryDirectory() as folder:
        paths = RackPaths("bench", Path(folder))
        paths.ensure()
        fleet, devices, port = Switches(rack, paths, (lambda _: PASSWORD,)), {}, 0
        for name, switch in rack.switches.items():
            _, intent = fleet.intent(switch)
            ports = [item.interface for item in intent.ports]
            kind = "ios" if switch.platform == "cisco_ios" else "eos"
            knobs = Knobs(latency_seconds=latency_seconds)
            device = Device(
                *(kind, ports, network.plane(name), {"admin": PASSWORD}, time.monotonic, knobs)  # type: ignore[arg-type]
            )
            devices[name] = device
            port = server.serve(device, str(switch.address), port)
            key = server.host_key.export_public_key().decode().strip()
            with fleet.known_hosts.open("a") as file:
                file.write(f"[{switch.address}]:{port} {key}\n")
        _cable(rack, fleet, network)
        try:
            yield Bench(Switches(rack, paths, fleet.sources, port=port), server, devices)
        finally:
            server.stop()


def _cable(rack: Rack, fleet: Switches, network: MemoryNetwork) -> None:
    """One cable of each bundle: a new network would have a loop with both."""

    def end(name: str, port: int) -> End:
        return End(name, fleet.intent(rack.switches[name])[1].ports[port - 1].interface)

    network.cables += [(end("sw1", 49), end("sw2", 49)), (end("sw2", 51), end("sw3", 49))]


def timed_provision(work: Bench) -> float:
    began = time.perf_counter()
    answers = work.fleet.provision()
    seconds = time.perf_counter() - began
    failed = [answer for answer in answers.values() if not isinstance(answer, Report)]
    if failed:
        raise SystemExit(f"push: {failed[0]}")
    return seconds


def timed_netmiko(work: Bench, name: str) -> float:
    """The same lines by hand, login included; nothing armed, read back, confirmed or saved."""
    switch, lines = work.fleet.rack.switches[name], work.lines(name)
    began = time.perf_counter()
    connection = ConnectHandler(
        device_type=switch.platform,
        host=switch.address,
        port=work.fleet.port,
        username="admin",
        password=PASSWORD,
    )
    connection.send_config_set(lines, error_pattern=r"% Invalid")
    connection.disconnect()
    return time.perf_counter() - began


def timed_diff(turns: int) -> list[float]:
    with bench(0) as work:
        times = []
        for _ in range(turns):
            platform, intent = work.fleet.intent(work.fleet.rack.switches["sw1"])
            text = "\n".join(_running(work.devices["sw1"]))
            began = time.perf_counter()
            plan_change(platform, intent, platform.read(text, intent))
            times.append(time.perf_counter() - began)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.04, help="seconds a line")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    figures: dict[str, list[float]] = {"factory": [], "no-op": [], "netmiko slowest": []}
    for _ in range(options.turns):
        with bench(options.latency) as work:
            figures["netmiko slowest"].append(max(timed_netmiko(work, name) for name in KINDS))
        with bench(options.latency) as work:
            figures["factory"].append(timed_provision(work))
            figures["no-op"].append(timed_provision(work))
    figures["diff of 48 ports"] = timed_diff(10)
    print_table(
        ["WHAT", "MEDIAN", "WORST"],
        (
            (what, f"{statistics.median(times):.3f} s", f"{max(times):.3f} s")
            for what, times in figures.items()
        ),
    )
    ratio = statistics.median(figures["factory"]) / statistics.median(figures["netmiko slowest"])
    print(f"three switches from factory state: {ratio:.2f} times the slowest by netmiko alone")
    if options.json:
        document = {"latency_seconds": options.latency, "seconds": figures}
        options.json.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
