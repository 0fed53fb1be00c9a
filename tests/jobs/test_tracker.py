"""Progress and its deadline."""

from __future__ import annotations

from fleetctl.jobs.tracker import FIRST_LIMIT_SECONDS, LEAST_LIMIT_SECONDS, Tracker
from trainer.formats import EvaluationEvent, IterationEvent, StartEvent


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


def test_a_long_evaluation_that_came_once_may_come_again() -> None:
    tracker = tracked(0.1)
    tracker.take(EvaluationEvent(161.0, 10, 1, 0.4, 0.9))
    tracker.take(iteration(11, 161.1))
    assert tracker.deadline_seconds >= 120


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
