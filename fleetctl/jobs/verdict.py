"""How a run ended, from what its phones left behind. Pure.

mpirun's exit status alone proves nothing: 5.0 returns 0 after a lost daemon. A run is done when
every rank's own final record says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trainer.formats import Final

BLOCKED_CALL_CODE = 159
"""128 + SIGSYS: what a shell makes of Android's seccomp filter."""

_SSH_FAILURE = re.compile(r"ssh: connect to host (\S+) port \d+: (.+)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about a run that has ended. Ranks index `phones`."""

    phones: Sequence[str]
    addresses: Mapping[str, str]
    finals: Mapping[int, Final]
    unreachable: Mapping[str, str]
    """Phone -> why it cannot be asked."""
    blamed: Mapping[str, str]
    """Phone that answers -> what the supervision saw of it while the run went on."""
    unswept: Mapping[str, str]
    """Phone -> which processes of the run would not end on it."""
    mpirun_code: int | None
    log: str
    stopped: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    state: Literal["done", "failed", "stopped"]
    reason: str | None
    culprits: Mapping[str, str]
    """Phones that ended the run, with the reason: they become suspect."""
    test_accuracy: float | None
    left: Mapping[str, str] = field(default_factory=dict)
    """Phones on which processes of the run may be left, with the reason."""


def judge(evidence: Evidence) -> Verdict:
    """Done, failed or stopped, and whose doing it was."""
    finals = evidence.finals
    left = {**evidence.unreachable, **evidence.unswept}
    done = [rank for rank, final in finals.items() if final.status == "done"]
    if len(done) == len(evidence.phones):
        return Verdict("done", None, {}, finals[0].test_accuracy, left)
    if evidence.stopped:
        told = ["stopped by the operator", *left.values()]
        return Verdict("stopped", "; ".join(told), {}, None, left)
    culprits = {**evidence.unreachable, **evidence.blamed} or _refusing_ssh(evidence)
    told = [*culprits.values()] or [_reason(evidence)]
    told += [why for phone, why in evidence.unswept.items() if phone not in culprits]
    return Verdict("failed", "; ".join(told), culprits, None, left)


def _refusing_ssh(evidence: Evidence) -> dict[str, str]:
    """Phones that the head phone could not reach: of all that mpirun says then, dozens of innocent
    names, only ssh's own line is true."""
    names = {address: phone for phone, address in evidence.addresses.items()}
    head = evidence.phones[0]
    return {
        names[host]: f"{names[host]} cannot be reached by ssh from {head} ({why.strip()}); "
        "check cable and switch between them, then site.yml -t ssh"
        for host, why in _SSH_FAILURE.findall(evidence.log)
        if host in names
    }


def _reason(evidence: Evidence) -> str:
    """Why, when every phone answers: what the log or the ranks say, most telling first."""
    if evidence.mpirun_code == BLOCKED_CALL_CODE or "Bad system call" in evidence.log:
        return (
            "Android blocked a system call that the program makes (signal 31, exit code 159); "
            "the program is there, but this phone's Android does not allow what it does"
        )
    failed = {r: f for r, f in sorted(evidence.finals.items()) if f.status == "failed"}
    # A rank that lost its neighbour fails too; the one with a cause of its own comes first.
    for rank, final in failed.items():
        if final.reason and not _secondary(final.reason):
            return f"{evidence.phones[rank]} (rank {rank}): {final.reason}"
    silent = [phone for rank, phone in enumerate(evidence.phones) if rank not in evidence.finals]
    if silent:
        code = evidence.mpirun_code
        ending = "mpirun vanished" if code is None else f"mpirun ended with {code}"
        hint = _last_line(evidence.log)
        return f"no final record from {', '.join(silent)}; {ending}" + (f": {hint}" if hint else "")
    rank, final = next(iter(failed.items()))
    return f"{evidence.phones[rank]} (rank {rank}): {final.reason or 'failed without a reason'}"


def _secondary(reason: str) -> bool:
    return bool(re.search(r"SIGTERM|signal 15|terminated|MPI_ERR|peer|exit code 143", reason))


def _last_line(log: str) -> str:
    """The last line of the log that says something: mpirun frames its words with dashes."""
    lines = [line.strip() for line in log.splitlines()]
    telling = [line for line in lines if line and not set(line) <= {"-", "=", "*"}]
    return telling[-1][:200] if telling else ""
