"""How a run ended, from what its phones left behind. Pure.

mpirun's exit status alone proves nothing: 5.0 returns 0 after a lost daemon. A run is done when
every rank's own final record says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from fleetctl.rack.nodesets import fold
from fleetctl.remote.execute import not_run
from trainer.formats import Final

BLOCKED_CALL_CODE = 159
"""128 + SIGSYS: what a shell makes of Android's seccomp filter."""

type Cause = Literal["phones", "program", "interrupted", "unknown"]
"""What made a run fail. Other phones, or the same ones once more, help against `phones` and perhaps
against `unknown`; nothing but a person helps against `program`. `interrupted`: it had not begun."""

_SSH_FAILURES = [
    re.compile(pattern)
    for pattern in (
        r"ssh: connect to host (?P<host>\S+) port \d+: (?P<why>.+)",
        r"\S+@(?P<host>\S+): (?P<why>Permission denied.*)",
        r"(?P<why>Connection (?:closed|reset)) by (?P<host>\S+) port \d+",
        r"Connection to (?P<host>\S+) port \d+ (?P<why>timed out)",
        r"(?P<why>No \S+ host key is known) for \[?(?P<host>[^\]\s]+)",
        r"Host key for \[?(?P<host>[^\]\s]+)\S* (?P<why>has changed)",
    )
]
"""What ssh says of a host that it could not log in to. What it says of one that it had reached, in
other words, is a consequence of whatever ended the run."""


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
    """Phone -> which processes of the run would not end on it, or why it lets nobody in who could
    tell."""
    mpirun_code: int | None
    log: str
    stopped: bool
    came_back: Set[str] = frozenset()
    """Phones whose connection broke while the run went on, and was made anew."""
    full: Set[str] = frozenset()
    """Phones without any free storage."""
    command: str = ""
    """What its ranks run, if that is not the trainer."""
    one_model: bool = False
    """Whether all ranks should have ended with the same parameters."""
    stop_reason: str = "stopped by the operator"
    """Why it was stopped, if it was."""


@dataclass(frozen=True, slots=True)
class Verdict:
    state: Literal["done", "failed", "stopped"]
    reason: str | None
    culprits: Mapping[str, str]
    """Phones that ended the run, with the reason: they become suspect."""
    test_accuracy: float | None
    left: Mapping[str, str] = field(default_factory=dict)
    """Phones on which processes of the run may be left, with the reason."""
    cause: Cause = "unknown"
    mpirun_code: int | None = None

    def as_json(self) -> dict[str, Any]:
        """For the run's events; `Verdict(**…)` takes it back."""
        return asdict(self)


def judge(evidence: Evidence) -> Verdict:
    """Done, failed or stopped, and whose doing it was."""
    finals, code = evidence.finals, evidence.mpirun_code
    left = {**evidence.unreachable, **evidence.unswept}
    done = [rank for rank, final in finals.items() if final.status == "done"]
    if len(done) == len(evidence.phones):
        warning = _differing(evidence) if evidence.one_model else None
        return Verdict("done", warning, {}, finals[0].test_accuracy, left, mpirun_code=code)
    ended_early = [rank for rank, final in finals.items() if final.status == "stopped"]
    if evidence.stopped or len(ended_early) == len(evidence.phones):
        told = [evidence.stop_reason, *left.values()]
        return Verdict("stopped", "; ".join(told), {}, None, left, mpirun_code=code)
    culprits = {**evidence.unreachable, **evidence.blamed} or _refusing_ssh(evidence)
    culprits = culprits or _own_doing(evidence)
    reason, cause = _reason(evidence)
    told = [*culprits.values()] or [reason]
    told += [why for phone, why in evidence.unswept.items() if phone not in culprits]
    cause = "phones" if culprits else cause
    return Verdict("failed", "; ".join(told), culprits, None, left, cause, code)


def _differing(evidence: Evidence) -> str | None:
    """Which phones ended with other parameters than most, though the exchange keeps them equal."""
    phones: dict[str, list[str]] = defaultdict(list)
    for rank, final in sorted(evidence.finals.items()):
        if final.parameters_sha256 is not None:
            phones[final.parameters_sha256].append(evidence.phones[rank])
    most, *others = sorted(phones.values(), key=len, reverse=True) or [[]]
    if not others:
        return None
    odd = fold(phone for group in others for phone in group)
    return (
        f"warning: {odd} ended with other parameters than {fold(most)}: their checkpoints differ, "
        "and the accuracy is of all of them; unless the model keeps values of its own outside "
        "BatchNorm, a phone has computed wrongly (`fleetctl check --level 3`)"
    )


def _refusing_ssh(evidence: Evidence) -> dict[str, str]:
    """Phones that the head phone could not reach: of all that mpirun says then, dozens of innocent
    names, only ssh's own line is true."""
    names = {address: phone for phone, address in evidence.addresses.items()}
    head = evidence.phones[0]
    return {
        names[said["host"]]: f"{names[said['host']]} cannot be reached by ssh from {head} "
        f"({said['why'].strip()}); check cable and switch between them, then site.yml -t ssh"
        for pattern in _SSH_FAILURES
        for said in pattern.finditer(evidence.log)
        if said["host"] in names
    }


def _own_doing(evidence: Evidence) -> dict[str, str]:
    """Phones that answer, though the run ended on them by what happened there alone."""
    names = {address: phone for phone, address in evidence.addresses.items()}
    found = {
        phone: f"{phone} has no free storage left; remove old runs (`fleetctl jobs --prune`) "
        "and data sets on it"
        for phone in evidence.phones
        if phone in evidence.full
    }
    for rank, phone in enumerate(evidence.phones):
        if phone in evidence.came_back and rank not in evidence.finals:
            found.setdefault(
                phone, f"{phone} was away for a moment and came back without its rank: restarted?"
            )
    for host, number in _SIGNALLED.findall(evidence.log):
        if host in names and int(number) in _KILLING_SIGNALS:
            phone, meaning = names[host], _KILLING_SIGNALS[int(number)]
            found.setdefault(phone, f"{phone}: its rank was ended by signal {number} ({meaning})")
    for phone, why in _without_a_word(evidence).items():
        found.setdefault(phone, why)
    for rank, final in evidence.finals.items():
        phone = evidence.phones[rank]
        if final.status == "failed" and _PHONES_OWN.search(final.reason or ""):
            found.setdefault(phone, f"{phone} (rank {rank}): {final.reason}")
    return found


def _without_a_word(evidence: Evidence) -> dict[str, str]:
    """The phone whose rank ended first, before it could say anything, where others could: what
    all ranks do alike works there."""
    found = {}
    for rank, code in ((int(rank), int(code)) for rank, code in _EXITED.findall(evidence.log)):
        others = 2 * len(evidence.finals) >= len(evidence.phones) - 1 > 0
        if rank < len(evidence.phones) and rank not in evidence.finals and others:
            if code == BLOCKED_CALL_CODE:
                continue
            phone = evidence.phones[rank]
            said = re.findall(rf"^\[[^\]\s]*\b1,{rank}\]<stderr>: *(\S.*)$", evidence.log, re.M)
            last = f": {said[-1].strip()[:200]}" if said else ""
            found[phone] = f"{phone}: its rank could not start (exit code {code}){last}"
    return found


_EXITED = re.compile(r"Process name:\s*\[\S+,(\d+)\]\s+Exit code:\s*(\d+)")
"""What mpirun of both series says of the rank that ended first, not by a signal."""

_SIGNALLED = re.compile(r"process rank \d+ with PID \d+ on node (\S+) exited on\s+signal (\d+)")
"""What mpirun of both series says of the rank that ended first."""

_KILLING_SIGNALS = {
    4: "its processor lacks an instruction that a package uses",
    7: "its storage or memory could not be read",
    9: "killed by Android, or by hand: too little memory, or too many processes",
}

_PHONES_OWN = re.compile(
    r"No space left on device|Input/output error|Read-only file system|Cannot allocate memory|"
    r"can't allocate memory|MemoryError|Disk quota exceeded"
)
"""Reasons that are of one phone, whatever the program."""


def _reason(evidence: Evidence) -> tuple[str, Cause]:
    """Why, when every phone answers: what the log or the ranks say, most telling first."""
    if evidence.mpirun_code == BLOCKED_CALL_CODE or "Bad system call" in evidence.log:
        return (
            "Android blocked a system call that the program makes (signal 31, exit code 159); "
            "the program is there, but this phone's Android does not allow what it does"
        ), "program"
    failed = {r: f for r, f in sorted(evidence.finals.items()) if f.status == "failed"}
    # A rank that lost its neighbour fails too; the one with a cause of its own comes first.
    if told := _not_run(evidence, failed):
        return told, "program"
    for rank, final in failed.items():
        if final.reason and not _secondary(final.reason):
            return f"{evidence.phones[rank]} (rank {rank}): {final.reason}", "program"
    if told := _out_of_reach(evidence):
        return told, "unknown"
    silent = [phone for rank, phone in enumerate(evidence.phones) if rank not in evidence.finals]
    if silent:
        code = evidence.mpirun_code
        ending = "mpirun vanished" if code is None else f"mpirun ended with {code}"
        hint = _last_line(evidence.log)
        told = f"no final record from {fold(silent)}; {ending}"
        return told + (f": {hint}" if hint else ""), "unknown"
    rank, final = next(iter(failed.items()))
    told = f"{evidence.phones[rank]} (rank {rank}): {final.reason or 'failed without a reason'}"
    return told, "unknown"


def _out_of_reach(evidence: Evidence) -> str | None:
    """Ranks that could not connect to another: which of the two is to blame, nobody knows."""
    names = {address: phone for phone, address in evidence.addresses.items()}
    pairs = {
        (evidence.phones[int(rank)], names[peer]): why
        for rank, peer, why in _NOT_CONNECTED.findall(evidence.log)
        if int(rank) < len(evidence.phones) and peer in names
    }
    told = [
        f"{phone} cannot reach {peer} ({why}); check cable and switch between them"
        for (phone, peer), why in pairs.items()
    ]
    return "; ".join(told) or None


_NOT_CONNECTED = re.compile(
    r"\[\d+,(\d+)\]<stderr>: .*connect\(\) to (\S+):\d+ failed\n.*Error: +(.+?) \(\d+\)"
)
"""What Open MPI's TCP says of a peer, behind the rank that says it."""


def _not_run(evidence: Evidence, failed: Mapping[int, Final]) -> str | None:
    """What to do where phones could not run the command at all."""
    phones: dict[int, list[str]] = {}
    for rank, final in failed.items():
        if evidence.command and (code := _EXIT_CODE.fullmatch(final.reason or "")):
            phones.setdefault(int(code[1]), []).append(evidence.phones[rank])
    sentences = [
        f"{fold(names)}: {sentence}"
        for code, names in sorted(phones.items(), reverse=True)
        if (sentence := not_run(code, evidence.command))
    ]
    return "; ".join(sentences) or None


_EXIT_CODE = re.compile(r"exit code (\d+)")
"""All that the script of a rank knows of a program that is not the trainer."""


def _secondary(reason: str) -> bool:
    return bool(re.search(r"SIGTERM|signal 15|terminated|MPI_ERR|peer|exit code 143", reason))


def _last_line(log: str) -> str:
    """The last line of the log that says something: mpirun frames its words with dashes."""
    lines = [_RANK_MARK.sub("", line).strip() for line in log.splitlines()]
    telling = [line for line in lines if line and not set(line) <= {"-", "=", "*"}]
    return telling[-1][:200] if telling else ""


_RANK_MARK = re.compile(r"^\[\d+,\d+\]<std(out|err)>:")
