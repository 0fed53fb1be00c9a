"""Who is met on the wire: by host key, with one adapter each."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.checks.doors import worth_noting
from fleetctl.provision import android, wire
from fleetctl.provision.enrol_look import Report
from fleetctl.provision.identity import Register
from fleetctl.provision.wire import Met, Search, addresses_to_ask, doubles, parse_leases
from fleetctl.rack import InputError, Network, Phone, Rack, RackPaths, load_rack
from fleetctl.rack.lock import Locked, read_lock
from fleetctl.remote.adb import Link
from fleetctl.state import State
from fleetctl.state.facts import derive

NOW = 1_790_000_000.0
LEASES = """1764450000 02:F0:4e:c2:52:29 10.1.0.182 * 01:02:f0
0 02:d9:52:c6:9a:7b 10.1.0.12 phone002 *
duid 00:01:00:01
"""
RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/28"), "ethernet", controller="10.1.0.1", services="10.1.0.2"),
    {
        "phone001": Phone("phone001", "10.1.0.3", mac="02:00:00:00:00:01"),
        "phone002": Phone("phone002", "10.1.0.4"),
    },
)


def test_leases_are_read_with_macs_in_their_normal_form() -> None:
    assert parse_leases(LEASES) == {
        "10.1.0.182": "02:f0:4e:c2:52:29",
        "10.1.0.12": "02:d9:52:c6:9a:7b",
    }


@given(st.text())
def test_whatever_the_lease_file_holds_there_is_an_answer(text: str) -> None:
    parse_leases(text)


def test_two_phones_with_one_mac_are_refused_and_both_named() -> None:
    met = {"phone001": Met("10.1.0.3", "02::1"), "phone002": Met("10.1.0.4", "02::1")}
    refused = doubles(met, {})
    assert set(refused) == {"phone001", "phone002"}
    for reason in refused.values():
        assert "phone001 and phone002" in reason
        assert "another adapter" in reason


def test_an_adapter_that_another_phone_is_known_by_is_refused() -> None:
    refused = doubles({"phone002": Met("10.1.0.4", "02::1")}, {"02::1": "phone001"})
    assert "phone001 and phone002" in refused["phone002"]


def test_phones_with_adapters_of_their_own_or_unknown_ones_are_fine() -> None:
    met = {"a": Met("1", "02::1"), "b": Met("2", "02::2"), "c": Met("3", None), "d": Met("4", None)}
    assert doubles(met, {"02::3": "e"}) == {}


def test_who_is_at_an_address_says_the_host_key_and_each_lease_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = {"10.1.0.9": "ssh-ed25519 AAA comment", "10.1.0.10": "ssh-ed25519 stranger"}
    asked: list[str] = []

    async def host_key(address: str, _port: int) -> str | None:
        asked.append(address)
        return keys.get(address)

    monkeypatch.setattr(wire, "host_key", host_key)
    search = Search({"ssh-ed25519 AAA": "phone001", "ssh-ed25519 BBB": "phone002"})
    places = {"10.1.0.9": "02::9", "10.1.0.10": "02::10", "10.1.0.11": "02::11"}

    async def twice() -> None:
        await search.ask(places)
        await search.ask(places)

    asyncio.run(twice())
    assert search.met == {"phone001": Met("10.1.0.9", "02::9")}
    assert search.missing == ["phone002"]
    # The last one is silent still: it may be starting.
    assert sorted(asked) == ["10.1.0.10", "10.1.0.11", "10.1.0.11", "10.1.0.9"]


@pytest.mark.parametrize("mac", ["02:00:00:00:00:09", None], ids=["lease", "others' lease"])
def test_two_phones_behind_one_mac_are_both_met_and_both_refused(
    monkeypatch: pytest.MonkeyPatch, mac: str | None
) -> None:
    """One MAC has one lease, and there now one phone answers, now the other."""
    answers = itertools.cycle(["ssh-ed25519 AAA", "ssh-ed25519 BBB"])

    async def host_key(_address: str, _port: int) -> str:
        return next(answers)

    monkeypatch.setattr(wire, "host_key", host_key)
    monkeypatch.setattr(wire, "AGAIN_SECONDS", 0.0)
    search = Search({"ssh-ed25519 AAA": "phone001", "ssh-ed25519 BBB": "phone002"})

    async def until_met() -> None:
        while search.missing:
            await search.ask({"10.1.0.9": mac})

    asyncio.run(until_met())
    refused = doubles(search.met, {})
    assert set(refused) == {"phone001", "phone002"}
    for reason in refused.values():
        assert "phone001 and phone002" in reason
        assert "give one of them another adapter" in reason


def test_a_new_phone_with_the_mac_of_one_that_was_met_long_ago_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = Wire(monkeypatch, tmp_path, OpenAdb())
    there.enrolled_by_usb(phone001=None)
    there.places = {"phone001": ("10.1.0.9", MACS["phone001"])}
    there.enroll()
    there.enrolled_by_usb(phone002=None)
    there.places = {"phone002": ("10.1.0.10", MACS["phone001"])}
    report = there.enroll()["phone002"]
    assert report.end == "refused"
    assert "phone001 and phone002" in report.reason
    assert there.lock()["phone002"].mac is None


def test_in_a_network_of_others_all_addresses_are_asked_that_may_be_a_phones() -> None:
    asked = addresses_to_ask(RACK)
    assert not {"10.1.0.1", "10.1.0.2", "10.1.0.3"} & set(asked)
    assert {"10.1.0.4", "10.1.0.14"} <= set(asked)
    huge = Rack("lab", Network(IPv4Network("10.0.0.0/8"), "ethernet"), RACK.phones)
    with pytest.raises(InputError, match="too many to ask"):
        addresses_to_ask(huge)


class ClosedAdb:
    """The adb of a phone that has rebooted: nobody listens."""

    async def connect(self, _endpoint: str) -> str:
        return "failed to connect: Connection refused"

    async def links(self) -> list[Link]:
        return []


class OpenAdb:
    """The adb of phones that are on the way from USB to the wire, by endpoint."""

    def __init__(self, *, stays_open: bool = False) -> None:
        self.stays_open = stays_open
        self.problems: dict[str, str] = {}
        self.open: set[str] = set()
        self.values: dict[str, str] = {}

    async def connect(self, endpoint: str) -> str:
        self.open.add(endpoint)
        return f"connected to {endpoint}"

    async def disconnect(self, _endpoint: str) -> None: ...

    async def links(self) -> list[Link]:
        return [Link(endpoint, "device", "") for endpoint in self.open]

    def phone(self, endpoint: str) -> Any:
        async def listen_on_usb() -> None:
            if not self.stays_open:
                self.open.remove(endpoint)

        return SimpleNamespace(listen_on_usb=listen_on_usb, link=endpoint)

    async def ensure(self, phone: Any, wanted: list[android.Wish]) -> android.Outcome:
        (wish,) = wanted
        self.values[phone.link] = f"{wish.name}={wish.value}"
        return android.Outcome({}, {}, self.problems)

    async def listens(self, address: str, port: int) -> bool:
        return f"{address}:{port}" in self.open


class Ended(NamedTuple):
    report: Report
    closed: list[str]


def finish(
    monkeypatch: pytest.MonkeyPatch, home: Path, rack: Rack, *, listens: bool = False
) -> Ended:
    """The end of phone002's enrolment: ssh answers, adb lets nobody in, if it `listens` at all."""

    async def log_in(*_: object) -> None: ...

    async def answer(*_: object) -> bool:
        return listens

    monkeypatch.setattr(wire, "log_in", log_in)
    monkeypatch.setattr(wire, "listens", answer)
    monkeypatch.setenv("PHONERACK_HOME", str(home))
    RackPaths("lab").ensure()
    closed: list[str] = []
    adb: Any = ClosedAdb()
    bench = wire._Bench(rack, RackPaths("lab"), adb, lambda: None, closed.append)
    report = Report("R1", "R1", "phone002")
    asyncio.run(wire._finish(bench, report, Met("10.1.0.4", "02::4")))
    return Ended(report, closed)


def test_on_wifi_adb_is_not_asked_for_and_wifi_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    network = Network(IPv4Network("10.1.0.0/28"), "wifi", controller="10.1.0.1")
    assert finish(monkeypatch, tmp_path, Rack("lab", network, RACK.phones)).report.end == "enrolled"


def test_a_phone_whose_adb_is_closed_while_ssh_answers_is_not_down(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report, closed = finish(monkeypatch, tmp_path, RACK)
    assert closed == ["phone002"]
    assert report.end == "needs-hands"
    assert "ssh answers, but adb does not" in report.reason
    assert "Wi-Fi" in report.reason
    with State(RackPaths("lab").state_db) as state:
        assert "phone002" not in state.phones()


def test_adb_that_listens_and_lets_nobody_in_is_not_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report, closed = finish(monkeypatch, tmp_path, RACK, listens=True)
    assert closed == []
    assert report.end == "needs-hands"
    assert "adb listens at 10.1.0.4:5555" in report.reason
    assert "restart the phone" in report.reason


KEYS = {f"phone00{n}": f"ssh-ed25519 {base64.b64encode(bytes([n] * 51)).decode()}" for n in (1, 2)}
MACS = {"phone001": "02:00:00:00:00:01", "phone002": "02:00:00:00:00:02"}
RACK_FILE = """
rack: lab
network: {cidr: 10.1.0.0/28, medium: ethernet, controller: 10.1.0.1, services: 10.1.0.2}
phones: [{addresses: 10.1.0.3-4}]
"""


class Wire:
    """The network of a rack whose DHCP others serve: who is where, on which adapter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path, adb: OpenAdb) -> None:
        self.home, self.adb = home, adb
        self.places: dict[str, tuple[str, str]] = {}
        monkeypatch.setenv("PHONERACK_HOME", str(home))
        (home / "rack.yml").write_text(RACK_FILE)
        self.paths = RackPaths("lab")
        self.paths.ensure()
        for name, fake in {
            "session": self._adb,
            "services_host": self._services,
            "host_key": self._host_key,
            "log_in": self._log_in,
            "listens": adb.listens,
            "_neighbours": self._neighbours,
            "sign": lambda _: None,
            "CLOSE_LIMIT_SECONDS": 0.0,
        }.items():
            monkeypatch.setattr(wire, name, fake)
        monkeypatch.setattr(android, "ensure", adb.ensure)

    @asynccontextmanager
    async def _adb(self, _: object) -> AsyncIterator[OpenAdb]:
        yield self.adb

    @asynccontextmanager
    async def _services(self, *_: object) -> AsyncIterator[None]:
        yield None

    async def _host_key(self, address: str, _port: int) -> str | None:
        return next((KEYS[name] for name, at in self.places.items() if at[0] == address), None)

    async def _log_in(self, name: str, address: str, *_: object) -> None:
        assert self.places[name][0] == address

    async def _neighbours(self) -> dict[str, str]:
        return dict(self.places.values())

    def enrolled_by_usb(self, **macs: str | None) -> None:
        """Phones whose adapters were known before, or not; adb is open on the network."""
        register = Register(load_rack(self.home / "rack.yml"), self.home / "rack.yml")
        for name, mac in macs.items():
            register.enrol(name, Locked(f"R-{name}", mac, None, 31, adb_open=True), KEYS[name])

    def enroll(self) -> dict[str, Report]:
        file = self.home / "rack.yml"
        reports = asyncio.run(
            wire.enrol_on_wire(file, load_rack(file), self.paths, 0, lambda _: None)
        )
        return {report.name or "": report for report in reports}

    def lock(self) -> dict[str, Locked]:
        return read_lock(self.paths.lock_file, "lab")[1]


def test_a_phone_whose_adapter_is_known_waits_for_the_wire_until_its_adb_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that was reset, or whose adapter a switch has told of."""
    there = Wire(monkeypatch, tmp_path, OpenAdb())
    there.enrolled_by_usb(phone001=MACS["phone001"])
    there.places = {"phone001": ("10.1.0.9", MACS["phone001"])}

    assert there.enroll()["phone001"].end == "enrolled"
    assert there.adb.values == {"10.1.0.9:5555": "radio/wifi=off"}
    assert there.adb.open == set()
    assert there.lock()["phone001"] == Locked("R-phone001", MACS["phone001"], "10.1.0.9", 31)
    with pytest.raises(InputError, match="no phone waits to be met on the wire"):
        there.enroll()


def test_an_enrolled_phone_that_reboots_is_lost_and_needs_no_hands_yet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Adb answered by USB and then on the wire, where it was closed on purpose."""
    there = Wire(monkeypatch, tmp_path, OpenAdb())
    there.enrolled_by_usb(phone001=None)
    there.places = {"phone001": ("10.1.0.9", MACS["phone001"])}
    with State(there.paths.state_db) as state:
        state.record_contact({"phone001": False}, now=NOW)
        state.record_adb({"phone001": True}, now=NOW + 1)
        there.enroll()
        state.record_adb(worth_noting({"phone001": False}, state.phones()), now=NOW + 2)
        assert derive(state.phones()["phone001"], NOW + 3) == "lost"


def test_a_phone_whose_adb_stays_open_still_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = Wire(monkeypatch, tmp_path, OpenAdb(stays_open=True))
    there.enrolled_by_usb(phone001=None)
    there.places = {"phone001": ("10.1.0.9", MACS["phone001"])}
    for _ in range(2):
        report = there.enroll()["phone001"]
        assert report.end == "needs-hands"
        assert "for anybody on the network" in report.reason
        assert there.lock()["phone001"].adb_open


def test_wifi_that_stays_on_needs_hands_and_the_next_try_ends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By adb it can be switched off from afar, so adb stays until that is done."""
    there = Wire(monkeypatch, tmp_path, OpenAdb())
    there.enrolled_by_usb(phone001=None)
    there.places = {"phone001": ("10.1.0.9", MACS["phone001"])}
    there.adb.problems = {"radio/wifi": "radio/wifi is on after it was set to off"}

    report = there.enroll()["phone001"]
    assert report.end == "needs-hands"
    assert "radio/wifi is on after it was set to off" in report.reason
    assert "adb is open at 10.1.0.9:5555 until then" in report.reason
    assert there.adb.open == {"10.1.0.9:5555"}
    assert there.lock()["phone001"].adb_open

    there.adb.problems = {}
    assert there.enroll()["phone001"].end == "enrolled"
    assert there.adb.open == set()
    assert not there.lock()["phone001"].adb_open


def test_phones_that_have_changed_adapters_and_addresses_are_both_met(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = Wire(monkeypatch, tmp_path, OpenAdb())
    there.enrolled_by_usb(**MACS)
    there.places = {
        "phone001": ("10.1.0.9", MACS["phone001"]),
        "phone002": ("10.1.0.10", MACS["phone002"]),
    }
    there.enroll()
    there.enrolled_by_usb(**MACS)
    there.places = dict(zip(MACS, reversed(there.places.values()), strict=True))
    assert {report.end for report in there.enroll().values()} == {"enrolled"}
    found = {name: (entry.address, entry.mac) for name, entry in there.lock().items()}
    assert found == there.places
