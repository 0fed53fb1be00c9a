"""Names of runs: a base and a number, `digits-1`; a person may choose the number."""

from __future__ import annotations

import re
from pathlib import Path

from fleetctl.jobs.jobfile import JobError
from fleetctl.jobs.runs import RunFolder

_NUMBERED = re.compile(r"(.+)-(\d+)")


def is_whole(name: str) -> bool:
    """Whether it is a run's whole name; else it is the base, and the next number is added."""
    return _NUMBERED.fullmatch(name) is not None


def next_free(runs: Path, name: str) -> str:
    """The whole name with the number after the highest that was ever used with its base."""
    found = _NUMBERED.fullmatch(name)
    base = found[1] if found else name
    pattern = re.compile(re.escape(base) + r"-(\d+)")
    there = runs.iterdir() if runs.exists() else ()
    taken = [int(m[1]) for each in there if (m := pattern.fullmatch(each.name))]
    return f"{base}-{max(taken, default=0) + 1}"


def refuse_taken(runs: Path, name: str) -> None:
    """Raise JobError when there is a run of this name."""
    if (runs / name).exists():
        raise JobError(
            f"there is a run {name} already; the next free name is {next_free(runs, name)}"
        )


def claim(runs: Path, name: str) -> RunFolder:
    """The folder of a run that shall bear this name. Raises JobError when there is one."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        (runs / name).mkdir()
    except FileExistsError:
        refuse_taken(runs, name)
    return RunFolder(runs / name)
