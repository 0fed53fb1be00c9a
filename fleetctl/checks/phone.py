"""Preflight: one probe a phone, then pure checks of what it answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.checks.links import MANY_FLAPS, LinkCounters, recent
from fleetctl.checks.registry import Outcome, Result, check, run_checks
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.variables import TERMUX_PREFIX
from fleetctl.state.facts import Status

if TYPE_CHECKING:
    from fleetctl.remote import Fleet
    from fleetctl.remote import Result as Answer

PROBE = Path(__file__).with_name("phone_probe.py")

PROBE_LIMIT_SECONDS = 60.0
"""A first import of torch from cold flash, on a phone that others keep busy."""

CHILDREN_LIMIT = 32
"""From Android 12 on, over all apps, unless enrolment's setting holds."""

CHILDREN_OF_A_JOB = 8
"""Open MPI's daemon, a rank with its helpers, what watches them."""

MIN_TEMPORARY_BYTES = 64 << 20
"""Open MPI's session folder; with 4 MB it crashes."""


@dataclass(frozen=True, slots=True)
class PhoneFacts:
    """What a phone answered; None is unknown. `address` is the one that the rack file gives."""

    name: str
    address: str
    problem: str | None = None
    """Why there is no answer: not reached, or an interpreter that does not run."""
    reached: bool = True
    """Whether the probe could be run there."""
    answered: bool | None = True
    """Whether the phone answered at all, be it only to refuse; None if nobody can tell."""
    python: str | None = None
    missing_modules: Mapping[str, str] = field(default_factory=dict)
    imports_spared: bool = False
    openmpi: str | None = None
    openmpi_problem: str | None = None
    release: str | None = None
    free_disk_bytes: int | None = None
    free_temporary_bytes: int | None = None
    free_memory_bytes: int | None = None
    clock_skew_seconds: float | None = None
    children: int | None = None
    """Processes of Termux's, all of them an app's children to Android."""
    interfaces: Mapping[str, str] | None = None
    """Address -> interface."""
    strays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Run -> processes here, for runs that do not hold this phone."""
    revocations: int | None = None
    wanted_revocations: int = 0
    """Versions of the list of revoked keys: the phone's, and the rack's."""
    neighbours: Mapping[str, str] | None = None
    """Name -> address of the phones that it can start ranks on."""
    host_file: Sequence[str] | None = None
    """Addresses in the order of its host file."""
    link: LinkCounters | None = None
    """What its switch has counted in the last quarter of an hour, if anybody recorded it."""
    common_release: str | None = None
    common_openmpi: str | None = None
    """What most of the phones that were asked together have."""
    moved_to: str | None = None
    """Where it answers instead of at its address, if it was searched for and found."""
    together: frozenset[str] = frozenset()
    """The phones that were asked together."""

    @property
    def interface(self) -> str | None:
        """The interface that bears the phone's rack address."""
        return (self.interfaces or {}).get(self.address)


async def gather(
    fleet: Fleet,
    rack: Rack,
    names: Iterable[str],
    *,
    holders: Mapping[str, str | None] | None = None,
    keep_stamp: bool = True,
    wanted_revocations: int = 0,
) -> dict[str, PhoneFacts]:
    """Ask all phones at once. `holders`: the run that holds each phone, whose processes may be.
    `wanted_revocations`: version of the rack's list of revoked keys.

    With `keep_stamp` a phone notes that its torch imports, so that the next probe is quick.
    """
    order = list(names)
    program = PROBE.read_text()
    recorded = asyncio.create_task(asyncio.to_thread(recent, rack, "15m", 1.0))
    command = f"{TERMUX_PREFIX}/bin/python - {'stamp' if keep_stamp else ''}"

    async def ask(name: str) -> PhoneFacts:
        began = time.time()
        answer = await fleet.run_on(
            name, command, stdin=program, timeout_seconds=PROBE_LIMIT_SECONDS
        )
        facts = read(name, rack.phones[name].address, answer, (began, time.time()))
        holder = (holders or {}).get(name)
        strays = {run: pids for run, pids in facts.strays.items() if run != holder}
        return replace(facts, strays=strays, wanted_revocations=wanted_revocations)

    found = await asyncio.gather(*(ask(name) for name in order))
    links = await recorded or {}
    return with_common_versions(
        {facts.name: replace(facts, link=links.get(facts.name)) for facts in found}
    )


def with_common_versions(found: Mapping[str, PhoneFacts]) -> dict[str, PhoneFacts]:
    """Each phone learns who they are, and which release and Open MPI most of them have."""
    release = _most_common(facts.release for facts in found.values())
    openmpi = _most_common(facts.openmpi for facts in found.values())
    together = frozenset(found)
    return {
        name: replace(facts, common_release=release, common_openmpi=openmpi, together=together)
        for name, facts in found.items()
    }


def _most_common(versions: Iterable[str | None]) -> str | None:
    known = Counter(version for version in versions if version is not None)
    return known.most_common(1)[0][0] if known else None


def read(name: str, address: str, answer: Answer, asked: tuple[float, float]) -> PhoneFacts:
    """Facts from the probe's answer; `asked` is when the probe began and ended here."""
    if answer.error is not None:
        error = answer.error
        return PhoneFacts(name, address, problem=str(error), reached=False, answered=error.reached)
    try:
        found: dict[str, Any] = json.loads(answer.stdout)
        clock, runs = found.pop("clock"), found.pop("runs")
        strays = {run: tuple(pids) for run, pids in runs.items()}
        began, ended = asked
        # Within the round trip nothing can be said.
        skew = max(began - clock, clock - ended, 0.0)
        return PhoneFacts(name, address, strays=strays, clock_skew_seconds=skew, **found)
    except (ValueError, KeyError, TypeError):
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        reason = said[-1] if said else f"exit code {answer.exit_code}"
        return PhoneFacts(name, address, problem=f"{name}: Python does not run: {reason}")


def judge(facts: Mapping[str, PhoneFacts], rack: Rack) -> dict[str, list[Outcome]]:
    """All phone checks for every phone."""
    return {name: run_checks("phone", facts[name], rack) for name in facts}


def folded(outcomes: Mapping[str, Iterable[Outcome]], *statuses: Status) -> list[str]:
    """One line for each message of the given statuses: `phone[002-003]: message; cure`."""
    phones: dict[tuple[str, str], list[str]] = {}
    for name, found in outcomes.items():
        for outcome in found:
            if outcome.result.status in statuses:
                said = outcome.result.message.removeprefix(name).removeprefix(":").lstrip()
                phones.setdefault((said, outcome.check.cure), []).append(name)
    return [f"{fold(names)}: {said}; {cure}" for (said, cure), names in phones.items()]


def _unknown(facts: PhoneFacts) -> Result | None:
    """The answer of every further check on a phone that said nothing."""
    return Result("UNKNOWN", "not asked") if facts.problem else None


@check(name="reachable", scope="phone", cure="see `fleetctl status`")
def reachable(facts: PhoneFacts, _: Rack) -> Result:
    """The phone answers over ssh."""
    if facts.reached:
        return Result("OK", "answers")
    return Result("CRITICAL", facts.problem or "no answer")


@check(
    name="interpreter",
    scope="phone",
    cure="install the rack's packages again with site.yml -t termux",
)
def interpreter(facts: PhoneFacts, rack: Rack) -> Result:
    """Python runs and imports what trainer and tools need; torch too, if the rack has it."""
    if not facts.reached:
        return Result("UNKNOWN", "not asked")
    if facts.problem:
        return Result("CRITICAL", facts.problem)
    torch = rack.versions.torch != "none"
    missing = {name: why for name, why in facts.missing_modules.items() if torch or name != "torch"}
    if missing:
        said = ", ".join(f"{name} ({why})" for name, why in missing.items())
        return Result("CRITICAL", f"Python cannot import {said}")
    return Result("OK", f"Python {facts.python}" + (", torch imports" if torch else ""))


@check(name="free-disk", scope="phone", cure="remove old runs and data sets on the phone")
def free_disk(facts: PhoneFacts, rack: Rack) -> Result:
    """Enough room for data, checkpoints and logs."""
    return _unknown(facts) or _at_least(
        "free disk", facts.free_disk_bytes, rack.thresholds.min_free_disk_bytes
    )


@check(name="free-temporary", scope="phone", cure="empty $TMPDIR on the phone")
def free_temporary(facts: PhoneFacts, _: Rack) -> Result:
    """Enough room in TMPDIR for Open MPI's session folder."""
    return _unknown(facts) or _at_least(
        "free space in TMPDIR", facts.free_temporary_bytes, MIN_TEMPORARY_BYTES
    )


@check(name="free-memory", scope="phone", cure="close other apps, or restart the phone")
def free_memory(facts: PhoneFacts, rack: Rack) -> Result:
    """Enough memory for torch and a model."""
    return _unknown(facts) or _at_least(
        "free memory", facts.free_memory_bytes, rack.thresholds.min_free_memory_bytes
    )


@check(name="release", scope="phone", cure="install one release with site.yml -t release")
def release(facts: PhoneFacts, _: Rack) -> Result:
    """All phones have the same release of the trainer."""
    if unknown := _unknown(facts):
        return unknown
    if facts.release is None:
        return Result("CRITICAL", "has no phonerack release")
    if facts.release != facts.common_release:
        return Result(
            "CRITICAL", f"has release {facts.release}, most phones have {facts.common_release}"
        )
    return Result("OK", f"release {facts.release}")


@check(name="openmpi", scope="phone", cure="install the rack's series with site.yml -t openmpi")
def openmpi(facts: PhoneFacts, rack: Rack) -> Result:
    """mpirun starts, is of the rack file's series, and of the same version on all phones."""
    if unknown := _unknown(facts):
        return unknown
    if facts.openmpi is None:
        return Result("CRITICAL", f"mpirun does not run: {facts.openmpi_problem}")
    wanted = rack.versions.openmpi
    if not facts.openmpi.startswith(f"{wanted}."):
        return Result(
            "CRITICAL", f"has Open MPI {facts.openmpi}, the rack file says series {wanted}"
        )
    if facts.openmpi != facts.common_openmpi:
        return Result(
            "CRITICAL", f"has Open MPI {facts.openmpi}, most phones have {facts.common_openmpi}"
        )
    return Result("OK", f"Open MPI {facts.openmpi}")


@check(name="address", scope="phone", cure="check its DHCP reservation and the rack file")
def address(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone bears its address of the rack file, inside the rack's network."""
    if facts.moved_to:
        return Result(
            "CRITICAL",
            f"answers at {facts.moved_to} now, not at {facts.address}: its DHCP server has given "
            "it another address, and shall reserve the former one for it",
        )
    if unknown := _unknown(facts):
        return unknown
    if facts.interfaces is None:
        return Result("UNKNOWN", "its interfaces cannot be read")
    if facts.interface is None:
        own = ", ".join(each for each in facts.interfaces if not each.startswith("127."))
        return Result(
            "CRITICAL",
            f"bears {own or 'no address'} instead of {facts.address} in {rack.network.cidr}",
        )
    return Result("OK", f"{facts.address} on {facts.interface}")


@check(name="clock", scope="phone", cure="set its clock in Android: nothing here may")
def clock(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone's clock is near the controller's; training itself does not need it."""
    if unknown := _unknown(facts):
        return unknown
    skew, limit = facts.clock_skew_seconds, rack.thresholds.max_clock_skew_seconds
    if skew is None:
        return Result("UNKNOWN", "its clock cannot be read")
    if skew > limit:
        return Result("WARN", f"its clock is {skew:.0f} s off, more than {limit:.0f} s")
    return Result("OK", f"clock within {skew:.0f} s")


@check(
    name="children",
    scope="phone",
    cure="end what does not belong there; by USB, site.yml -t bootstrap lifts the limit",
)
def children(facts: PhoneFacts, rack: Rack) -> Result:
    """A job's processes find room below Android's limit, in case it was not lifted."""
    if unknown := _unknown(facts):
        return unknown
    count, level = facts.children, rack.phones[facts.name].api_level
    if count is None:
        return Result("UNKNOWN", "the number of its processes is not known")
    if level is None or level < 31 or count + CHILDREN_OF_A_JOB <= CHILDREN_LIMIT:
        return Result("OK", f"{count} processes")
    setting = "max_phantom_processes" if level == 31 else "settings_enable_monitor_phantom_procs"
    return Result(
        "WARN",
        f"has {count} child processes and a job adds {CHILDREN_OF_A_JOB}: above {CHILDREN_LIMIT} "
        f"Android kills the oldest, unless {setting} holds as enrolment has set it",
    )


@check(name="revocations", scope="phone", cure="bring it with site.yml -t ssh")
def revocations(facts: PhoneFacts, _: Rack) -> Result:
    """The phone no longer accepts the keys that the rack has revoked."""
    if unknown := _unknown(facts):
        return unknown
    seen, wanted = facts.revocations, facts.wanted_revocations
    if (seen or 0) < wanted:
        has = "none" if seen is None else f"version {seen}"
        return Result("CRITICAL", f"its list of revoked keys is {has}, the rack's version {wanted}")
    if (seen or 0) > wanted:
        return Result(
            "WARN",
            f"its list of revoked keys is version {seen}, newer than the rack's {wanted}: "
            "is the controller's folder an old copy?",
        )
    return Result("OK", f"revocations {wanted}")


@check(name="neighbours", scope="phone", cure="bring them with site.yml -t ssh,openmpi")
def neighbours(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone's lists of the others are those of the rack file."""
    if unknown := _unknown(facts):
        return unknown
    known, wanted = facts.neighbours, {name: rack.phones[name].address for name in rack.enrolled}
    if known is None:
        return Result("UNKNOWN", "its list of the other phones cannot be read")
    missing = [name for name, address in wanted.items() if known.get(name) != address]
    if needed := [name for name in missing if name in facts.together]:
        return Result("CRITICAL", f"it does not know {fold(needed)}, or not by this address")
    if missing:
        return Result("WARN", f"it does not know {fold(missing)}, or not by this address")
    if gone := [name for name in known if name not in wanted]:
        return Result("WARN", f"it still knows {fold(gone)}")
    if list(facts.host_file or ()) != [wanted[name] for name in rack.ring()]:
        return Result("WARN", "its host file is not in the order of the rack file")
    return Result("OK", f"knows {len(known)} phones")


@check(name="strays", scope="phone", cure="end them with `fleetctl stop RUN`")
def strays(facts: PhoneFacts, _: Rack) -> Result:
    """No process of a run that does not hold the phone is left on it."""
    if unknown := _unknown(facts):
        return unknown
    if facts.strays:
        said = ", ".join(f"{len(pids)} of run {run}" for run, pids in facts.strays.items())
        return Result("CRITICAL", f"processes are left over: {said}")
    return Result("OK", "no stray processes")


@check(name="link", scope="phone", cure="see PhoneLinkFlaps and PhoneLinkSlow in docs/runbooks.md")
def link(facts: PhoneFacts, _: Rack) -> Result:
    """Its link to the switch stays up, at full speed, and carries no damaged frames."""
    if facts.link is None:
        return Result("OK", "no switch is watched that could tell of its link")
    if facts.link.flaps >= MANY_FLAPS:
        return Result("CRITICAL", facts.link.trouble)
    if facts.link.trouble:
        return Result("WARN", facts.link.trouble)
    return Result("OK", "its link is up and clean")


def _at_least(what: str, have_bytes: int | None, want_bytes: int) -> Result:
    if have_bytes is None:
        return Result("UNKNOWN", f"{what} cannot be read")
    mebi = 1 << 20
    if have_bytes < want_bytes:
        return Result(
            "CRITICAL", f"{what} is {have_bytes // mebi} MiB, needs {want_bytes // mebi} MiB"
        )
    return Result("OK", f"{what} {have_bytes // mebi} MiB")
