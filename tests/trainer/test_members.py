"""Shares follow heat: a phone that it slows has less, one that is too hot pauses, both come back.

The phones here are played: each takes `fixed + samples * slope` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.members import FIRST_HOLD_SECONDS, LATE, UNSEEN_SECONDS, Change, Members, Reading

LIMIT = 43.0


@dataclass
class Played:
    """Ranks that compute (0.1 s a sample, if nothing else is said), and what they tell of it one
    iteration later, as in a run."""

    plan: tuple[int, ...]
    least: int = 1
    fixed: float = 0.0
    slope: list[float] = field(default_factory=list)
    slowed: set[int] = field(default_factory=set)
    celsius: dict[int, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = Members(self.plan, self.least, LIMIT)
        self.slope = self.slope or [0.1] * len(self.plan)
        self.cold = list(self.slope)
        self.told = [Reading(0.0)] * len(self.plan)

    @property
    def shares(self) -> tuple[int, ...]:
        return self.members.shares

    def seconds(self, shares: tuple[int, ...]) -> list[float]:
        return [
            self.fixed + n * slope if n else 0.001
            for n, slope in zip(shares, self.slope, strict=True)
        ]

    def go(self, iterations: int) -> list[Change]:
        changes = []
        for _ in range(iterations):
            seconds = self.seconds(self.shares)
            if (change := self.members.take(self.told)) is not None:
                changes.append(change)
                self.check()
            self.told = [
                Reading(taken, self.celsius.get(rank, 30.0), rank in self.slowed)
                for rank, taken in enumerate(seconds)
            ]
        return changes

    def check(self) -> None:
        assert sum(self.shares) == sum(self.plan)
        assert all(n == 0 or n >= self.least for n in self.shares)

    def heat(self, rank: int, factor: float, celsius: float | None = 39.0) -> None:
        self.slope[rank] *= factor
        self.celsius[rank] = celsius
        self.slowed.add(rank)

    def cool(self, rank: int) -> None:
        self.slope[rank] = self.cold[rank]
        self.celsius[rank] = 30.0
        self.slowed.discard(rank)


def test_a_phone_that_heat_slows_gets_less_so_that_all_end_together() -> None:
    rack = Played((16,) * 6)
    assert rack.go(50) == []
    cold = max(rack.seconds(rack.shares))
    rack.heat(2, 1 / 0.735, 41.2)
    (change,) = rack.go(50)
    assert change.shares == rack.shares == (17, 17, 12, 17, 17, 16)
    assert change.why == {
        2: "heat slows it: 1.30 times as long as the others, its battery has 41.2 °C: 12 samples "
        "instead of 16"
    }
    assert max(rack.seconds(rack.shares)) < 1.07 * cold
    assert rack.go(500) == [], "and there it stays"


def test_slowness_without_heat_is_no_reason() -> None:
    rack = Played((16,) * 4)
    rack.slope[1] *= 2
    assert rack.go(200) == []
    rack.celsius = dict.fromkeys(range(4))
    assert rack.go(200) == []


def test_where_android_tells_nothing_a_warm_battery_is_evidence() -> None:
    rack = Played((16,) * 4)
    rack.slope[1] *= 2
    rack.celsius[1] = LIMIT - 5
    assert rack.go(200)
    assert rack.shares[1] < 10


def test_a_cool_phone_has_its_share_back_but_not_before_a_while() -> None:
    rack = Played((16,) * 6)
    rack.heat(0, 1.5)
    rack.go(100)
    small = rack.shares[0]
    assert small < 12
    rack.heat(0, 1.5)  # hotter: smaller still, and held anew
    (change,) = rack.go(10)
    assert change.shares[0] < small
    rack.cool(0)
    assert rack.go(10) == [], "half a minute has not passed"
    changes = rack.go(100)
    assert rack.shares == rack.plan
    assert changes[-1].why[0] == "it is as fast as before: it has its whole share again"


def test_each_time_that_it_falls_back_it_is_held_for_longer() -> None:
    rack = Played((20,) * 5)
    waited = []
    for _ in range(4):
        rack.heat(3, 1.5)
        rack.go(30)
        assert rack.shares[3] < 20
        rack.cool(3)
        iterations = 0
        while rack.shares != rack.plan:
            rack.go(1)
            iterations += 1
        waited.append(iterations)
    assert waited == sorted(waited)
    assert waited[-1] > 5 * waited[0]


def test_a_phone_above_the_limit_pauses_at_once_and_comes_back_with_half() -> None:
    rack = Played((16,) * 4)
    rack.go(10)
    rack.celsius[1] = 43.4
    (change,) = rack.go(2)
    assert change.shares == (22, 0, 21, 21)
    assert change.why == {1: "its battery has 43.4 °C (limit 43): it pauses"}
    rack.celsius[1] = None
    assert rack.go(50) == [], "what is not known is not cool"
    rack.celsius[1] = 41.0
    assert rack.go(50) == []
    rack.celsius[1] = 39.9
    (change,) = rack.go(2)
    assert change.shares[1] == 8
    assert change.why[1] == "its battery has cooled to 39.9 °C: 8 samples"
    rack.celsius[1] = 30.0
    rack.go(100)
    assert rack.shares == rack.plan


def test_a_paused_phone_whose_thermometer_fails_stays_paused_and_that_is_told_once() -> None:
    rack = Played((16,) * 4)
    rack.celsius[1] = 44.0
    rack.go(10)
    paused = rack.shares
    rack.celsius[1] = None
    iteration = max(rack.seconds(paused))
    assert rack.go(int(UNSEEN_SECONDS / iteration) - 2) == [], "it may be a matter of moments"
    (change,) = rack.go(400)
    assert change.shares == rack.shares == paused, "what nobody sees cool is not given work"
    assert change.why == {
        1: "its battery does not tell its temperature any more: it stays paused until it does"
    }
    rack.celsius[1] = 42.0
    assert rack.go(10) == [], "it is known, and too warm"
    rack.celsius[1] = None
    (again,) = rack.go(400)
    assert again.why == change.why
    rack.celsius[1] = 30.0
    rack.go(200)
    assert rack.shares == rack.plan


def test_an_unknown_temperature_of_a_phone_that_computes_is_no_news() -> None:
    rack = Played((16,) * 4)
    rack.celsius[1] = None
    rack.heat(2, 1.5)
    rack.go(100)
    rack.celsius[2] = None
    assert not any("does not tell" in why for c in rack.go(400) for why in c.why.values())


def test_the_hottest_pause_first_and_half_of_the_work_goes_on() -> None:
    rack = Played((8,) * 5, celsius={0: 44.0, 1: 46.0, 2: 43.0, 3: 45.0, 4: 44.5})
    rack.go(5)
    assert [n == 0 for n in rack.shares] == [False, True, False, True, False]
    alone = Played((8,), celsius={0: 60.0})
    assert alone.go(50) == []


def test_where_all_are_slowed_alike_nothing_can_be_won() -> None:
    rack = Played((16,) * 4)
    for rank in range(4):
        rack.heat(rank, 1.36)
    assert rack.go(300) == []


def test_where_all_are_slowed_the_slowest_still_has_less() -> None:
    rack = Played((32,) * 4)
    for rank, factor in enumerate((1.1, 1.1, 1.2, 1.6)):
        rack.heat(rank, factor)
    before = max(rack.seconds(rack.shares))
    assert 1 <= len(rack.go(600)) <= 4
    assert rack.shares[3] < 26
    assert max(rack.seconds(rack.shares)) < 0.82 * before


def test_a_rank_without_samples_stays_without() -> None:
    rack = Played((10, 0, 10))
    rack.heat(1, 2.0, 50.0)
    assert rack.go(100) == []


RACKS = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.lists(st.integers(2, 40), min_size=count, max_size=count),
        st.lists(st.floats(1.0, 3.0), min_size=count, max_size=count),
        st.lists(st.booleans(), min_size=count, max_size=count),
        st.lists(st.none() | st.floats(20.0, 50.0, width=16), min_size=count, max_size=count),
    )
)


@settings(max_examples=30)
@given(rack=RACKS, fixed=st.sampled_from([0.0, 0.5, 3.0]), least=st.integers(1, 2))
def test_whatever_the_heat_the_batch_stays_whole_and_shares_come_to_rest(
    rack, fixed: float, least: int
) -> None:
    plan, factors, slowed, celsius = rack
    played = Played(
        tuple(plan),
        least,
        fixed,
        [0.1 * factor for factor in factors],
        {rank for rank, is_slowed in enumerate(slowed) if is_slowed},
        dict(enumerate(celsius)),
    )
    unheated = max(played.seconds(played.shares))
    resting = sum(
        n for rank, n in enumerate(plan) if celsius[rank] is not None and celsius[rank] >= LIMIT
    )
    changes = played.go(400)
    assert len(changes) <= 40
    assert played.go(150) == [], "nothing changed, so nothing is changed"
    if not resting:
        assert max(played.seconds(played.shares)) <= unheated * (1 + 1e-9)


@settings(max_examples=20)
@given(rack=RACKS, seed=st.integers(0, 2**20), least=st.integers(1, 2))
def test_heat_that_comes_and_goes_leaves_nothing_behind(rack, seed: int, least: int) -> None:
    """The plan fits its phones: cool, all of them take two seconds."""
    plan, factors, slowed, _ = rack
    played = Played(tuple(plan), least, 0.0, [2 / samples for samples in plan])
    for rank, (factor, is_slowed) in enumerate(zip(factors, slowed, strict=True)):
        if is_slowed:
            played.heat(rank, factor, 35.0 + seed % 12)
    played.go(120)
    for rank in range(len(plan)):
        played.cool(rank)
    played.go(1000)
    assert played.shares == tuple(plan)


@given(
    readings=st.lists(
        st.builds(
            Reading,
            st.floats(0, 1000, width=32),
            st.none() | st.floats(-20, 90, width=16).map(lambda c: round(c, 1)),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    mark=st.integers(0, 2**24),
)
def test_a_reading_survives_the_exchange(readings, mark: int) -> None:
    for reading in readings:
        sent = np.array(reading.numbers(mark), np.float32)
        assert np.isfinite(sent).all()
        assert Reading.of(sent.tolist()) == reading
        assert int(sent[-1]) == mark


@pytest.mark.parametrize("shares", [(16, 16), (15, 17), (0, 32)])
def test_a_mark_tells_shares_apart(shares) -> None:
    members = [Members(plan, 1, LIMIT) for plan in ((16, 16), (15, 17), (0, 32))]
    own = Members(shares, 1, LIMIT)
    assert sum(each.mark == own.mark for each in members) == 1
    assert own.mark < 2**24


def test_the_limits_are_what_the_documentation_says() -> None:
    assert (LATE, FIRST_HOLD_SECONDS) == (0.04, 30.0)
