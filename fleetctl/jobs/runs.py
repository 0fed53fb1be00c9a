"""A run's folder on the controller: what was asked, what happened, what came out.

`events.jsonl` is the truth about a run's life; everything that `jobs` shows follows from it. The
folder holds all of the run, so a copy of it is a copy of the run.

A run is a chain of attempts. What the first one leaves lies in the folder itself, what a later one
leaves in `attempts/2`, …; the checkpoints of all lie together.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs.lines import Lines, append_line, read_lines
from fleetctl.rack import InputError
from trainer.formats import MemoryNeed, Plan

type RunState = Literal["preparing", "running", "recovering", "done", "failed", "stopped"]
"""`recovering`: between two attempts."""


PLAN_FILE, PROGRESS_FILE, PHONES_FILE = "plan.json", "progress.jsonl", "phones.jsonl"
LOG_FILE = "mpirun.log"
"""Of an attempt, in its folder."""


class Supervised(FleetError):
    """Another process of fleetctl supervises the run."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of `fleetctl jobs`. Times are Unix seconds; `phones` are in rank order."""

    name: str
    state: RunState
    phones: tuple[str, ...]
    started: float | None = None
    ended: float | None = None
    test_accuracy: float | None = None
    reason: str | None = None
    supervised: bool = False
    """Whether a process follows it now; a run without one goes on, but nobody recovers it."""
    resumed_from: str | None = None
    left: Mapping[str, str] = field(default_factory=dict)
    """Phones on which processes of it may be left, with the reason."""
    attempts: int = 1
    spares: tuple[str, ...] = ()
    """Phones that are held beside those that train."""
    heated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Phones with fewer samples than the plan gives them, since they are hot: how many, of how
    many. 0: it pauses."""

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed", "stopped")

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class RunFolder:
    """`runs/NAME/` of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        self.events_file = path / "events.jsonl"
        self.job_file = path / "job.yml"
        self.memory_file = path / "memory.json"
        self.checkpoints = path / "checkpoints"
        self._lock_file = path / "supervisor.lock"

    @property
    def attempt(self) -> int:
        """Number of the newest attempt, from 1."""
        numbers = [event["number"] for event in self.events() if event["kind"] == "attempt"]
        return max(numbers, default=1)

    @property
    def attempt_name(self) -> str:
        """What the newest attempt is called on phones: its folder there, and its plan."""
        return name_of_attempt(self.name, self.attempt)

    @property
    def attempt_folder(self) -> Path:
        """Where the newest attempt keeps its plan, progress, log and final records."""
        return self.folder_of(self.attempt)

    def folder_of(self, number: int) -> Path:
        """Where that attempt has kept them."""
        return self.path if number == 1 else self.path / "attempts" / str(number)

    @property
    def plan_file(self) -> Path:
        return self.attempt_folder / PLAN_FILE

    @property
    def progress_file(self) -> Path:
        return self.attempt_folder / PROGRESS_FILE

    @property
    def phones_file(self) -> Path:
        return self.attempt_folder / PHONES_FILE

    @property
    def log_file(self) -> Path:
        return self.attempt_folder / LOG_FILE

    @property
    def versions_file(self) -> Path:
        return self.attempt_folder / "versions.json"

    @property
    def finals(self) -> Path:
        return self.attempt_folder / "final"

    def record(self, kind: str, **facts: Any) -> None:
        """Append one event. Raises OSError."""
        line = json.dumps({"time": time.time(), "kind": kind, **facts})
        append_line(self.events_file, line, sync=True)

    def events(self) -> list[dict[str, Any]]:
        """All events so far; what a crash or a bad disk has damaged is left out."""
        return self.whole_events().records

    def whole_events(self) -> Lines:
        """All events so far, and how many lines are damaged."""
        lines = read_lines(self.events_file)
        whole = [event for event in lines.records if _is_event(event)]
        return Lines(whole, lines.damaged + len(lines.records) - len(whole))

    def plan(self) -> Plan | None:
        """The plan; None for a command that the trainer does not run."""
        return Plan.read(self.plan_file) if self.plan_file.exists() else None

    def memory(self) -> MemoryNeed | None:
        """What a rank was found to need before the first attempt; None where nobody has looked."""
        return MemoryNeed.read(self.memory_file) if self.memory_file.exists() else None

    def summary(self) -> Summary:
        """State and outcome, out of the events."""
        state: RunState = "preparing"
        facts: dict[str, Any] = {}
        for event in self.events():
            match event["kind"]:
                case "created":
                    facts["phones"] = tuple(event["phones"])
                    facts["spares"] = tuple(event.get("spares", ()))
                    facts["resumed_from"] = event.get("resumed_from")
                    facts["started"] = event["time"]
                case "started":
                    state = "running"
                case "attempt-ended":
                    state = "recovering"
                    facts["reason"] = event["reason"]
                case "attempt":
                    facts["phones"] = tuple(event["phones"])
                    facts["spares"] = tuple(event.get("spares", ()))
                    facts["attempts"] = event["number"]
                    facts["reason"] = None
                    facts.pop("heated", None)
                case "shares":
                    facts["heated"] = {p: tuple(n) for p, n in event["heated"].items()}
                case "ended":
                    state = event["state"]
                    facts.pop("heated", None)
                    facts["ended"] = event["time"]
                    facts["reason"] = event.get("reason")
                    facts["test_accuracy"] = event.get("test_accuracy")
                    facts["left"] = event.get("left", {})
        facts.setdefault("phones", ())
        summary = Summary(self.name, state, **facts)
        if summary.over:
            return summary
        return Summary(self.name, state, **facts, supervised=self.supervised)

    @property
    def stop_requested(self) -> bool:
        """Whether a person asked for its end."""
        return any(event["kind"] == "stop-requested" for event in self.events())

    @property
    def stop_reason(self) -> str:
        """Why it was, or would be, stopped."""
        asked = [
            event.get("reason") for event in self.events() if event["kind"] == "stop-requested"
        ]
        return next((reason for reason in asked if reason), "stopped by the operator")

    def attempt_events(self) -> list[dict[str, Any]]:
        """The events of the newest attempt."""
        found: list[dict[str, Any]] = []
        for event in self.events():
            if event["kind"] == "attempt":
                found = []
            found.append(event)
        return found

    def phones_of_all_attempts(self) -> list[str]:
        """Every phone that the run has trained on, each once."""
        began = [event for event in self.events() if event["kind"] in ("created", "attempt")]
        return list(dict.fromkeys(phone for event in began for phone in event["phones"]))

    @contextmanager
    def supervise(self) -> Iterator[None]:
        """Be the one process that follows the run. Raises Supervised when another one is.

        The lock ends with the process, however that ends, so a lost supervisor is seen at once.
        """
        with self._lock_file.open("a+") as file:
            try:
                _lock(file, fcntl.F_OFD_SETLK)
            except BlockingIOError:
                pid = self.supervisor()
                raise Supervised(
                    f"run {self.name} is supervised by {f'process {pid}' if pid else 'another'}; "
                    "follow it with `fleetctl logs -f`"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            try:
                yield
            finally:
                # So that the next supervisor is never taken for this process.
                file.truncate(0)

    @property
    def supervised(self) -> bool:
        """Whether a process supervises the run. Asking takes no lock, so it is in nobody's way."""
        if not self._lock_file.exists():
            return False
        with self._lock_file.open("r+") as file:
            return _lock(file, fcntl.F_OFD_GETLK) != fcntl.F_UNLCK

    def supervisor(self) -> int | None:
        """The process that supervises the run; None if there is none, or it is not known yet."""
        text = self._lock_file.read_text().strip() if self.supervised else ""
        return int(text) if text.isdigit() and int(text) > 0 else None


def again(run: RunFolder, summary: Summary) -> dict[str, str]:
    """The commands that run it again, and that go on with it."""
    commands = {}
    if run.job_file.exists():
        commands["again"] = shlex.join(["fleetctl", "launch", str(run.job_file)])
    if summary.over and summary.state != "done" and run.plan_file.exists():
        commands["go on"] = f"fleetctl launch --resume {run.name}"
    return commands


def name_of_attempt(run: str, number: int) -> str:
    """`digits-1` for the first, `digits-1.2` for the second: no run is called so, since the name of
    one ends in a hyphen and a number."""
    return run if number == 1 else f"{run}.{number}"


_NEEDED: Mapping[str, tuple[tuple[str, type], ...]] = {
    "created": (("phones", list),),
    "attempt": (("phones", list), ("number", int)),
    "attempt-ended": (
        *(("state", str), ("culprits", dict), ("left", dict), ("cause", str)),
        *(("reason", object), ("test_accuracy", object), ("mpirun_code", object)),
    ),
    "ended": (("state", str),),
    "cleared": (("phone", str),),
    "energy": (("watt_hours", dict),),
}
"""What the house reads of events without asking whether it is there."""


def _is_event(record: Mapping[str, Any]) -> bool:
    if type(record.get("kind")) is not str or type(record.get("time")) not in (int, float):
        return False
    needed = _NEEDED.get(record["kind"], ())
    return all(name in record and isinstance(record[name], kind) for name, kind in needed)


_FLOCK = "hhqqi"
"""struct flock: type, whence, start, length (0: all of the file), process."""


def _lock(file: IO[str], command: int) -> int:
    """Take the write lock of an open file (F_OFD_SETLK) or ask for it (F_OFD_GETLK).

    Returns the kind of lock that is in the way. Such a lock belongs to the open file: it ends when
    that is closed, and another look at the same file by the same process leaves it alone. Raises
    BlockingIOError when it is taken.
    """
    wish = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind: int = struct.unpack(_FLOCK, fcntl.fcntl(file, command, wish))[0]
    return kind


def create(runs: Path, base: str) -> RunFolder:
    """The next run of that name: `digits-1`, `digits-2`, …; two callers never get the same."""
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    pattern = re.compile(re.escape(base) + r"-(\d+)")
    taken = [int(m[1]) for each in runs.iterdir() if (m := pattern.fullmatch(each.name))]
    number = max(taken, default=0) + 1
    while True:
        path = runs / f"{base}-{number}"
        try:
            path.mkdir()
            return RunFolder(path)
        except FileExistsError:
            number += 1


def all_runs(runs: Path) -> list[RunFolder]:
    """All runs, newest first."""
    found = [RunFolder(path) for path in runs.iterdir()] if runs.exists() else []
    began = {run: events[0]["time"] for run in found if (events := run.events())}
    return sorted(began, key=began.__getitem__, reverse=True)


def find(runs: Path, name: str | None) -> RunFolder:
    """The run of that name, the newest one by default. Raises InputError."""
    known = all_runs(runs)
    if not known:
        raise InputError("there is no run yet; start one with `fleetctl launch`")
    if name is None:
        return known[0]
    for run in known:
        if run.name == name:
            return run
    newest = ", ".join(run.name for run in known[:5])
    raise InputError(f"there is no run {name!r}; the newest are {newest}")
