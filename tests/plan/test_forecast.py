"""How long an iteration would take, and how many phones are worth it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.plan.forecast import (
    Forecast,
    Unmeasured,
    forecast,
    measured_phones,
    soonest,
    worth,
)
from trainer.formats import (
    ComputeProfile,
    DataSpec,
    Exchange,
    Input,
    LinkProfile,
    MemoryProfile,
    ModelSpec,
    OptimizerSpec,
    Plan,
    RackProfile,
    fitted_to,
)

SHAPE = Input((3, 32, 32), 10)
MODEL = ModelSpec("resnet-18")
PARAMETERS = 11_000_000
PHONES = tuple(f"phone{n:03}" for n in range(1, 9))


def computed(phone: str, batch: int, seconds: float, threads: int = 1) -> ComputeProfile:
    return ComputeProfile(
        phone=phone, device="cpu", model=MODEL, input=SHAPE, batch=batch, threads=threads,
        forward_seconds=seconds * 0.3, backward_seconds=seconds * 0.6, step_seconds=seconds,
        gradient_bytes=4 * PARAMETERS, time=0.0, run="bench-compute-1",
    )  # fmt: skip


def link(method: str = "ring", alpha: float = 1e-3, speed: float = 50e6) -> LinkProfile:
    return LinkProfile(method, alpha, speed, 0.01, 8, 0.0, "bench-collectives-1")


def profile(**changes: Any) -> RackProfile:
    compute = tuple(computed(p, b, 0.1 + 0.1 * b) for p in PHONES for b in (2, 4, 8, 16))
    return replace(RackProfile("lab", links=(link(),), compute=compute), **changes)


def plan(count: int, batch: int = 64, **exchange: Any) -> Plan:
    shares = [batch // count + (i < batch % count) for i in range(count)]
    return Plan(
        run="plan", phones=PHONES[:count], samples_per_rank=tuple(shares),
        model=fitted_to(MODEL, SHAPE.shape, SHAPE.classes), data=DataSpec("some", "some"),
        epochs=1, optimizer=OptimizerSpec("sgd", {"lr": 0.1}), exchange=Exchange(**exchange),
    )  # fmt: skip


def test_packed_gradients_go_after_all_is_computed() -> None:
    told = forecast(plan(8), profile(), SHAPE)
    assert told.compute_seconds == pytest.approx(0.1 + 0.1 * 8)
    assert told.exchange_seconds == pytest.approx(14 * 1e-3 + 14 / 8 * 44e6 / 50e6)
    assert told.hidden_seconds == 0
    assert told.iteration_seconds == told.compute_seconds + told.exchange_seconds
    assert told.images_per_second == pytest.approx(64 / told.iteration_seconds)


def test_buckets_hide_behind_the_backward_pass_but_for_the_last() -> None:
    told = forecast(plan(8, bucket_bytes=4_400_000), profile(), SHAPE)
    assert told.exchange_seconds == pytest.approx(10 * 14 * 1e-3 + 14 / 8 * 44e6 / 50e6)
    backward = 0.6 * (0.1 + 0.1 * 8)
    assert told.hidden_seconds == pytest.approx(min(0.9 * told.exchange_seconds, backward))
    alone = forecast(plan(1, batch=8), profile(), SHAPE)
    assert (alone.exchange_seconds, alone.hidden_seconds) == (0, 0)


def test_half_sends_half_the_bytes() -> None:
    whole, half = (forecast(plan(8, codec=c), profile(), SHAPE) for c in ("none", "half"))
    assert whole.exchange_seconds - half.exchange_seconds == pytest.approx(14 / 8 * 22e6 / 50e6)


def test_all_wait_for_the_slowest_phone() -> None:
    known = profile()
    slow = tuple(
        computed(c.phone, c.batch, c.step_seconds * (2 if c.phone == "phone003" else 1))
        for c in known.compute
    )
    told = forecast(plan(4), replace(known, compute=slow), SHAPE)
    assert told.slowest == "phone003"
    assert told.compute_seconds == pytest.approx(2 * (0.1 + 0.1 * 16))


def test_accumulation_computes_in_parts_and_its_last_part_hides() -> None:
    parted = replace(plan(4, bucket_bytes=1_000_000), accumulate=2)
    told = forecast(parted, profile(), SHAPE)
    step = 0.1 + 0.1 * 8
    assert told.compute_seconds == pytest.approx(2 * 0.9 * step + 0.1 * step)
    assert told.hidden_seconds <= 0.6 * step


def test_threads_are_those_of_the_job_or_the_fastest() -> None:
    both = profile(compute=(computed("phone001", 8, 1.0), computed("phone001", 8, 0.6, 2)))

    def chosen(threads: Any) -> float:
        asked = replace(plan(1), threads=threads)
        return measured_phones(both, asked, SHAPE)["phone001"][0].seconds

    assert (chosen(1), chosen(2), chosen("auto")) == pytest.approx((1.0, 0.6, 0.6))
    assert measured_phones(both, replace(plan(1), threads=4), SHAPE) == {}


def test_what_was_not_measured_is_named() -> None:
    known = profile()
    few = tuple(c for c in known.compute if c.phone not in ("phone007", "phone008"))
    with pytest.raises(Unmeasured, match="resnet-18 was measured on phone007, phone008"):
        forecast(plan(8), replace(known, compute=few), SHAPE)
    with pytest.raises(Unmeasured, match="no exchange was measured"):
        forecast(plan(2), profile(links=()), SHAPE)
    with pytest.raises(Unmeasured, match="no step"):
        forecast(plan(1), profile(), Input((3, 64, 64), 10))


def test_a_share_that_no_memory_is_enough_for_is_told_and_not_chosen() -> None:
    def tried(phone: str, bounded: bool) -> MemoryProfile:
        return MemoryProfile(phone, "cpu", MODEL, SHAPE, 8, 10**9, bounded, 0.0, "b-1")

    known = profile(memory=(tried("phone001", False), tried("phone002", True)))
    told = [forecast(plan(n), known, SHAPE) for n in (2, 4, 8)]
    assert [each.too_large for each in told] == [("phone001",), ("phone001",), ()]
    slow_links = replace(known, links=(link(speed=1e5),))
    told = [forecast(plan(n), slow_links, SHAPE) for n in (2, 4, 8)]
    assert len(soonest(told).phones) == len(worth(told).phones) == 8
    assert [each.beyond for each in told] == [True, False, False]


def test_the_fewest_phones_that_are_hardly_later_are_worth_it() -> None:
    def made(count: int, seconds: float) -> Forecast:
        return Forecast(PHONES[:count], 64, "phone001", seconds, 0.0, 0.0, False, ())

    told = [made(2, 2.0), made(4, 1.05), made(8, 1.0)]
    assert len(soonest(told).phones) == 8
    assert len(worth(told).phones) == 4


BUCKETS = st.one_of(st.just("all"), st.just("each"), st.integers(10**5, 10**8))


@given(
    st.integers(2, 8),
    st.floats(1e6, 1e9),
    st.floats(0, 0.01),
    st.sampled_from(["none", "half"]),
    BUCKETS,
)
def test_no_exchange_hides_more_than_there_is(
    count: int, speed: float, alpha: float, codec: str, bucket: Any
) -> None:
    known = profile(links=(link(alpha=alpha, speed=speed),))
    told = forecast(plan(count, codec=codec, bucket_bytes=bucket), known, SHAPE)
    assert 0 <= told.hidden_seconds <= told.exchange_seconds
    assert told.iteration_seconds >= max(told.compute_seconds, told.exchange_seconds) * (1 - 1e-9)


@given(st.floats(1e6, 1e9), st.floats(1.1, 100))
def test_faster_links_never_take_longer(speed: float, times: float) -> None:
    slow, fast = (
        forecast(plan(8, bucket_bytes=10**6), profile(links=(link(speed=s),)), SHAPE)
        for s in (speed, speed * times)
    )
    assert fast.iteration_seconds <= slow.iteration_seconds * (1 + 1e-9)
