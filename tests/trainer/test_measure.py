"""What phones measure: message patterns, heat, the search for the largest batch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Loopback, on_all_ranks

from trainer.formats import ComputeCase, Input, LargestBatch, MemorySearch, ModelSpec, OptimizerSpec
from trainer.measure.heat import SNAPSHOT, Heat, Thermometer, celsius, look
from trainer.measure.memory import MOST_TRIALS, Trial, allowance_bytes, largest_batch, search
from trainer.measure.patterns import many_to_many, one_to_many


@pytest.mark.parametrize("size", [1, 2, 5])
def test_everybody_gets_the_first_ones_data(size: int) -> None:
    def work(transport: Loopback) -> np.ndarray:
        data = np.full(6, 7 if transport.rank == 0 else -1, np.float32)
        one_to_many(transport, data)
        return data

    for data in on_all_ranks(size, work):
        assert (data == 7).all()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_everybody_gets_a_part_of_everybody(size: int) -> None:
    def work(transport: Loopback) -> np.ndarray:
        data = np.arange(size, dtype=np.float32) + 10 * transport.rank
        received = np.full(size, -1, np.float32)
        many_to_many(transport, data, received)
        return received

    for rank, received in enumerate(on_all_ranks(size, work)):
        assert received.tolist() == [rank + 10 * other for other in range(size)]


@given(st.integers(0, 5000), st.integers(1, 4096), st.floats(1e5, 1e8), st.floats(0, 1e9))
def test_the_largest_batch_is_found_in_a_few_trials(
    largest: int, most: int, per_sample: float, base: float
) -> None:
    """Memory grows in a straight line, as a step's does."""
    limit = int(base + per_sample * (largest + 0.5))
    tried: list[int] = []

    def attempt(batch: int) -> Trial:
        tried.append(batch)
        assert 1 <= batch <= most
        return Trial(batch, int(base + per_sample * batch) if batch <= largest else None)

    found = search(attempt, most, limit)
    assert found.trials == len(tried) <= MOST_TRIALS
    best = found.best.batch if found.best else 0
    assert best <= min(largest, most)
    assert best >= min(largest, most) * 0.94, "near enough to the edge"
    assert found.bounded == (0 < best == most)


@given(st.integers(0, 3000), st.integers(1, 2048), st.lists(st.integers(1, 10**9), min_size=1))
def test_memory_that_follows_no_line_still_gives_a_batch_that_fits(
    largest: int, most: int, peaks: list[int]
) -> None:
    def attempt(batch: int) -> Trial:
        return Trial(batch, peaks[batch % len(peaks)] if batch <= largest else None)

    found = search(attempt, most, 10**9)
    best = found.best.batch if found.best else 0
    assert best <= largest
    assert (best > 0) == (largest > 0)
    assert found.trials <= MOST_TRIALS


@pytest.mark.parametrize(("model", "first"), [("resnet-18", 2), ("squeezenet", 1)])
def test_a_model_that_refuses_one_sample_is_not_taken_for_too_large(
    model: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BatchNorm needs two, however much memory there is."""
    tried: list[int] = []

    class Trials:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> Trials:
            return self

        def __exit__(self, *_: object) -> None: ...

        def attempt(self, batch: int) -> Trial:
            tried.append(batch)
            return Trial(batch, batch if first <= batch <= 3 else None)

    monkeypatch.setattr("trainer.measure.memory._Trials", Trials)
    monkeypatch.setattr("trainer.measure.memory.allowance_bytes", lambda _: 1000)
    case = ComputeCase(ModelSpec(model), Input((3, 32, 32), 10), 8, 1)
    found = largest_batch(case, OptimizerSpec("sgd", {"lr": 0.1}), MemorySearch(64), "cpu")
    assert isinstance(found, LargestBatch)
    assert tried[0] == first
    assert found.batch == 3


def test_a_step_may_take_a_share_of_what_is_free(tmp_path: Path) -> None:
    meminfo, group = tmp_path / "meminfo", tmp_path / "cgroup"
    wish = MemorySearch(most=8, share=0.5)
    assert allowance_bytes(wish, meminfo, group) is None, "unknown is not a number"
    meminfo.write_text("MemTotal:  9000000 kB\nMemAvailable:    4000000 kB\n")
    assert allowance_bytes(wish, meminfo, group) == 2000000 * 1024
    group.mkdir()
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert allowance_bytes(wish, meminfo, group) == 2000000 * 1024
    (group / "memory.max").write_text("2001000\n")
    assert allowance_bytes(wish, meminfo, group) == 1_000_000
    small = MemorySearch(most=8, share=0.5, limit_bytes=5)
    assert allowance_bytes(small, meminfo, group) == 5


def snapshot(home: Path, age_seconds: float, **metrics: list[float]) -> None:
    path = home / SNAPSHOT
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {
        f"phonerack_{name}_celsius": [{"labels": {}, "value": value} for value in values]
        for name, values in metrics.items()
    }
    path.write_text(json.dumps({"time": time.time() - age_seconds, "metrics": told}))


def test_the_hottest_sensor_counts_and_what_is_not_known_is_none(tmp_path: Path) -> None:
    zones = tmp_path / "thermal"
    assert celsius(tmp_path, zones) is None
    for number, text in enumerate(["38500", "0", "-274000", "41", "denied"]):
        zone = zones / f"thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "temp").write_text(text)
    assert celsius(tmp_path, zones) == 41
    snapshot(tmp_path, 1, battery_temperature=[29.0])
    assert celsius(tmp_path, zones) == 29, "the exporter comes first"
    snapshot(tmp_path, 1, battery_temperature=[29.0], thermal_zone=[35.0, 47.5])
    assert celsius(tmp_path, zones) == 47.5
    snapshot(tmp_path, 300, thermal_zone=[80.0])
    assert celsius(tmp_path, zones) == 41, "an exporter that has stopped is not believed"
    (tmp_path / SNAPSHOT).write_text("[1")
    assert celsius(tmp_path, zones) == 41


def tell(home: Path, **metrics: float) -> None:
    path = home / SNAPSHOT
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {f"phonerack_{name}": [{"labels": {}, "value": v}] for name, v in metrics.items()}
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"time": time.time(), "metrics": told}))
    part.replace(path)


def test_what_the_exporter_tells_of_heat_and_what_it_does_not(tmp_path: Path) -> None:
    assert look(tmp_path) == Heat(None, None, 0.0)
    tell(tmp_path, battery_temperature_celsius=38.5)
    assert look(tmp_path) == Heat(38.5, None, 0.0)
    tell(
        tmp_path,
        battery_temperature_celsius=38.5,
        thermal_status=2,
        throttled_seconds_total=61.0,
    )
    assert look(tmp_path) == Heat(38.5, 2, 61.0)
    (tmp_path / SNAPSHOT).write_text('{"time": 1, "metrics": 7}')
    assert look(tmp_path) == Heat()


@pytest.mark.parametrize(
    ("first", "then", "slowed"),
    [
        ({"thermal_status": 0.0}, {"thermal_status": 1.0}, True),
        ({"thermal_status": 1.0}, {"thermal_status": 0.0}, False),
        ({"throttled_seconds_total": 5.0}, {"throttled_seconds_total": 9.0}, True),
        ({"throttled_seconds_total": 5.0}, {"throttled_seconds_total": 5.0}, False),
        ({}, {"throttled_seconds_total": 9.0}, False),
    ],
)
def test_a_phone_is_slowed_by_its_status_or_when_its_frequency_was_held_down_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Any, then: Any, slowed: bool
) -> None:
    monkeypatch.setattr("trainer.measure.heat._EVERY_SECONDS", 0.001)
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path)
    tell(tmp_path, **first)
    with Thermometer() as thermometer:
        tell(tmp_path, battery_temperature_celsius=30.0, **then)
        while thermometer.heat.battery_celsius is None:
            time.sleep(0.001)
    assert thermometer.slowed is slowed
