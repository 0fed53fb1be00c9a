"""What the ranks of a run say: events, where each is, and its last word."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from trainer.strictjson import Document, FormatError, decode, dumps


@dataclass(frozen=True, slots=True)
class StartEvent:
    """The first line of progress.jsonl of a run or of its resumption."""

    time: float
    iteration: int = 0
    """Iterations already done (of the checkpoint, on a resumed run)."""
    iterations: int = 0
    """Iterations that the whole run has."""
    note: str | None = None
    """What a person should know, such as a checkpoint that was skipped."""
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True)
class IterationEvent:
    """One iteration as rank 0 saw it. `exchange_seconds` is the time that the communication
    thread worked; `wait_seconds` the part of it that compute did not hide."""

    time: float
    iteration: int
    epoch: int
    loss: float | None
    """None where the program keeps it to itself."""
    images: int
    images_per_second: float
    compute_seconds: float
    exchange_seconds: float
    wait_seconds: float
    kind: Literal["iteration"] = "iteration"


@dataclass(frozen=True, slots=True)
class EvaluatingEvent:
    """An evaluation begins, of so many samples, dealt to the phones as a batch is."""

    time: float
    iteration: int
    samples: int
    kind: Literal["evaluating"] = "evaluating"


@dataclass(frozen=True, slots=True)
class EvaluationEvent:
    time: float
    iteration: int
    epoch: int
    test_loss: float | None
    """None where it is not finite."""
    test_accuracy: float
    kind: Literal["evaluation"] = "evaluation"


@dataclass(frozen=True, slots=True)
class CheckpointEvent:
    time: float
    iteration: int
    path: str
    kind: Literal["checkpoint"] = "checkpoint"


@dataclass(frozen=True, slots=True)
class SharesEvent:
    """From the next iteration on each rank has so many samples; `why`: phone -> the reason."""

    time: float
    iteration: int
    samples_per_rank: tuple[int, ...]
    why: dict[str, str]
    kind: Literal["shares"] = "shares"


@dataclass(frozen=True, slots=True)
class EndEvent:
    time: float
    iteration: int
    status: Literal["done", "failed", "stopped"]
    reason: str | None = None
    test_accuracy: float | None = None
    kind: Literal["end"] = "end"


Event = (
    StartEvent
    | IterationEvent
    | EvaluatingEvent
    | EvaluationEvent
    | CheckpointEvent
    | SharesEvent
    | EndEvent
)
_EVENTS: dict[str, type[Event]] = {
    "start": StartEvent,
    "iteration": IterationEvent,
    "evaluating": EvaluatingEvent,
    "evaluation": EvaluationEvent,
    "checkpoint": CheckpointEvent,
    "shares": SharesEvent,
    "end": EndEvent,
}


def event_from_json(line: str, source: str = "progress.jsonl") -> Event:
    """One line of progress.jsonl (rank 0 appends them)."""
    try:
        data = json.loads(line)
    except json.JSONDecodeError as error:
        raise FormatError(f"{source}: not JSON: {error}") from None
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind not in _EVENTS:
        raise FormatError(f"{source}: kind {kind!r} is not one of {', '.join(_EVENTS)}")
    event: Event = decode(_EVENTS[kind], data, source)
    return event


def event_to_json(event: Event) -> str:
    return dumps(event)


@dataclass(frozen=True, slots=True)
class Progress(Document):
    """rank-<r>.progress.json: where one rank is; rewritten as it goes."""

    run: str
    rank: int
    phone: str
    time: float
    iteration: int
    iterations: int
    epoch: int
    loss: float | None
    """Mean loss of this rank's own samples in the last iteration; null before one."""
    accuracy: float | None
    """Test accuracy of the last evaluation; null before one."""
    compute_seconds: float
    """Compute, exchange and wait of the last iteration."""
    exchange_seconds: float
    wait_seconds: float
    images: int
    """Images that this rank has trained on since the start of this process."""
    samples: int | None = None
    """This rank's in the last iteration; null where its program does not say."""
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Final(Document):
    """rank-<r>.final.json: the word of one rank on how the run ended, written last. A run
    succeeded when every rank says `done`; mpirun's exit status does not tell. `stopped`: it ended
    early with a checkpoint, as it was asked to."""

    run: str
    rank: int
    phone: str
    status: Literal["done", "failed", "stopped"]
    reason: str | None
    iteration: int
    test_accuracy: float | None
    parameters_sha256: str | None
    version: Literal[1] = 1


def progress_name(rank: int) -> str:
    return f"rank-{rank}.progress.json"


def ready_name(rank: int) -> str:
    """An empty file: the rank has what it trains with, and goes to meet the others."""
    return f"rank-{rank}.ready"


def final_name(rank: int) -> str:
    return f"rank-{rank}.final.json"
