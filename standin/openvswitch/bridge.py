"""One switch of the stand-in rack: the devices in its ports, and the Open vSwitch behind them."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

from standin.commands import run
from standin.openvswitch import rpc
from standin.openvswitch.database import Database
from standin.openvswitch.ports import learnt
from standin.switches.plane import Counters

LOOSE, SHUT, SPEED = "loose", "shut", "speed"
"""Notes of a device: its cable is pulled, its port is shut down, its port is held to so many Mb/s.
A device is up where neither of the first two is noted, whoever pulls and shuts."""


@dataclass(frozen=True, slots=True)
class Device:
    """A network device as found. Rates in bits a second; None where it is not shaped."""

    counters: Counters
    rate: int | None = None


@dataclass(frozen=True)
class Bridge:
    """The switch `name`, whose devices lie in the namespace `space` and sockets in `folder`."""

    name: str
    space: str
    folder: Path

    @cached_property
    def database(self) -> Database:
        return Database(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Whoever changes what is noted of devices also sets them, before anybody else does."""
        with (self.folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def note(self, notes: Mapping[str, Mapping[str, str | None]]) -> None:
        """Note something of devices (None: no longer), and have each up or down accordingly.

        A device that is not there is noted of all the same: it comes up, or not, when it is.
        """
        with self._alone():
            present = self._names()
            lines = []
            for device, values in notes.items():
                noted = self.database.note(device, **values)
                if device in present:
                    state = "down" if noted.keys() & {LOOSE, SHUT} else "up"
                    lines.append(f"link set {device} {state}\n")
            if lines:
                run(("ip", "-n", self.space, "-batch", "-"), "".join(lines))

    def noted(self, name: str) -> dict[str, str]:
        """Of each device of which it is noted, what `name` is."""
        end = f".{name}"
        notes = self.database.notes()
        return {key.removesuffix(end): value for key, value in notes.items() if key.endswith(end)}

    def _names(self) -> set[str]:
        return {item["ifname"] for item in self._ip("link", "show")}

    def carriers(self) -> set[str]:
        """Devices that have one, as the switch has noticed; quicker than `devices`."""
        interfaces = self.database.select("Interface", "name", "link_state")
        return {row["name"] for row in interfaces if row["link_state"] == "up"}

    def devices(self) -> dict[str, Device]:
        """All that there are. In and out are the switch's: what a phone sends comes in."""
        shaping = {item["dev"]: item for item in self._tc() if item["kind"] == "tbf"}
        found = {}
        for item in self._ip("-s", "link", "show"):
            rx, tx = item["stats64"]["rx"], item["stats64"]["tx"]
            shaper = shaping.get(item["ifname"], {})
            found[item["ifname"]] = Device(
                counters=Counters(
                    octets_in=rx["bytes"],
                    frames_in=rx["packets"],
                    octets_out=tx["bytes"],
                    frames_out=tx["packets"],
                    errors_in=rx["errors"],
                    errors_out=tx["errors"],
                    discards_in=rx["dropped"],
                    # What a full queue drops has not reached the device.
                    discards_out=tx["dropped"] + shaper.get("drops", 0),
                ),
                rate=8 * shaper["options"]["rate"] if shaper else None,
            )
        return found

    def _ip(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(
            run(("ip", "-n", self.space, "-json", *arguments)) or "[]"
        )
        return found

    def _tc(self) -> list[dict[str, Any]]:
        command = ("tc", "-n", self.space, "-s", "-json", "qdisc", "show")
        found: list[dict[str, Any]] = json.loads(run(command) or "[]")
        return found

    def mac_table(self) -> list[tuple[int, int, str]]:
        """Port number, VLAN and MAC of everybody who was heard at a port."""
        return list(learnt(rpc.call(self.folder, rpc.DAEMON, "fdb/show", self.name)))

    def set_mtu(self, mtus: Mapping[str, int]) -> None:
        """Longer frames do not pass devices, in bytes without the Ethernet header."""
        present = self._names()
        lines = [f"link set {name} mtu {mtu}\n" for name, mtu in mtus.items() if name in present]
        if lines:
            run(("ip", "-n", self.space, "-batch", "-"), "".join(lines))

    def set_own(self, vlan: int | None, address: IPv4Interface | None) -> None:
        """The switch's own address, and the VLAN that it answers in; none without both."""
        self.database.set_own(self.name, vlan)
        inside = ("ip", "-n", self.space)
        run((*inside, "address", "flush", "dev", self.name))
        if vlan is None or address is None:
            run((*inside, "link", "set", self.name, "down"))
            return
        run((*inside, "address", "add", str(address), "dev", self.name))
        run((*inside, "link", "set", self.name, "up"))
