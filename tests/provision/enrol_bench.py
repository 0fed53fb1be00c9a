"""A table with phones on USB, as `fleetctl enroll` sees it, and a machine that may stop."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.provision import android, enrol, enrol_look, enrol_termux, identity, keys
from fleetctl.provision.enrol import Options
from fleetctl.provision.enrol_look import Report
from fleetctl.provision.identity import Register
from fleetctl.rack import RackPaths, load_rack, lock
from fleetctl.rack.lock import Locked
from fleetctl.remote.adb import Link, Said
from fleetctl.state import State

RACK_FILE = """
rack: lab
network: {{cidr: 10.1.0.0/28, medium: {medium}, dhcp: {dhcp}, controller: 10.1.0.1}}
phones: [{{addresses: 10.1.0.3-5}}]
"""
OPENED = Said(0, "restarting in TCP mode port: 5555\n", "")
MAC = "02:00:00:00:00:07"
IP = f"""30: wlan0    inet 10.1.0.9/28 brd 10.1.0.15 scope global wlan0\\       valid_lft forever
30: wlan0: <BROADCAST,UP,LOWER_UP> mtu 1500\\    link/ether {MAC} brd ff:ff:ff:ff:ff:ff
"""


class Cut(BaseException):
    """The machine stops here."""


@dataclass
class Phone:
    """A phone on USB. `listens`: its adb is on the network; `set_up`: how often Termux was set up;
    `said`: what it answers when that shall be."""

    serial: str
    key: str
    link: str = ""
    place: str = "usb:1"
    free_kib: int = 90 << 20
    wifi: str = ""
    listens: bool = False
    set_up: int = 0
    said: Said = OPENED

    async def shell(self, command: str, **_: float) -> Said:
        if command.startswith("ip "):
            return Said(0, self.wifi, "")
        return Said(0, self.facts, "")

    @property
    def facts(self) -> str:
        props = {
            "ro.serialno": self.serial,
            "ro.build.version.sdk": "31",
            "ro.product.cpu.abilist": "arm64-v8a",
            "ro.product.model": "SM-G975F",
        }
        return "@@phonerack\n".join(
            [
                "",
                "".join(f"[{name}]: [{value}]\n" for name, value in props.items()),
                "MemTotal: 7768884 kB\n",
                f"/dev/block/sda31 113245184 20245184 {self.free_kib}  18% /data\n",
                "",
            ]
        )

    @asynccontextmanager
    async def forwarded(self, _port: int) -> AsyncIterator[int]:
        yield 1

    async def listen_on_network(self) -> Said:
        self.listens = self.said.ok
        return self.said


def public_key(number: int) -> str:
    """A host key that certificates can be made for."""
    raw = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes([number]) * 32
    return f"ssh-ed25519 {base64.b64encode(raw).decode()}"


@dataclass
class Table:
    """`fleetctl enroll` on a rack of three places; `phones` are plugged in."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    phones: list[Phone]
    medium: str = "ethernet"
    dhcp: str = "theirs"
    effects: list[str] = field(default_factory=list)
    stop_at: int | None = None

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("PHONERACK_HOME", str(self.home))
        self.home.mkdir(exist_ok=True)
        self.file.write_text(RACK_FILE.format(medium=self.medium, dhcp=self.dhcp))
        self.paths = RackPaths("lab", self.home)
        self.paths.ensure()
        self.paths.adb.mkdir(exist_ok=True)
        found: Any = SimpleNamespace(debs=(), apks=(), apps_for=lambda _: self._apps())
        for module, name, fake in (
            (enrol, "session", self._session),
            (enrol, "gather", lambda *_: found),
            (enrol, "host_key", self._host_key),
            (enrol, "log_in", self._log_in),
            (enrol_look, "STEADY_SECONDS", 0.0),
            (enrol_look, "_POLL_SECONDS", 0.0),
            (enrol_termux, "install_apps", self._install_apps),
            (enrol_termux, "set_up_ssh", self._set_up_ssh),
            (android, "ensure", self._ensure),
        ):
            self.monkeypatch.setattr(module, name, fake)
        enrol.sign(self.file)

    @property
    def file(self) -> Path:
        return self.home / "rack.yml"

    def enroll(self, *serials: str, **more: Any) -> dict[str, Report]:
        """The command, once; reports by serial."""
        options = Options(serials=serials, wait_seconds=0, **more)
        reports = asyncio.run(
            enrol.enrol(self.file, load_rack(self.file), self.paths, options, lambda _: None)
        )
        return {report.serial: report for report in reports}

    @contextmanager
    def stopping(self, at: int | None) -> Iterator[None]:
        """The machine stops before the effect number `at`; all effects are in `effects`."""
        self.effects, self.stop_at = [], at
        with self.monkeypatch.context() as patch:
            for module in (identity, keys, lock):
                patch.setattr(module, "write_atomic", self._counted(module.write_atomic))
            patch.setattr(State, "forget", self._counted(State.forget))
            patch.setattr(Phone, "listen_on_network", self._counted(Phone.listen_on_network))
            yield

    def _counted(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            if len(self.effects) == self.stop_at:
                raise Cut
            self.effects.append(f"{effect.__name__} {arguments[0]}")
            return effect(*arguments, **more)

        return counted

    @property
    def register(self) -> Register:
        return Register(load_rack(self.file), self.file)

    def lock(self) -> dict[str, Locked]:
        return self.register.entries()

    def certificate(self, name: str) -> bool:
        return (self.paths.ssh / "hosts" / f"{name}-cert.pub").exists()

    @asynccontextmanager
    async def _session(self, _: object) -> AsyncIterator[Any]:
        links = [Link(phone.link or phone.serial, "device", phone.place) for phone in self.phones]

        async def all_links() -> list[Link]:
            return links

        by_link = {phone.link or phone.serial: phone for phone in self.phones}
        yield SimpleNamespace(links=all_links, phone=by_link.__getitem__)

    async def _host_key(self, *_: object) -> str:
        return self._in_hand.key

    async def _log_in(self, *_: object) -> None: ...

    async def _install_apps(self, *_: object) -> None: ...

    async def _set_up_ssh(self, phone: Phone, *_: object, **__: object) -> None:
        phone.set_up += 1
        self._in_hand = phone

    async def _ensure(self, *_: object) -> android.Outcome:
        return android.Outcome({}, {})

    def _apps(self) -> dict[str, Any]:
        return {name: SimpleNamespace(debuggable=False) for name in android.TERMUX_APPS}
