"""How far a run is, from its progress lines. Pure: the live line and the deadline live on it."""

from __future__ import annotations

import statistics
from collections import deque
from dataclasses import dataclass, field

from trainer.formats import (
    CheckpointEvent,
    EndEvent,
    EvaluatingEvent,
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
    """From one iteration to the next, less the evaluation between them."""
    _since: float | None = None
    """When the last iteration was over, or the run began."""
    _evaluating: EvaluatingEvent | None = None
    """The evaluation that is going on."""
    _evaluation_seconds: float = 0.0
    """The longest one."""

    def take(self, event: Event) -> None:
        """Account for one line of progress.jsonl."""
        self.first_time = event.time if self.first_time is None else self.first_time
        match event:
            case StartEvent():
                self.iterations, self.resumed_at = event.iterations, event.iteration
                self._since = event.time
                if event.note:
                    self.notes.append(event.note)
            case IterationEvent():
                self.last = event
                if self._since is not None:
                    self._gaps.append(max(event.time - self._since, 0.0))
                self._since, self._evaluating = event.time, None
            case EvaluatingEvent():
                self._evaluating = event
            case EvaluationEvent():
                self.evaluation = event
                self._end_evaluation(event.time)
            case CheckpointEvent():
                self.checkpoint = event
            case EndEvent():
                self.end = event

    def _end_evaluation(self, now: float) -> None:
        if self._evaluating is None:
            return
        took = max(now - self._evaluating.time, 0.0)
        self._evaluation_seconds = max(self._evaluation_seconds, took)
        if self._since is not None:
            self._since += took
        self._evaluating = None

    @property
    def deadline_seconds(self) -> float:
        """How long silence is still normal: adaptive, since phones are slow in their own ways.

        The longest pause between two iterations, as for a checkpoint, may come again. An evaluation
        is given twice what training on its samples would take, or twice what one has taken.
        """
        if self.last is None or not self._gaps:
            return FIRST_LIMIT_SECONDS
        typical, longest = statistics.median(self._gaps), max(self._gaps)
        limit = max(LEAST_LIMIT_SECONDS, ITERATIONS_OF_PATIENCE * typical, 2 * longest)
        if self._evaluating is None:
            return limit
        trained = typical * self._evaluating.samples / max(self.last.images, 1)
        return max(limit, 2 * trained, 2 * self._evaluation_seconds)

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
