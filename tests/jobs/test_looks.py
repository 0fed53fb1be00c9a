"""phones.jsonl: what is kept of the phones of a run, how often, and what a reader makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.checks.vitals import Vitals
from fleetctl.jobs import looks
from fleetctl.jobs.looks import Kept, Look, PhoneLook, pause_seconds
from trainer.formats import Progress

WARM = Vitals(temperature_celsius=31.5, hottest_celsius=52.0, throttled_seconds=3.0)
FAST = Progress("digits-1", 0, "phone001", 1.0, 7, 10, 1, 0.5, None, 0.25, 0.1, 0.05, 96)


def test_a_look_is_what_the_phone_and_its_rank_say() -> None:
    assert looks.of(WARM, FAST) == PhoneLook(7, 0.25, 0.1, 0.05, 31.5, 52.0, 3.0)


def test_before_the_first_iteration_there_are_no_times_of_one() -> None:
    first = Progress("digits-1", 0, "phone001", 1.0, 0, 10, 1, None, None, 0.0, 0.0, 0.0, 0)
    for progress in (None, first):
        assert looks.of(WARM, progress) == PhoneLook(
            battery_celsius=31.5, hottest_celsius=52.0, throttled_seconds=3.0
        )


some = st.one_of(st.none(), st.floats(0, 1e6).map(lambda value: float(f"{value:.4g}")))
a_look = st.builds(PhoneLook, st.one_of(st.none(), st.integers(0, 10**9)), *[some] * 6)


@given(st.dictionaries(st.sampled_from(["phone001", "phone002", "x9"]), a_look, min_size=1))
def test_what_was_kept_comes_back(tmp_path_factory: pytest.TempPathFactory, phones: dict) -> None:  # type: ignore[type-arg]
    path = tmp_path_factory.mktemp("looks") / "phones.jsonl"
    Kept(path).add(Look(12.5, phones))
    read = looks.read(path)
    told = any(seen != PhoneLook() for seen in phones.values())
    assert read.looks == ((Look(12.5, phones),) if told else ())
    assert read.damaged == 0


def test_looks_become_rarer_and_a_later_supervisor_goes_on(tmp_path: Path) -> None:
    pauses = [pause_seconds(lines) for lines in range(0, 1201, 120)]
    assert pauses[:3] == [5.0, 10.0, 20.0]
    week = sum(pause_seconds(lines) for lines in range(1201))
    assert week > 7 * 24 * 3600
    path = tmp_path / "phones.jsonl"
    first = Kept(path)
    for _ in range(120):
        first.add(Look(1.0, {"phone001": PhoneLook(battery_celsius=30.0)}))
    assert first.pause_seconds == Kept(path).pause_seconds == 10.0


def test_a_full_disk_ends_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone" / "phones.jsonl"
    Kept(gone).add(Look(1.0, {"phone001": PhoneLook(battery_celsius=30.0)}))
    assert looks.read(gone).looks == ()


WHOLE = {"time": 1, "phones": ["phone001"], "battery_celsius": [30.5]}


@pytest.mark.parametrize(
    "change",
    [
        {"phones": None},
        {"phones": 3},
        {"time": "noon"},
        {"battery_celsius": [1, 2]},
        {"battery_celsius": ["hot"]},
        {"battery_celsius": [True]},
        {"battery_celsius": [float("nan")]},
        {"battery_celsius": [float("inf")]},
        {"time": float("inf")},
        {"battery_celsius": 7},
        {"iteration": [1.5]},
    ],
)
def test_a_line_that_is_no_look_is_counted(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "phones.jsonl"
    lines = [json.dumps(WHOLE), json.dumps({**WHOLE, **change}), json.dumps(WHOLE)]
    path.write_text("\n".join(lines) + '\n{"cut')
    read = looks.read(path)
    assert (len(read.looks), read.damaged) == (2, 2)
    assert read.looks[0] == Look(1.0, {"phone001": PhoneLook(battery_celsius=30.5)})
