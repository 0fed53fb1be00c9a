"""Iterations of a run and the learning rate of each."""

import dataclasses

import pytest
from test_formats import a_plan

from trainer.formats import Plan, PlanError, SchedulerSpec
from trainer.schedule import Schedule, linear_scale


def test_the_last_iteration_of_an_epoch_may_be_partial() -> None:
    schedule = Schedule.of(a_plan(epochs=3), train_samples=161, shares=(40, 40))
    assert (schedule.per_epoch, schedule.iterations) == (3, 9)


def test_a_last_batch_that_is_too_small_for_somebody_is_left_out() -> None:
    plan = a_plan(epochs=3)
    for samples, per_epoch, left_out in ((160, 2, 0), (163, 2, 3), (164, 3, 0)):
        schedule = Schedule.of(plan, samples, (40, 40), least_samples=2)
        assert (schedule.per_epoch, schedule.left_out) == (per_epoch, left_out)


def test_parts_of_a_step_count_and_phones_without_samples_do_not() -> None:
    plan = a_plan(epochs=1, accumulate=2, warmup_iterations=0)
    assert Schedule.of(plan, 9, (4, 0), least_samples=2).left_out == 1
    with pytest.raises(PlanError, match=r"samples_per_rank \(1 at a time .* BatchNorm"):
        Schedule.of(plan, 9, (3, 6), least_samples=2)


def test_a_run_without_an_iteration_is_refused() -> None:
    plan = a_plan(epochs=3, warmup_iterations=0)
    with pytest.raises(PlanError, match="only 0 iterations"):
        Schedule.of(plan, 3, (40, 40), least_samples=2)


def test_the_rate_rises_linearly_then_stays() -> None:
    plan = a_plan(warmup_iterations=4)
    schedule = Schedule.of(plan, 800, (40, 40))
    rates = [schedule.rate_factor(plan, i) for i in range(6)]
    assert rates == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_the_rate_falls_as_half_a_cosine() -> None:
    plan = a_plan(warmup_iterations=2, schedule="cosine", epochs=1)
    schedule = Schedule(per_epoch=12, iterations=12)
    rates = [schedule.rate_factor(plan, i) for i in range(2, 12)]
    assert rates[0] == 1.0
    assert rates[5] == pytest.approx(0.5)
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.05


def test_a_warm_up_longer_than_the_run_is_refused() -> None:
    plan = dataclasses.replace(a_plan(), epochs=1, warmup_iterations=11)
    with pytest.raises(PlanError, match=r"warmup_iterations \(11\) and epochs \(1\).*only 10"):
        Schedule.of(plan, 800, (40, 40))


@pytest.mark.parametrize(
    ("every", "args", "steps"),
    [
        ("iteration", {"total_steps": 29}, 30),
        ("iteration", {"epochs": 3, "steps_per_epoch": 9}, 30),
        ("epoch", {"total_steps": 2}, 3),
    ],
)
def test_a_cycle_that_ends_before_the_run_is_refused(every, args, steps) -> None:
    def plan(**args: object) -> Plan:
        spec = SchedulerSpec("onecyclelr", {"max_lr": 0.1, **args}, every)
        return a_plan(epochs=3, scheduler=spec, warmup_iterations=0)

    with pytest.raises(PlanError, match=rf"makes {steps}, .*: set its total_steps to {steps}"):
        Schedule.of(plan(**args), 800, (40, 40))
    assert Schedule.of(plan(total_steps=steps), 800, (40, 40)).iterations == 30
    assert Schedule.of(plan(), 800, (40, 40)).iterations == 30  # torch refuses that itself


def test_k_times_the_batch_is_k_times_the_rate_and_the_warm_up_begins_at_the_base_rate() -> None:
    plan = a_plan(warmup_iterations=4, base_batch=20)  # of 80 samples
    schedule = Schedule.of(plan, 800, (40, 40))
    assert linear_scale(plan) == 4
    rates = [4 * schedule.rate_factor(plan, i) for i in range(6)]
    assert rates == [1.75, 2.5, 3.25, 4.0, 4.0, 4.0]


def test_a_batch_below_the_base_batch_needs_no_rise() -> None:
    plan = a_plan(warmup_iterations=4, base_batch=160)
    schedule = Schedule.of(plan, 800, (40, 40))
    assert linear_scale(plan) == 0.5
    assert [schedule.rate_factor(plan, i) for i in range(5)] == [1.0] * 5
