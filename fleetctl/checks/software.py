"""Checks of what runs on a phone: Python, Open MPI, release, processes, room. Pure."""

from __future__ import annotations

from fleetctl.checks.answer import NOT_ASKED, PhoneFacts, unknown
from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack

CHILDREN_LIMIT = 32
"""From Android 12 on, over all apps, unless enrolment's setting holds."""

CHILDREN_OF_A_JOB = 8
"""Open MPI's daemon, a rank with its helpers, what watches them."""

MIN_TEMPORARY_BYTES = 64 << 20
"""Open MPI's session folder; with 4 MB it crashes."""


@check(
    name="interpreter",
    scope="phone",
    cure="install the rack's packages again with site.yml -t termux",
)
def interpreter(facts: PhoneFacts, rack: Rack) -> Result:
    """Python runs and imports what trainer and tools need; torch too, if the rack has it."""
    if not facts.reached:
        return NOT_ASKED
    if facts.problem:
        return Result("CRITICAL", facts.problem)
    torch = rack.versions.torch != "none"
    missing = {name: why for name, why in facts.missing_modules.items() if torch or name != "torch"}
    if missing:
        said = ", ".join(f"{name} ({why})" for name, why in missing.items())
        return Result("CRITICAL", f"Python cannot import {said}")
    return Result("OK", f"Python {facts.python}" + (", torch imports" if torch else ""))


@check(
    name="free-disk",
    scope="phone",
    cure="remove old runs (`fleetctl jobs --prune`) and data sets on the phone",
    limits=("min_free_disk_bytes",),
)
def free_disk(facts: PhoneFacts, rack: Rack) -> Result:
    """Enough room for data, checkpoints and logs."""
    return unknown(facts) or at_least(
        "free disk", facts.free_disk_bytes, rack.thresholds.min_free_disk_bytes
    )


@check(name="free-temporary", scope="phone", cure="empty $TMPDIR on the phone")
def free_temporary(facts: PhoneFacts, _: Rack) -> Result:
    """Enough room in TMPDIR for Open MPI's session folder."""
    return unknown(facts) or at_least(
        "free space in TMPDIR", facts.free_temporary_bytes, MIN_TEMPORARY_BYTES
    )


@check(
    name="free-memory",
    scope="phone",
    cure="close other apps, or restart the phone",
    limits=("min_free_memory_bytes",),
)
def free_memory(facts: PhoneFacts, rack: Rack) -> Result:
    """Enough memory for torch and a model."""
    return unknown(facts) or at_least(
        "free memory", facts.free_memory_bytes, rack.thresholds.min_free_memory_bytes
    )


@check(
    name="load",
    scope="phone",
    cure="see what it is busy with: `fleetctl exec NODES -- top -bn1`",
    limits=("max_load_per_core",),
)
def load(facts: PhoneFacts, rack: Rack) -> Result:
    """Nothing else keeps its cores busy."""
    if silent := unknown(facts):
        return silent
    if facts.load is None or not facts.cores:
        return Result("OK", "it tells no app its load")
    per_core, limit = facts.load / facts.cores, rack.thresholds.max_load_per_core
    if per_core > limit:
        return Result("WARN", f"is busy: a load of {per_core:.0f} a core, more than {limit:g}")
    return Result("OK", f"load {per_core:.1f} a core")


@check(name="release", scope="phone", cure="install one release with site.yml -t release")
def release(facts: PhoneFacts, _: Rack) -> Result:
    """All phones have the same release of the trainer."""
    if silent := unknown(facts):
        return silent
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
    if silent := unknown(facts):
        return silent
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


@check(
    name="children",
    scope="phone",
    cure="end what does not belong there; by USB, site.yml -t bootstrap lifts the limit",
)
def children(facts: PhoneFacts, rack: Rack) -> Result:
    """A job's processes find room below Android's limit, in case it was not lifted."""
    if silent := unknown(facts):
        return silent
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


@check(name="strays", scope="phone", cure="end them with `fleetctl stop RUN`")
def strays(facts: PhoneFacts, _: Rack) -> Result:
    """No process of a run that does not hold the phone is left on it."""
    if silent := unknown(facts):
        return silent
    if facts.strays:
        said = ", ".join(f"{len(pids)} of run {run}" for run, pids in facts.strays.items())
        return Result("CRITICAL", f"processes are left over: {said}")
    return Result("OK", "no stray processes")


def at_least(what: str, have_bytes: int | None, want_bytes: int) -> Result:
    if have_bytes is None:
        return Result("UNKNOWN", f"{what} cannot be read")
    mebi = 1 << 20
    if have_bytes < want_bytes:
        return Result(
            "CRITICAL", f"{what} is {have_bytes // mebi} MiB, needs {want_bytes // mebi} MiB"
        )
    return Result("OK", f"{what} {have_bytes // mebi} MiB")
