"""Progress and its deadline."""

from __future__ import annotations

from fleetctl.jobs.tracker import FIRST_LIMIT_SECONDS, LEAST_LIMIT_SECONDS, Tracker
from trainer.formats import (
    CheckpointEvent,
    EvaluatingEvent,
    EvaluationEvent,
    IterationEvent,
    StartEvent,
)


def iteration(number: int, time: float) -> IterationEvent:
    return IterationEvent(time, number, 1, 0.5, 96, 300.0, 0.02, 0.11, 0.1)


def tracked(step_seconds: float, count: int = 10) -> Tracker:
    tracker = Tracker()
    tracker.take(StartEvent(100.0, iterations=50))
    for number in range(1, count + 1):
        tracker.take(iteration(number, 100.0 + number * step_seconds))
    return tracker


def test_nothing_is_late_before_the_first_iteration() -> None:
    tracker = Tracker()
    tracker.take(StartEvent(100.0, iterations=50))
    assert tracker.deadline_seconds == FIRST_LIMIT_SECONDS


def test_the_deadline_follows_the_phones_pace() -> None:
    assert tracked(0.1).deadline_seconds == LEAST_LIMIT_SECONDS
    assert tracked(18.2).deadline_seconds > 100


def test_an_evaluation_may_take_as_long_as_training_on_its_samples() -> None:
    tracker = tracked(1.0)
    tracker.take(EvaluatingEvent(110.0, 10, 9600))
    assert tracker.deadline_seconds == 200
    tracker.take(EvaluationEvent(190.0, 10, 1, 0.4, 0.9))
    assert tracker.deadline_seconds == LEAST_LIMIT_SECONDS


def test_a_long_evaluation_that_came_once_may_come_again_however_long_ago() -> None:
    tracker = tracked(0.1)
    tracker.take(EvaluatingEvent(101.0, 10, 96))
    tracker.take(EvaluationEvent(161.0, 10, 1, 0.4, 0.9))
    for number in range(11, 60):
        tracker.take(iteration(number, 160.0 + number * 0.1))
        assert tracker.deadline_seconds == LEAST_LIMIT_SECONDS
    tracker.take(EvaluatingEvent(166.0, 59, 96))
    assert tracker.deadline_seconds == 120


def test_a_checkpoint_that_took_long_may_take_long_again() -> None:
    tracker = tracked(0.1)
    tracker.take(CheckpointEvent(130.0, 10, "checkpoints/iteration-10.ckpt"))
    tracker.take(iteration(11, 131.0))
    assert tracker.deadline_seconds == 60


def test_what_comes_between_two_iterations_is_no_iteration() -> None:
    tracker = tracked(2.0, 1)
    for number in range(2, 10):
        at = 100.0 + number * 4.0
        tracker.take(EvaluatingEvent(at - 4.0, number - 1, 96))
        tracker.take(EvaluationEvent(at - 2.0, number - 1, 1, 0.4, 0.9))
        tracker.take(CheckpointEvent(at - 2.0, number - 1, "checkpoints/some.ckpt"))
        tracker.take(iteration(number, at))
    assert tracker.iteration_seconds == 2.0
    assert tracker.remaining_seconds == 41 * 2.0


def test_the_line_tells_loss_accuracy_speed_and_where_time_goes() -> None:
    tracker = tracked(0.1)
    tracker.take(EvaluationEvent(101.1, 10, 1, 0.4, 0.9861))
    line = tracker.line()
    for part in ("10/50", "0.5000", "98.61%", "300 images/s", "compute 20 ms", "exchange 110 ms"):
        assert part in line


def test_a_resumed_run_does_not_start_at_zero() -> None:
    tracker = Tracker()
    tracker.take(StartEvent(100.0, iteration=30, iterations=50))
    assert tracker.line() == "30/50"
