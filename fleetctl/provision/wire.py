"""Enrolment on the wire: whoever answers by the host key of a phone is that phone.

At the end of a USB cable a phone has no Ethernet, so its adapter is met here for the first time:
new leases, or all addresses of a network that others serve, are asked for their host keys. Then the
phone's own address is reserved, Wi-Fi goes, and adb leaves the network.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from fleetctl.provision import android
from fleetctl.provision.enrol import sign
from fleetctl.provision.enrol_look import Report, Step, Watch
from fleetctl.provision.identity import Register
from fleetctl.rack import InputError, Rack, RackPaths, load_rack
from fleetctl.rack import dhcp as rack_dhcp
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote.adb import TCP_PORT, Adb, AdbError, session
from fleetctl.remote.connect import Identity
from fleetctl.remote.faults import PhoneError
from fleetctl.remote.hostkey import host_key, log_in
from fleetctl.remote.knock import listens
from fleetctl.remote.services import ServicesError, ServicesHost, services_host
from fleetctl.state import State

LEASES = "/var/lib/misc/phonerack.leases"
RESERVATIONS = "/var/lib/phonerack/dhcp/rack"
"""Where role `services` has dnsmasq keep and look for them."""

ASKED_AT_ONCE = 64
AGAIN_SECONDS = 10.0
"""Pause before an address that has answered is asked again."""

POLL_SECONDS = 2.0
MOVE_LIMIT_SECONDS = 180.0
"""A phone asks anew for its lease after half of two minutes."""

CLOSE_LIMIT_SECONDS = 30.0

MOST_ADDRESSES = 4096


@dataclass(frozen=True, slots=True)
class Met:
    """Where a phone answers now; its adapter, where that is known."""

    address: str
    mac: str | None


@dataclass(slots=True)
class Search:
    """Who has been asked for what.

    An address that has answered is asked again when its lease has changed, and now and then as
    long as somebody is missing: of two phones with one adapter's MAC now one answers there, now
    the other.
    """

    wanted: Mapping[str, str]
    met: dict[str, Met] = field(default_factory=dict)
    _answered: dict[tuple[str, str | None], float] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        return [name for name in self.wanted.values() if name not in self.met]

    async def ask(self, places: Mapping[str, str | None]) -> None:
        """Ask addresses (each with its adapter, if known) for their host keys."""
        clock = asyncio.get_running_loop().time
        bound = asyncio.Semaphore(ASKED_AT_ONCE)

        async def one(address: str, mac: str | None) -> None:
            async with bound:
                key = await host_key(address, PHONE_PORT)
            if key is None:
                return
            self._answered[address, mac] = clock()
            if (name := self.wanted.get(" ".join(key.split()[:2]))) is not None:
                self.met[name] = Met(address, mac)

        now = clock()
        due = [
            item
            for item in places.items()
            if now - self._answered.get(item, -AGAIN_SECONDS) >= AGAIN_SECONDS
        ]
        await asyncio.gather(*(one(*item) for item in due))


def parse_leases(text: str) -> dict[str, str]:
    """Adapters by address, of dnsmasq's lease file."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0].isdigit() and words[1].count(":") == 5:
            found[words[2]] = words[1].lower()
    return found


def doubles(met: Mapping[str, Met], known: Mapping[str, str]) -> dict[str, str]:
    """Why phones are refused for their adapter: one MAC address is one phone's.

    `known` maps the adapters of other phones to their names.
    """
    owners: dict[str, list[str]] = {}
    for name, place in met.items():
        owners.setdefault(place.mac or place.address, []).append(name)
    refused: dict[str, str] = {}
    for where, names in owners.items():
        others = sorted({*names, *([known[where]] if where in known else [])})
        if len(others) > 1:
            mac = met[names[0]].mac
            what = f"have the MAC {mac}" if mac else f"have one MAC, as both answer at {where}"
            refused |= dict.fromkeys(
                names,
                f"the adapters of {' and '.join(others)} {what}; "
                "give one of them another adapter, and run this again",
            )
    return refused


async def enrol_on_wire(
    rack_file: Path, rack: Rack, paths: RackPaths, wait_seconds: float, watch: Watch
) -> list[Report]:
    """Meet the phones that are enrolled by adb and now hang on the wire.

    Raises InputError where there is nothing to meet, ServicesError, AdbError.
    """
    register = Register(rack, rack_file)
    lock, keys = register.entries(), register.host_keys()
    names = [name for name in rack_dhcp.waiting(rack) if name in lock]
    if not names:
        raise InputError(
            "no phone waits to be met on the wire: `fleetctl enroll` comes first, by USB"
        )
    if unknown := [name for name in names if name not in keys]:
        raise InputError(f"no host key is known of {', '.join(unknown)}: enrol them by USB again")
    reports = [Report(lock[name].serial or "", lock[name].serial or "", name) for name in names]
    search = Search({keys[name]: name for name in names})
    async with session(paths) as adb, services_host(rack, paths) as services:
        for report in reports:
            report.step, report.note = "network", "waiting for its lease and its sshd"
        watch(reports)
        await _search(search, rack, services, wait_seconds)
        refused = doubles(
            search.met,
            {
                entry.mac: name
                for name, entry in lock.items()
                if entry.mac and name not in search.met
            },
        )
        fine: list[Report] = []
        for report in reports:
            name = report.name or ""
            if name not in search.met:
                report.end, report.reason = "needs-hands", _silent(rack)
            elif name in refused:
                report.end, report.reason = "refused", refused[name]
            else:
                fine.append(report)
                place = search.met[name]
                ours = rack.network.dhcp == "ours"
                report.address = rack.phones[name].address if ours else place.address
                met = replace(lock[name], mac=place.mac or lock[name].mac, address=report.address)
                if met.mac != lock[name].mac:
                    # Two may have changed places, and at no time have two phones one adapter.
                    register.enrol(name, replace(lock[name], mac=None), keys[name])
                lock[name] = met
        for report in fine:
            name = report.name or ""
            register.enrol(name, lock[name], keys[name])
        watch(reports)
        if rack.network.dhcp == "ours" and fine:
            await _reserve(load_rack(rack_file), services)
        sign(rack_file)
        bench = _Bench(
            load_rack(rack_file),
            paths,
            adb,
            lambda: watch(reports),
            lambda name: register.enrol(name, replace(lock[name], adb_open=False), keys[name]),
        )
        await asyncio.gather(
            *(_finish(bench, report, search.met[report.name or ""]) for report in fine)
        )
    return reports


def _silent(rack: Rack) -> str:
    lease = (
        "no lease of the services host's leads to it (run `ansible-playbook site.yml -t "
        "controller` first)"
        if rack.network.dhcp == "ours"
        else f"nobody in {rack.network.cidr} answers by its host key"
    )
    return f"{lease}: look at its hub, adapter and cable, and whether Termux is running on it"


async def _search(search: Search, rack: Rack, services: ServicesHost, wait_seconds: float) -> None:
    """Ask until all are met or time is over."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_seconds
    while True:
        if rack.network.dhcp == "ours":
            places: dict[str, str | None] = dict(parse_leases(await services.read(LEASES)))
        else:
            places = dict.fromkeys(addresses_to_ask(rack))
        await search.ask(places)
        if not search.missing or clock() >= deadline:
            break
        await asyncio.sleep(POLL_SECONDS)
    if rack.network.dhcp != "ours":
        neighbours = await _neighbours()
        for name, place in search.met.items():
            search.met[name] = Met(place.address, neighbours.get(place.address))


def addresses_to_ask(rack: Rack) -> list[str]:
    """Where a phone may be in a network that others serve. Raises InputError for a huge one."""
    cidr = rack.network.cidr
    if cidr.num_addresses > MOST_ADDRESSES:
        raise InputError(
            f"{cidr} has {cidr.num_addresses} addresses: too many to ask; narrow `cidr` to the "
            "part that phones get their leases from"
        )
    own = {rack.network.controller, rack.network.services}
    own |= {switch.address for switch in rack.switches.values()}
    own |= {phone.address for phone in rack.phones.values() if phone.met}
    return [str(address) for address in cidr.hosts() if str(address) not in own]


async def _neighbours() -> dict[str, str]:
    """Adapters by address, of those in this machine's own network that it has just spoken to."""
    process = await asyncio.create_subprocess_exec(
        "ip", "-json", "-4", "neigh", "show", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return {item["dst"]: item["lladdr"] for item in json.loads(out or b"[]") if "lladdr" in item}


async def _reserve(rack: Rack, services: ServicesHost) -> None:
    """Have the DHCP server know the new adapters; it reads the file at once.

    But what was another adapter's it gives to none, until it starts anew.
    """
    text = "\n".join([*rack_dhcp.reservations(rack), ""])
    before = await services.read(RESERVATIONS)
    if before != text:
        await services.write(RESERVATIONS, text)
    leases = parse_leases(await services.read(LEASES))
    if _changes_hands(parse_reservations(text), parse_reservations(before), leases):
        await services.restart("dnsmasq")


def parse_reservations(text: str) -> dict[str, str]:
    """Adapters by address, as `fleetctl.rack.dhcp` has written them."""
    words = (line.split(",") for line in text.splitlines())
    return {word[1]: word[0] for word in words if len(word) >= 2}


def _changes_hands(wanted: Mapping[str, str], *present: Mapping[str, str]) -> bool:
    """Whether an address belongs to another adapter than before."""
    return any(
        known.get(address, mac) != mac for address, mac in wanted.items() for known in present
    )


@dataclass(frozen=True, slots=True)
class _Bench:
    rack: Rack
    paths: RackPaths
    adb: Adb
    changed: Callable[[], None]
    closed: Callable[[str], None]
    """Notes that a phone's adb is off the network."""


async def _finish(bench: _Bench, report: Report, met: Met) -> None:
    """At its own address, by ssh: Wi-Fi off, adb off the network."""
    name = report.name or ""

    def at(step: Step, note: str = "") -> None:
        report.step, report.note = step, note
        bench.changed()

    try:
        at("ssh", f"at {met.address}")
        await _log_in(bench, name, met.address)
        address = met.address
        wanted = bench.rack.phones[name].address
        if address != wanted:
            at("network", f"moving from {address} to {wanted}")
            await _moved(bench, name, wanted)
            address = wanted
        if bench.rack.network.medium == "ethernet":
            at("settings", "Wi-Fi off, adb off the network")
            if await _leave_adb(bench, name, address, report):
                bench.closed(name)
                with State(bench.paths.state_db) as known:
                    known.forget_adb([name])
            at("ssh", f"at {address}")
            await _log_in(bench, name, address)
    except (PhoneError, AdbError, ServicesError) as problem:
        report.end, report.reason = report.end or "failed", str(problem)
    else:
        if report.end is None:
            report.end, report.step, report.note = "enrolled", "done", ""
    bench.changed()


async def _log_in(bench: _Bench, name: str, address: str) -> None:
    paths = bench.paths
    identity = Identity(paths.known_hosts, paths.operator, paths.operator_cert)
    await log_in(name, address, identity, PHONE_PORT)


async def _moved(bench: _Bench, name: str, address: str) -> None:
    """Wait until the phone has taken its own address. Raises PhoneError."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + MOVE_LIMIT_SECONDS
    while True:
        try:
            await _log_in(bench, name, address)
            return
        except PhoneError:
            if clock() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)


async def _leave_adb(bench: _Bench, name: str, address: str, report: Report) -> bool:
    """By adb over the network: Wi-Fi off, then no more of adb. Returns whether adb is closed."""
    endpoint = f"{address}:{TCP_PORT}"
    said = await bench.adb.connect(endpoint)
    links = {link.name: link.state for link in await bench.adb.links()}
    state = links.get(endpoint)
    if state != "device":
        report.end = "needs-hands"
        if await listens(address, TCP_PORT):
            report.reason = (
                f"adb listens at {endpoint} and does not let this machine in "
                f"({state or said or 'silent'}): restart the phone, which closes it, or enrol it "
                f"by USB again (`fleetctl enroll --serial {report.serial}`)"
            )
            return False
        report.reason = (
            f"ssh answers, but adb does not ({state or said or 'closed'}): the phone has restarted "
            "since `fleetctl enroll`, or that was cut off, so Wi-Fi is as it was; see on the "
            "phone's screen that it is off"
        )
        return True
    phone = bench.adb.phone(endpoint)
    outcome = await android.ensure(phone, [android.WIFI_OFF])
    if outcome.problems:
        # Without adb nobody could switch it off from afar.
        report.end = "needs-hands"
        report.reason = (
            f"Wi-Fi stays on ({'; '.join(outcome.problems.values())}): switch it off on the "
            "phone's screen, and run `fleetctl enroll --wire` again, which closes adb; adb is open "
            f"at {endpoint} until then, for anybody on the network"
        )
        return False
    # Over the wire alone; else Wi-Fi would have carried what came before.
    await _log_in(bench, name, address)
    await phone.listen_on_usb()
    await bench.adb.disconnect(endpoint)
    if not await _has_closed(address):
        report.end = "needs-hands"
        report.reason = (
            f"adb still listens at {endpoint}, for anybody on the network: restart the phone, "
            "which ends it, and run `fleetctl enroll --wire` again"
        )
        return False
    return True


async def _has_closed(address: str) -> bool:
    """Whether adb's daemon, which starts anew to leave the network, has left it."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + CLOSE_LIMIT_SECONDS
    while await listens(address, TCP_PORT):
        if clock() > deadline:
            return False
        await asyncio.sleep(POLL_SECONDS / 10)
    return True
