"""Bring a stand-in rack up, mend it, and take it down without a trace."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fleetctl.rack import Phone, Rack, RackPaths
from standin import engine, images, storage
from standin.commands import CommandError, require_host, run
from standin.daemon import process
from standin.daemon.control import tell_of_change
from standin.effects import settle_started
from standin.engine import Container
from standin.enrolment import MODEL, enrol, locked, make_android, renew_retired
from standin.errors import StandinError
from standin.fabric import SERVICES, Kind, namespace_name, plan_fabric, rack_of
from standin.faults import Faults, read_faults
from standin.hardware import HardwareState
from standin.hardware.files import kept_state, write_hardware
from standin.openvswitch import image as switch_image
from standin.openvswitch.enrolment import enrol_switches, require_addresses, switch_logins
from standin.record import (
    agreed_boxed,
    agreed_kind,
    agreed_rate,
    is_standin,
    is_up,
    refuse_foreign,
    refuse_real_phones,
    write_record,
)
from standin.rig import Rig, exclusive, host_link_name, refuse_overlap

SSH_WAIT_SECONDS = 120
_WORKERS = 8

type Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Up:
    """What `up` did. `started` are the hosts whose containers it started, in rack order."""

    was_up: bool
    started: list[str]
    remarks: list[str]
    switches: list[str]
    """How to log in on each switch that has a command line."""


def up(
    rack: Rack,
    rack_file: Path,
    rate: str | None,
    say: Say,
    boxed: bool = False,
    kind: Kind | None = None,
) -> Up:
    """Bring the rack of `rack_file` up, or make what is missing of one that is up already.

    `kind` is that of its switches, where it is not to be the rack file's usual one. Its phones are
    enrolled, or with `boxed` as they come out of their boxes.
    An interrupted first `up` is rolled back; an interrupted repair leaves what was there.
    """
    require_host()
    refuse_real_phones(rack)
    with exclusive(rack.name):
        paths = RackPaths(rack.name)
        was_up = is_up(rack.name)
        kind = agreed_kind(rack, paths, kind)
        rig = Rig(rack, paths, plan_fabric(rack, agreed_rate(rack, paths, rate), kind))
        boxed = agreed_boxed(rack, paths, boxed)
        refuse_foreign(rig)
        refuse_overlap(rig.plan)
        if kind == "ovs":
            require_addresses(rack)
        try:
            made = images.ensure(say)
            switch = switch_image.ensure(say) if kind == "ovs" else ""
            say("keys, hardware and packages")
            _prepare(rig, rack_file, boxed)
            return _raise(rig, made, switch, was_up, say)
        except BaseException:
            if not was_up:
                say("rolling back")
                _clear(rack.name, paths.dir)
            raise


def _raise(rig: Rig, made: images.Images, switch: str, was_up: bool, say: Say) -> Up:
    faults = read_faults(rig.folders.faults)
    unplugged = {host for host, kinds in faults.items() if "unplug" in kinds}
    say("wires")
    rig.wire(unplugged, switch)
    # The services host's way out, to Debian's mirror, as a real one has.
    engine.make_network(rig.rack.name, rig.plan.namespace)
    image = dict.fromkeys(rig.rack.phones, made.phone) | {SERVICES: made.services}
    started = _start_missing(rig, image, faults, say)
    _settle_loose(rig, started, faults, say)
    remarks = _outdated(rig, image)
    logins = switch_logins(rig.rack) if rig.ovs else {}
    if not process.ensure_running(rig.folders.root):
        tell_of_change(rig.folders.root)
    else:
        say("waiting for switches")
        remarks += _unanswered(rig.rack, logins)
    if SERVICES in started:
        say("waiting for the services host")
        _await_ssh("the services host", str(rig.rack.network.services))
    hosts = [host for host in rig.hosts if host in started]
    return Up(was_up, hosts, remarks, list(logins.values()))


def _unanswered(rack: Rack, switches: Iterable[str]) -> list[str]:
    """Switches that do not let the controller through, perhaps because somebody wanted it so."""
    remarks = []
    for name in switches:
        try:
            _await_ssh(f"switch {name}", str(rack.switches[name].address))
        except StandinError as problem:
            remarks.append(str(problem))
    return remarks


def _prepare(rig: Rig, rack_file: Path, boxed: bool) -> None:
    """All that lies in the rack's folder before a container starts."""
    rig.paths.ensure()
    folders = rig.folders
    folders.root.mkdir(mode=0o700, exist_ok=True)
    write_record(rig, rack_file, boxed)
    folders.denied.touch(mode=0o000)
    engine.remove(rig.container_name(phone) for phone in renew_retired(rig.rack, rig.paths))
    enrol(rig.rack, rig.paths, boxed)
    if rig.ovs:
        enrol_switches(rig.rack, rig.paths, folders.switches)
    for phone in rig.rack.phones.values():
        _render_hardware(folders.hardware(phone.name), rig.rack, phone)
        make_android(folders, rig.rack, phone, boxed)
    if not any(rig.paths.packages.iterdir()):
        _export_packages(rig)


def _export_packages(rig: Rig) -> None:
    """Fill the packages folder in one step, so that an interrupted copy is never taken for all."""
    partial = rig.folders.root / "packages"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    images.export_packages(partial)
    partial.rename(rig.paths.packages)


def _render_hardware(folder: Path, rack: Rack, phone: Phone) -> None:
    """Write the hardware files from the phone's kept state, else from a plausible one."""
    folder.mkdir(parents=True, exist_ok=True)
    known = locked(rack, phone)
    state = kept_state(folder) or HardwareState.plausible(
        known.serial or "", phone.model or MODEL, known.api_level or 0, outlet=phone.name
    )
    write_hardware(folder, state)


def _start_missing(
    rig: Rig, image: dict[str, str], faults: dict[str, Faults], say: Say
) -> set[str]:
    """Start every host that neither runs nor was killed on purpose; returns those started."""
    present = rig.containers()

    def start(host: str) -> None:
        if host in present:
            engine.start(present[host].name)
            container = engine.container(present[host].name)
        else:
            if host != SERVICES:
                rig.renew_storage(host)
            container = engine.start_new(rig.spec(host, image[host]))
        # At once: a host that waits for its cable keeps looking for it.
        _plug_in(rig, container, faults)

    dead = [host for host, found in present.items() if found.state == "dead"]
    revived = [host for host in dead if "kill" not in faults.get(host, {})]
    wanted = [host for host in rig.hosts if host not in present or host in revived]
    if storage.is_possible() and any(host not in present for host in rig.rack.phones):
        say("storage")
        fresh = [rig.volume(host) for host in wanted if host not in (*present, SERVICES)]
        engine.remove_volumes(rig.rack.name, fresh)
        storage.make_template(rig.folders.storage, image[next(iter(rig.rack.phones))])
    _each(wanted, start, lambda done: say(f"containers {done}/{len(wanted)}"))
    return set(wanted)


def _settle_loose(rig: Rig, started: set[str], faults: dict[str, Faults], say: Say) -> None:
    """Plug in what ran already, but without a cable, with the faults that it has."""
    ports, wired = rig.ports(), rig.wired
    loose = {
        host: found
        for host, found in rig.containers().items()
        if found.pid and host not in started and wired.ports[host].name not in ports
    }
    _each(
        list(loose),
        lambda host: _plug_in(rig, loose[host], faults),
        lambda done: say(f"cables {done}/{len(loose)}"),
    )


def _plug_in(rig: Rig, container: Container, faults: dict[str, Faults]) -> None:
    if container.host == SERVICES:
        rig.plug(container)
    else:
        settle_started(rig, container, faults.get(container.host, {}))


def _each(hosts: list[str], work: Callable[[str], None], tell: Callable[[int], None]) -> None:
    """`work` for all hosts side by side; the first failure, or Ctrl-C, drops what is waiting."""
    pool = ThreadPoolExecutor(max_workers=_WORKERS)
    try:
        futures = {pool.submit(work, host): host for host in hosts}
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            tell(done)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _outdated(rig: Rig, image: dict[str, str]) -> list[str]:
    old = [host for host, found in rig.containers().items() if found.image != image[host]]
    if not old:
        return []
    return [f"{len(old)} containers run an older image: `down` and `up` renew them"]


def _await_ssh(who: str, address: str) -> None:
    """Wait until sshd greets. Raises StandinError after SSH_WAIT_SECONDS."""
    deadline = time.monotonic() + SSH_WAIT_SECONDS
    while time.monotonic() < deadline:
        with (
            suppress(OSError),
            socket.create_connection((address, 22), timeout=2) as connection,
        ):
            if connection.recv(4) == b"SSH-":
                return
        time.sleep(0.2)
    raise StandinError(f"sshd of {who} at {address} does not answer")


def down(rack: str, wherever: bool = False) -> list[str]:
    """Remove all of a rack, however little of it is left; returns the hosts whose containers went.

    Its folder goes too if it is a stand-in's. Raises StandinError for a rack of this name that is
    kept in another home, unless `wherever`.
    """
    require_host()
    with exclusive(rack):
        folder = RackPaths(rack).dir
        if not wherever:
            _refuse_kept_elsewhere(rack, folder)
        return _clear(rack, folder)


def _refuse_kept_elsewhere(rack: str, folder: Path) -> None:
    places = {Path(found.folder) for found in engine.containers(rack) if found.folder}
    for place in sorted(places - {folder}):
        # A rack whose folder was deleted is nobody's any more.
        if is_standin(place):
            raise StandinError(
                f"rack `{rack}` is kept in {place}, not in {folder}: take it down there, by "
                f"`PHONERACK_HOME={place.parent} fleetctl standin down`"
            )


def _clear(rack: str, folder: Path) -> list[str]:
    present = engine.containers(rack)
    places = {folder, *(Path(found.folder) for found in present if found.folder)}
    for place in places:
        process.stop(RackPaths(place.name, place.parent).standin)
    engine.remove(found.name for found in present)
    namespace, link = namespace_name(rack), host_link_name(rack)
    engine.remove_volumes(rack)
    engine.remove_network(namespace)
    spaces = _children(Path("/run/netns"), "pr-*")
    for space in [path.name for path in spaces if rack_of(path.name) == rack]:
        run(("ip", "netns", "delete", space))
    with suppress(CommandError):
        # It goes with its other end, a moment after the namespace.
        run(("ip", "link", "delete", link))
    for place in places:
        if is_standin(place):
            shutil.rmtree(place)
    return [found.host for found in present]


def standing_racks() -> list[str]:
    """Names of all stand-in racks of which anything is left on this machine."""
    names = {found.rack for found in engine.containers()}
    names |= {rack_of(path.name) for path in _children(Path("/run/netns"), "pr-*")}
    home = RackPaths("any").home
    names |= {path.name for path in _children(home, "*") if is_standin(path)}
    return sorted(names)


def _children(folder: Path, pattern: str) -> Iterable[Path]:
    return folder.glob(pattern) if folder.is_dir() else ()
