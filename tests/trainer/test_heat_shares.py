"""Ranks whose shares follow heat train what one process would, without a word between them.

The training here is a straight line by NumPy; its gradients go through the real exchange, with what
each rank tells of its heat.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Loopback, on_all_ranks

from trainer.data import epoch_order
from trainer.exchange.engine import Engine
from trainer.formats import (
    DataSpec,
    Exchange,
    HeatSpec,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
)
from trainer.heat import Shares, SharesDiffer
from trainer.measure.heat import Heat
from trainer.members import NUMBERS, Change
from trainer.shares import bounded_shares, largest_remainder, part_of, smallest_part

RANKS, SAMPLES, FEATURES = 3, 124, 7  # the last batch of an epoch is a small one
PLAN = Plan(
    run="line-1",
    phones=tuple(f"phone{rank + 1:03}" for rank in range(RANKS)),
    samples_per_rank=(10, 10, 10),
    model=ModelSpec("script"),
    data=DataSpec("line", "line"),
    epochs=12,
    optimizer=OptimizerSpec("SGD", {"lr": 0.1}),
    heat=HeatSpec(enabled=True),
)
CHANCE = np.random.default_rng(0)
INPUTS = CHANCE.normal(size=(SAMPLES, FEATURES))
TARGETS = INPUTS @ CHANCE.normal(size=FEATURES) + 0.1 * CHANCE.normal(size=SAMPLES)


@dataclass
class PlayedThermometer:
    heat: Heat = field(default_factory=lambda: Heat(30.0))
    slowed: bool = False


def train(transport: Loopback | None, own_statistics: bool = False) -> tuple[Any, list[Any]]:
    """The line that a rank, or one process alone, has found; and how shares changed meanwhile."""
    thermometer: Any = PlayedThermometer()
    alone = transport is None
    rank = 0 if transport is None else transport.rank
    shares = Shares(
        replace(PLAN, heat=HeatSpec()) if alone else PLAN,
        (30,) if alone else PLAN.samples_per_rank,
        own_statistics=own_statistics,
        thermometer=None if alone else thermometer,
    )
    engine = None
    if transport is not None:
        there = transport
        engine = Engine(lambda: there, Exchange(segment_bytes=64))
    weights, changes = np.zeros(FEATURES), []
    told = shares.tell(0.0)
    for iteration in range(PLAN.epochs * 5):
        epoch, batch = divmod(iteration, 5)
        heat_up(thermometer, rank, iteration)
        chosen = epoch_order(SAMPLES, 0, epoch)[batch * 30 : (batch + 1) * 30]
        dealt = shares.deal(len(chosen))
        own = chosen[part_of(dealt, rank)]
        message = np.zeros(FEATURES + RANKS * NUMBERS, np.float32)
        errors = INPUTS[own] @ weights - TARGETS[own]
        message[:FEATURES] = errors @ INPUTS[own] / len(chosen)
        if engine is not None:
            message[FEATURES:].reshape(RANKS, NUMBERS)[rank] = told
            engine.all_reduce(message)
        weights -= 0.1 * message[:FEATURES]
        numbers = message[FEATURES:].reshape(RANKS, NUMBERS).tolist()
        if (change := shares.decide(numbers)) is not None:
            changes.append((iteration, change))
        slope = 0.6 if thermometer.slowed else 0.3
        told = shares.tell(slope * dealt[0 if alone else rank])
    if engine is not None:
        engine.close()
    return weights, changes


def heat_up(thermometer: PlayedThermometer, rank: int, iteration: int) -> None:
    """Rank 1 is slowed, then too hot, then cool again."""
    if rank == 1:
        celsius = 40.0 if iteration < 20 else 44.0 if iteration < 30 else 35.0
        thermometer.heat, thermometer.slowed = Heat(celsius), iteration < 30


@pytest.mark.parametrize("own_statistics", [False, True])
def test_shares_change_in_mid_run_on_all_ranks_at_once_and_the_sums_stay(
    own_statistics: bool,
) -> None:
    expected, _ = train(None)
    found = on_all_ranks(RANKS, lambda transport: train(transport, own_statistics))
    first = found[0][1]
    smaller = [change.shares[1] for _, change in first]
    assert 0 < smaller[0] < 10
    assert 0 in smaller
    assert smaller[-1] == 10
    for weights, changes in found:
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)
        assert changes == first
        assert (weights == found[0][0]).all()
    assert all(isinstance(change, Change) for _, change in first)


def test_a_rank_that_computes_by_other_shares_is_noticed() -> None:
    thermometer: Any = PlayedThermometer()
    shares = [
        Shares(PLAN, given, own_statistics=False, thermometer=thermometer)
        for given in ((10, 10, 10), (10, 10, 10), (10, 9, 11))
    ]
    with pytest.raises(SharesDiffer, match="different shares"):
        shares[0].decide([each.tell(1.0) for each in shares])


def test_where_shares_do_not_follow_heat_nothing_is_told() -> None:
    shares = Shares(PLAN, PLAN.samples_per_rank, own_statistics=False)
    assert (shares.numbers, shares.tell(1.0), shares.decide([])) == (0, (), None)


def test_a_larger_share_is_computed_in_parts_that_memory_is_enough_for() -> None:
    plan = replace(PLAN, accumulate=2, heat=HeatSpec(True, 43.0, (5, 5, 10)))
    shares = Shares(plan, plan.samples_per_rank, own_statistics=False)
    assert [shares.parts([10, 10, 10], rank) for rank in range(3)] == [2, 2, 2]
    assert [shares.parts([16, 4, 10], rank) for rank in range(3)] == [4, 2, 2]
    together = Shares(replace(plan, sync_batch_norm=True), (10, 10, 10), own_statistics=False)
    assert [together.parts([16, 4, 10], rank) for rank in range(3)] == [4, 4, 4]


def test_a_rank_has_at_once_what_it_trains_with_or_is_known_to_have_memory_for() -> None:
    plan = replace(PLAN, samples_per_rank=(9, 0, 4), accumulate=2, heat=HeatSpec())
    alone = Shares(plan, (9,), own_statistics=False)
    shares = Shares(plan, plan.samples_per_rank, own_statistics=False)
    assert [shares.most_at_once(rank) for rank in range(3)] == [5, 1, 2]
    assert alone.most_at_once(0) == 5
    rehearsed = replace(plan, heat=HeatSpec(True, 43.0, (5, 30, 40)))
    shares = Shares(rehearsed, plan.samples_per_rank, own_statistics=False)
    assert [shares.most_at_once(rank) for rank in range(3)] == [5, 30, 40]


@given(
    shares=st.lists(st.integers(0, 60), min_size=3, max_size=3).filter(any),
    most=st.integers(2, 12),
    accumulate=st.integers(1, 3),
)
def test_with_batch_norm_no_part_is_of_one_sample(shares, most: int, accumulate: int) -> None:
    plan = replace(PLAN, accumulate=accumulate, heat=HeatSpec(True, 43.0, (most,) * 3))
    here = Shares(plan, shares, own_statistics=True)
    if sum(shares) < here.least:
        return
    dealt = here.deal(sum(shares))
    assert sum(dealt) == sum(shares)
    for rank, share in enumerate(dealt):
        assert share == 0 or smallest_part([share], here.parts(dealt, rank)) >= 2


@given(
    weights=st.lists(st.integers(0, 60), min_size=1, max_size=10).filter(any),
    total=st.integers(0, 500),
    least=st.integers(1, 6),
)
def test_bounded_shares_are_nothing_or_enough(weights, total: int, least: int) -> None:
    if 0 < total < least:
        with pytest.raises(ValueError, match="cannot be dealt"):
            bounded_shares(total, [1] * (total + 1), least)
        return
    shares = bounded_shares(total, weights, least)
    assert sum(shares) == total
    assert all(share == 0 or share >= least for share in shares)
    assert all(share == 0 or weight for share, weight in zip(shares, weights, strict=True))
    plain = largest_remainder(total, weights)
    if all(share == 0 or share >= least for share in plain):
        assert shares == plain


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": DataSpec("line", "line", stage="share")}, "heat and data.stage share"),
        ({"exchange": Exchange(enabled=False)}, "heat and exchange.enabled=false"),
        ({"deterministic": True}, "heat and deterministic"),
        ({"heat": HeatSpec(True, 10.0)}, "heat.pause_celsius 10 must be from 20 to 70"),
        ({"heat": HeatSpec(True, 43.0, (5, 5))}, "heat.most_at_once"),
        ({"heat": HeatSpec(True, 43.0, (5, 5, 0))}, "heat.most_at_once"),
    ],
)
def test_a_plan_whose_shares_cannot_follow_heat_is_refused(changes, said: str) -> None:
    PLAN.check()
    with pytest.raises(PlanError, match=said):
        replace(PLAN, **changes).check()
