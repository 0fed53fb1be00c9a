"""Checks of the controller, its network, the mirror and the monitoring. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold

MIN_FREE_BYTES, LOW_FREE_BYTES = 256 << 20, 2 << 30
FILES_A_PHONE, FILES_BESIDES = 4, 128
MAX_CLOCK_OFFSET_SECONDS = 1.0
SHOWN_ADDRESSES = 4


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of this machine."""

    name: str
    address: str
    prefix: int
    mtu_bytes: int
    up: bool = True


@dataclass(frozen=True, slots=True)
class Guarding:
    """`watches`: a guard is there, and decides. `silent_seconds`: since it last decided; None if it
    never has."""

    watches: bool
    silent_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Serving:
    """`by`: who serves the rack; None if nobody does. `installed`: as a service, which should."""

    by: str | None
    waiting: int = 0
    """So many jobs wait for somebody who starts them."""
    installed: bool = False


@dataclass(frozen=True, slots=True)
class ControllerFacts:
    """What was found here and on the services host. None is unknown; an empty text is "well"."""

    free_bytes: Mapping[str, int | None] = field(default_factory=dict)
    """By folder."""
    interfaces: tuple[Interface, ...] | None = None
    ssh_problems: tuple[str, ...] = ()
    """Keys that are missing, open to others, or do not belong together."""
    unknown_phones: tuple[str, ...] = ()
    """Enrolled phones that known_hosts lacks."""
    state_problem: str = ""
    open_files: int = 1 << 20
    """So many files this process may hold open."""
    clock_synchronised: bool | None = None
    clock_offset_seconds: float | None = None
    """The services host's clock against this one."""
    services_problem: str | None = None
    """Why the services host cannot be asked."""
    units: Mapping[str, str] | None = None
    """systemd's word (`active`, `failed`, …) by unit on the services host."""
    snapshot: str | None = None
    """The rack's snapshot of packages; None where there was no mirror yet."""
    mirror_problem: str | None = None
    prometheus_problem: str | None = None
    watched: int | None = None
    """Phones that Prometheus looks at."""
    alertmanager_problem: str | None = None
    guard: Guarding | None = None
    serve: Serving | None = None
    tools: Mapping[str, str | None] = field(default_factory=dict)
    """Version by program; None where it is missing."""
    drift: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    """Package -> version of the lock, and the one that is installed."""


@check(
    name="disk",
    scope="controller",
    cure="free some space: `fleetctl jobs --prune` removes old runs, `fleetctl jobs RUN --prune` "
    "any that is over; or snapshots, other people's files",
)
def disk(facts: ControllerFacts, _: Rack) -> Result:
    """There is room for state, runs, checkpoints and temporary files."""
    sizes = {folder: free for folder, free in facts.free_bytes.items() if free is not None}
    if not sizes:
        return Result("UNKNOWN", "free space cannot be read")
    folder = min(sizes, key=sizes.__getitem__)
    said = f"{sizes[folder] >> 20} MiB are free in {folder}"
    if sizes[folder] < MIN_FREE_BYTES:
        return Result("CRITICAL", said)
    return Result("WARN" if sizes[folder] < LOW_FREE_BYTES else "OK", said)


@check(
    name="state",
    scope="controller",
    cure="see the message; a backup of the rack's folder holds an older one",
)
def state(facts: ControllerFacts, _: Rack) -> Result:
    """The state database can be read, and is whole."""
    if facts.state_problem:
        return Result("CRITICAL", facts.state_problem)
    return Result("OK", "the state is whole")


@check(name="keys", scope="controller", cure="correct the modes; run site.yml -t controller")
def keys(facts: ControllerFacts, _: Rack) -> Result:
    """The authority's key and the operator's are there, theirs alone, and belong together."""
    if facts.ssh_problems:
        return Result("CRITICAL", "; ".join(facts.ssh_problems))
    return Result("OK", "keys are there, and closed to others")


@check(
    name="known-phones",
    scope="controller",
    cure="enrol them again (`fleetctl enroll`): without its key a phone is not reached",
)
def known_phones(facts: ControllerFacts, _: Rack) -> Result:
    """Every enrolled phone has a host key."""
    if facts.unknown_phones:
        return Result("WARN", f"no host key is known of {fold(facts.unknown_phones)}")
    return Result("OK", "every enrolled phone has a host key")


@check(
    name="open-files",
    scope="controller",
    cure="raise it: `ulimit -n 4096`, or LimitNOFILE= of the service",
)
def open_files(facts: ControllerFacts, rack: Rack) -> Result:
    """A connection to every phone at once fits into the limit of open files."""
    needed = FILES_BESIDES + FILES_A_PHONE * len(rack.enrolled)
    if facts.open_files < needed:
        return Result("WARN", f"may hold {facts.open_files} files open, needs {needed}")
    return Result("OK", f"may hold {facts.open_files} files open")


@check(
    name="controller-address",
    scope="controller",
    cure="give this machine its address in the rack's network, or correct `network:`",
)
def address(facts: ControllerFacts, rack: Rack) -> Result:
    """This machine stands in the rack's network, at its address, with its prefix and MTU."""
    network = rack.network
    if facts.interfaces is None:
        return Result("UNKNOWN", "its addresses cannot be read: is iproute2 installed?")
    wanted = network.controller
    mine = [each for each in facts.interfaces if each.address == wanted]
    if not mine:
        known = [f"{e.address}/{e.prefix}" for e in facts.interfaces if e.name != "lo"]
        more = f" and {len(known) - SHOWN_ADDRESSES} more" if len(known) > SHOWN_ADDRESSES else ""
        own = (", ".join(known[:SHOWN_ADDRESSES]) or "none") + more
        return Result(
            "CRITICAL",
            f"bears no address {wanted or f'in {network.cidr}'}, but {own}: phones are out of "
            "reach, or reached by another way",
        )
    own_one = mine[0]
    if not own_one.up:
        return Result("CRITICAL", f"{own_one.name}, which bears {wanted}, is down")
    if own_one.prefix != network.cidr.prefixlen:
        return Result(
            "WARN",
            f"{wanted} on {own_one.name} has prefix /{own_one.prefix}, the rack's network is "
            f"{network.cidr}: part of the phones, or of others, is taken for neighbours",
        )
    if own_one.mtu_bytes < network.mtu:
        return Result(
            "WARN", f"{own_one.name} has MTU {own_one.mtu_bytes}, the rack file says {network.mtu}"
        )
    return Result("OK", f"{wanted}/{own_one.prefix} on {own_one.name}")


@check(
    name="controller-clock",
    scope="controller",
    cure="set it, and keep it: `timedatectl set-ntp true`, or chrony",
)
def clock(facts: ControllerFacts, _: Rack) -> Result:
    """This machine's clock is kept, and agrees with the services host's, which phones ask."""
    offset = facts.clock_offset_seconds
    if offset is not None and abs(offset) > MAX_CLOCK_OFFSET_SECONDS:
        return Result("WARN", f"the services host's clock is {offset:+.1f} s from this one")
    if facts.clock_synchronised is False:
        return Result("WARN", "nothing keeps this machine's clock")
    if offset is None and facts.clock_synchronised is None:
        return Result("UNKNOWN", "nobody tells whether the clock is right")
    return Result("OK", "the clock is right")


@check(
    name="services-host",
    scope="controller",
    cure="see that it is up; site.yml -t controller sets it up",
)
def services_host(facts: ControllerFacts, _: Rack) -> Result:
    """The services host lets us in."""
    if facts.services_problem:
        return Result("CRITICAL", facts.services_problem)
    return Result("OK", "the services host answers")


@check(
    name="services",
    scope="controller",
    cure="see `journalctl -u UNIT` there; site.yml -t controller,monitoring puts them back",
)
def services(facts: ControllerFacts, _: Rack) -> Result:
    """What the services host shall do, it does."""
    if facts.services_problem:
        return Result("UNKNOWN", "not asked", ordinary=True)
    if facts.units is None:
        return Result("UNKNOWN", "the services host does not tell of its services")
    if not facts.units:
        return Result("OK", "this rack has no services there")
    idle = {unit: word for unit, word in facts.units.items() if word != "active"}
    if idle:
        said = ", ".join(f"{unit} is {word or 'unknown'}" for unit, word in idle.items())
        return Result("CRITICAL", f"on the services host {said}")
    return Result("OK", f"{', '.join(facts.units)} run")


@check(name="mirror", scope="controller", cure="run site.yml -t controller")
def mirror(facts: ControllerFacts, _: Rack) -> Result:
    """Phones can fetch packages of the rack's snapshot."""
    if facts.snapshot is None:
        return Result("WARN", "there is no mirror of packages yet")
    if facts.mirror_problem:
        return Result("CRITICAL", f"snapshot {facts.snapshot}: {facts.mirror_problem}")
    return Result("OK", f"serves snapshot {facts.snapshot}")


@check(name="prometheus", scope="controller", cure="run site.yml -t monitoring")
def prometheus(facts: ControllerFacts, rack: Rack) -> Result:
    """Prometheus is up, and looks at every phone."""
    if facts.prometheus_problem:
        return Result("WARN", facts.prometheus_problem)
    phones = len(rack.enrolled)
    if facts.watched is not None and facts.watched < phones:
        return Result("WARN", f"Prometheus looks at {facts.watched} of {phones} phones")
    return Result("OK", f"Prometheus looks at {facts.watched} phones")


@check(name="alertmanager", scope="controller", cure="run site.yml -t monitoring")
def alertmanager(facts: ControllerFacts, _: Rack) -> Result:
    """Somebody passes on what Prometheus warns of."""
    if facts.alertmanager_problem:
        return Result("WARN", facts.alertmanager_problem)
    return Result("OK", "Alertmanager is ready")


@check(
    name="guard",
    scope="controller",
    cure="start `fleetctl guard`, or its service: `systemctl restart phonerack-guard-RACK`; "
    "`fleetctl guard status` tells more",
)
def guard(facts: ControllerFacts, _: Rack) -> Result:
    """A guard watches the batteries, and decides."""
    if facts.guard is None:
        return Result("UNKNOWN", "whether a guard watches cannot be read")
    if facts.guard.watches:
        return Result("OK", "a guard watches the batteries")
    silent = facts.guard.silent_seconds
    if silent is None:
        return Result("WARN", "no guard has ever watched the batteries of this rack")
    return Result("CRITICAL", f"nobody watches the batteries: guard decided last {_ago(silent)}")


@check(
    name="serve",
    scope="controller",
    cure="start `fleetctl serve`, or its service: `systemctl restart phonerack-serve-RACK`",
)
def serve(facts: ControllerFacts, _: Rack) -> Result:
    """Who queued jobs wait for is there."""
    if facts.serve is None:
        return Result("UNKNOWN", "whether anybody serves the rack cannot be read")
    if facts.serve.by is not None:
        return Result("OK", f"served by {facts.serve.by}")
    if waiting := facts.serve.waiting:
        jobs = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        return Result("CRITICAL", f"{jobs} in the queue, and nobody serves the rack")
    if facts.serve.installed:
        return Result("WARN", "nobody serves the rack, though a service is installed for it")
    return Result("OK", "nobody serves the rack, and no job waits for it")


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 600 else f"{seconds / 60:.0f} min ago"


@check(name="tools", scope="controller", cure="install what is missing: tools/setup")
def tools(facts: ControllerFacts, _: Rack) -> Result:
    """The programs that fleetctl calls are there."""
    if missing := [name for name, version in facts.tools.items() if version is None]:
        return Result("WARN", f"not installed: {', '.join(missing)}")
    return Result("OK", ", ".join(f"{name} {version}" for name, version in facts.tools.items()))


@check(name="dependencies", scope="controller", cure="run tools/setup")
def dependencies(facts: ControllerFacts, _: Rack) -> Result:
    """The Python packages are those of the lock."""
    if facts.drift:
        said = ", ".join(
            f"{name} {has or 'missing'} instead of {wanted}"
            for name, (wanted, has) in facts.drift.items()
        )
        return Result("WARN", said)
    return Result("OK", "Python packages are those of the lock")
