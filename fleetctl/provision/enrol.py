"""Enrolment by adb: from phones on USB to phones that answer ssh by a key that is known.

Each phone goes through the same steps, side by side with the others; what one of them lacks stops
nobody else. Every step may be done again, so an interrupted enrolment is completed by the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.provision import android, enrol_facts, enrol_termux
from fleetctl.provision.enrol_facts import Found
from fleetctl.provision.enrol_files import Luggage, gather
from fleetctl.provision.enrol_look import End, Report, Step, Watch, look, settled
from fleetctl.provision.enrol_termux import Failed, NeedsHands
from fleetctl.provision.identity import Register
from fleetctl.provision.keys import Request, fulfil
from fleetctl.rack import InputError, Rack, RackPaths, load_rack
from fleetctl.rack.lock import Locked
from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote.adb import AdbPhone, session
from fleetctl.remote.connect import Identity
from fleetctl.remote.faults import PhoneError
from fleetctl.remote.hostkey import host_key, log_in
from fleetctl.state import Held, State

CONCURRENT = 16
"""Phones at once: a hub's bandwidth is shared by all that hang on it."""

SSH_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.5

_OPENED = "restarting in TCP mode"
"""What a phone's adb daemon says before it does; adb's client ends well without it too."""


@dataclass(frozen=True, slots=True)
class Options:
    """`serials`: these only, even if they are enrolled; none: all that are new. `name`: the place
    that the only phone shall take; `replace`: whose place it takes over; `wait_seconds`: how long
    to wait for people who accept dialogs, which are there only as long as somebody asks."""

    serials: tuple[str, ...] = ()
    name: str | None = None
    replace: str | None = None
    wait_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What all phones of one enrolment share."""

    rack: Rack
    rack_file: Path
    paths: RackPaths
    luggage: Luggage
    operator: str
    replace: bool
    watch: Callable[[], None]


async def enrol(
    rack_file: Path, rack: Rack, paths: RackPaths, options: Options, watch: Watch
) -> list[Report]:
    """Enrol the phones that adb sees. Returns what became of each.

    Raises InputError for what the operator must put right first, AdbError where adb cannot work.
    """
    if options.replace:
        _refuse_busy(paths, options.replace)
    reports = await _enrol_all(rack_file, rack, paths, options, watch)
    with State(paths.state_db) as state:
        known = [one.name for one in reports if one.end in ("enrolled", "known") and one.name]
        state.record_adb(dict.fromkeys(known, True))
    return reports


async def _enrol_all(
    rack_file: Path, rack: Rack, paths: RackPaths, options: Options, watch: Watch
) -> list[Report]:
    register = Register(rack, rack_file)
    async with session(paths) as adb:
        links = await settled(adb, options.wait_seconds, watch)
        reports, found = await look(adb, links, options.serials)
        if any(report.end is None for report in reports):
            _assign(reports, found, rack, register, options, _runs(paths))
        watch(reports)
        if not any(report.end is None for report in reports):
            return reports
        luggage = Luggage((), ())
        if any(report.end is None and report.step == "look" for report in reports):
            luggage = gather(paths.apks, paths.packages)
        sign(rack_file)
        bench = Bench(
            rack=rack,
            rack_file=rack_file,
            paths=paths,
            luggage=luggage,
            operator=paths.operator_pub.read_text().strip(),
            replace=options.replace is not None,
            watch=lambda: watch(reports),
        )
        bound = asyncio.Semaphore(CONCURRENT)

        async def one(report: Report) -> None:
            async with bound:
                await _enrol_one(bench, adb.phone(report.link), found[report.link], report)

        await asyncio.gather(*(one(report) for report in reports if report.end is None))
    return reports


def sign(rack_file: Path) -> None:
    """Make the operator's key, and everybody's certificates, as role `controller` does."""
    rack = load_rack(rack_file)
    phones = {phone.name: phone.address for phone in rack.phones.values() if phone.enrolled}
    fulfil(RackPaths(rack.name).ssh, Request(rack.name, phones))


def _refuse_busy(paths: RackPaths, name: str) -> None:
    """Raises Held where a run has the phone that shall be replaced."""
    if run := _runs(paths).get(name):
        raise Held({name: run})


def _runs(paths: RackPaths) -> dict[str, str]:
    """The runs that have phones, by the phone's name."""
    with State(paths.state_db) as state:
        return {name: facts.run for name, facts in state.phones().items() if facts.run}


def _assign(
    reports: Sequence[Report],
    found: dict[str, Found],
    rack: Rack,
    register: Register,
    options: Options,
    runs: Mapping[str, str],
) -> None:
    """Give each phone its place, or refuse it, or leave it alone because it is enrolled.

    `runs` maps places to the runs that have their phones.
    """
    lock: Mapping[str, Locked] = register.entries()
    known = {lock[name].serial for name in register.host_keys() if name in lock}
    if options.replace:
        lock = _vacate(options.replace, rack, lock)
    open_reports = [report for report in reports if report.end is None]
    facts = [found[report.link] for report in open_reports]
    place = options.name or options.replace
    assignment = enrol_facts.assign(facts, rack, lock, place)
    for report in open_reports:
        report.name = assignment.places.get(report.serial)
        if report.name is None:
            report.end, report.reason = "refused", assignment.refused[report.serial]
            continue
        if report.serial in known and not (options.serials or place):
            report.reason = f"enrolled already; --serial {report.serial} does it again"
            place_of = rack.phones[report.name]
            if place_of.waits_for_wire:
                # The last time may have been cut off just before its end: that is done again.
                report.step = "network"
            else:
                report.end, report.step, report.address = "known", "done", place_of.address
            continue
        reasons = enrol_facts.unfit(
            found[report.link], rack.phones[report.name], again=report.serial in known
        )
        if run := runs.get(report.name):
            # Termux is stopped on the way, and with it whatever runs there.
            reasons.append(f"it works for run {run}: wait for its end, or `fleetctl stop {run}`")
        if reasons:
            report.end, report.reason = "refused", "; ".join(reasons)


def _vacate(name: str, rack: Rack, lock: Mapping[str, Locked]) -> dict[str, Locked]:
    """The lock without the phone that is replaced."""
    if name not in rack.phones:
        raise InputError(f"{name} is not in the rack file: it has no place to take over")
    if name not in lock:
        raise InputError(f"{name} has no phone to replace: enrol with --name {name}")
    return {other: entry for other, entry in lock.items() if other != name}


async def _enrol_one(bench: Bench, phone: AdbPhone, found: Found, report: Report) -> None:
    end: End = "known" if report.step == "network" else "enrolled"
    try:
        if end == "enrolled":
            await _steps(bench, phone, found, report)
        await _finish(bench, phone, report)
    except NeedsHands as problem:
        report.end, report.reason = "needs-hands", str(problem)
    except (Failed, PhoneError, FleetError) as problem:
        report.end, report.reason = "failed", str(problem)
    else:
        report.end, report.step, report.note = end, "done", ""
    bench.watch()


async def _steps(bench: Bench, phone: AdbPhone, found: Found, report: Report) -> None:
    """From a phone that adb reaches to one that the register knows."""
    name = report.name or ""
    network = bench.rack.network

    def at(step: Step, note: str = "") -> None:
        report.step, report.note = step, note
        bench.watch()

    wanted = android.wishes(
        android.Profile(
            api_level=found.api_level,
            manufacturer=found.manufacturer,
            services=network.services or network.controller,
            serves_time=network.time == "ours",
        )
    )
    at("settings")
    await _settings(phone, android.before_apps(wanted), report)
    at("apps")
    apps = bench.luggage.apps_for(found.abis)
    await enrol_termux.install_apps(phone, apps, found)
    await _settings(phone, wanted, report)
    at("key")
    await enrol_termux.set_up_ssh(
        phone, bench.luggage, bench.operator, lambda note: at("key", note)
    )
    at("ssh")
    key = await _first_ssh(bench, phone, name)
    at("network")
    # A serial in the lock file is an enrolled phone, but for `_finish`.
    register = Register(bench.rack, bench.rack_file)
    before = register.entries().get(name, Locked())
    kept = before if before.serial == found.serial else Locked()
    wired = network.medium == "ethernet"
    entry = replace(kept, serial=found.serial, api_level=found.api_level, adb_open=wired)
    (register.replace if bench.replace else register.enrol)(name, entry, key)


async def _finish(bench: Bench, phone: AdbPhone, report: Report) -> None:
    """What is left once the register knows the phone: its way to the rack's network. May be done
    again, which also arms anew the adb of one that has restarted since."""
    name = report.name or ""
    network = bench.rack.network
    if network.medium == "wifi" and network.dhcp == "theirs":
        await _meet_on_wifi(bench, phone, report)
    sign(bench.rack_file)
    if network.medium == "ethernet":
        # By this, Wi-Fi is switched off once ssh has answered over the wire.
        said = await phone.listen_on_network()
        if not said.ok or _OPENED not in said.stdout:
            raise Failed(
                f"adb of {name} does not open on the network ({said.complaint}): leave it on USB, "
                "and run `fleetctl enroll` again"
            )


async def _meet_on_wifi(bench: Bench, phone: AdbPhone, report: Report) -> None:
    """Record where ssh answers in the rack's network: while it has adb, a phone keeps its Wi-Fi."""
    name = report.name or ""
    met = await enrol_facts.interface_in(phone, bench.rack.network.cidr)
    if met is None:
        report.remarks.append(f"it has no address in {bench.rack.network.cidr}")
        return
    paths = bench.paths
    identity = Identity(paths.known_hosts, paths.operator, paths.operator_cert)
    try:
        await log_in(name, met.address, identity, PHONE_PORT)
    except PhoneError as problem:
        report.remarks.append(str(problem))
        return
    register = Register(bench.rack, bench.rack_file)
    entry, key = register.entries()[name], register.host_keys()[name]
    register.enrol(name, replace(entry, mac=met.mac, address=met.address), key)
    report.address = met.address


async def _settings(phone: AdbPhone, wanted: Sequence[android.Wish], report: Report) -> None:
    """Make and verify settings. Raises Failed when one that is needed does not hold."""
    outcome = await android.ensure(phone, wanted)
    needed = {wish.name for wish in wanted if wish.needed}
    if failed := [text for name, text in outcome.problems.items() if name in needed]:
        raise Failed("; ".join(failed))
    report.remarks = [text for name, text in outcome.problems.items() if name not in needed]


async def _first_ssh(bench: Bench, phone: AdbPhone, name: str) -> str:
    """Log in through the cable by the operator's key. Returns the host key that the phone has.

    What answers is at the end of the USB cable, so its key need not be trusted on first use.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + SSH_WAIT_SECONDS
    async with phone.forwarded(PHONE_PORT) as port:
        while (key := await host_key("127.0.0.1", port)) is None:
            if clock() > deadline:
                raise Failed(
                    f"sshd does not answer {SSH_WAIT_SECONDS:g} s after it was started: look at "
                    "`sv status $PREFIX/var/service/sshd` in Termux, and rerun"
                )
            await asyncio.sleep(_POLL_SECONDS)
        await _log_in(bench.paths, name, key, port)
    return key


async def _log_in(paths: RackPaths, name: str, key: str, port: int) -> None:
    """Raises PhoneError when the key that was just brought does not open the phone."""
    expected = paths.adb / f"known_hosts-{name}"
    expected.write_text(f"{name} {key}\n")
    try:
        identity = Identity(expected, paths.operator, paths.operator_cert)
        # Until its next boot, which does it by itself, nothing else keeps the phone awake.
        await log_in(name, "127.0.0.1", identity, port, "termux-wake-lock")
    finally:
        expected.unlink(missing_ok=True)
