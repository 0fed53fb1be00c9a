"""How far a run is, from its progress lines. Pure: the live line and the deadline live on it."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

from trainer.formats import (
    CheckpointEvent,
    EndEvent,
    EvaluationEvent,
    Event,
    IterationEvent,
    StartEvent,
)

FIRST_LIMIT_SECONDS = 180.0
"""Until the first iteration: importing torch, and MPI's start on every phone."""

LEAST_LIMIT_SECONDS = 20.0
ITERATIONS_OF_PATIENCE = 6


@dataclass(slots=True)
class Tracker:
    """The state of a run as its head phone tells it. Times are the phone's clock."""

    iterations: int = 0
    resumed_at: int = 0
    """Iterations that the checkpoint had already seen."""
    last: IterationEvent | None = None
    evaluation: EvaluationEvent | None = None
    checkpoint: CheckpointEvent | None = None
    end: EndEvent | None = None
    notes: list[str] = field(default_factory=list)
    first_time: float | None = None
    _gaps: deque[float] = field(default_factory=lambda: deque(maxlen=32))
    _previous: float | None = None

    def take(self, event: Event) -> None:
        """Account for one line of progress.jsonl."""
        self.first_time = event.time if self.first_time is None else self.first_time
        match event:
            case StartEvent():
                self.iterations, self.resumed_at = event.iterations, event.iteration
                if event.note:
                    self.notes.append(event.note)
            case IterationEvent():
                self.last = event
            case EvaluationEvent():
                self.evaluation = event
            case CheckpointEvent():
                self.checkpoint = event
            case EndEvent():
                self.end = event
        if self._previous is not None:
            self._gaps.append(max(event.time - self._previous, 0.0))
        self._previous = event.time

    @property
    def deadline_seconds(self) -> float:
        """How long silence is still normal: adaptive, since phones are slow in their own ways.

        An evaluation or a checkpoint counts as a gap too, so the longest one seen is allowed.
        """
        if self.last is None:
            return FIRST_LIMIT_SECONDS
        typical, longest = statistics.median(self._gaps), max(self._gaps)
        return max(LEAST_LIMIT_SECONDS, ITERATIONS_OF_PATIENCE * typical, 2 * longest)

    @property
    def iteration_seconds(self) -> float | None:
        """What an iteration takes; None before the second one."""
        return statistics.median(self._gaps) if self.last is not None and self._gaps else None

    @property
    def remaining_seconds(self) -> float:
        """Until the last iteration, at the pace of the last ones; 0 before the first."""
        if self.last is None or not self._gaps:
            return 0.0
        return (self.iterations - self.last.iteration) * statistics.median(self._gaps)

    def line(self) -> str:
        """Where the run is, in one line."""
        last = self.last
        if last is None:
            return "starting" if self.iterations == 0 else f"{self.resumed_at}/{self.iterations}"
        parts = [f"{last.iteration}/{self.iterations}" if self.iterations else f"{last.iteration}"]
        if last.loss is not None:
            parts += [f"epoch {last.epoch}", f"loss {last.loss:.4f}"]
        if self.evaluation is not None:
            parts.append(f"accuracy {self.evaluation.test_accuracy:.2%}")
        parts += [
            f"{last.images_per_second:.0f} images/s",
            f"compute {_milliseconds(last.compute_seconds)}",
            f"exchange {_milliseconds(last.exchange_seconds)}"
            f" (waited {_milliseconds(last.wait_seconds)})",
        ]
        return " · ".join(parts)


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1000:.0f} ms"
