"""The sampler among hostile sources, and the page that prometheus_client makes of its snapshot."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from exporters.collector import SnapshotCollector, registry
from exporters.metrics import (
    BATTERY_TEMPERATURE,
    CATALOGUE,
    TRAINING_IMAGES,
    TRAINING_INFO,
    TRAINING_LOSS,
    UPTIME,
    Metric,
    Sample,
)
from exporters.sampler import Sampler, retry_seconds
from exporters.sources import Source


def source(name: str, read: Callable[[], Iterable[Sample]], limit_seconds: float = 5.0) -> Source:
    return Source(name, read, every_seconds=0.0, limit_seconds=limit_seconds)


GOOD = source("good", lambda: [UPTIME.sample(12.5)])


def page(sampler: Sampler) -> dict[str, float]:
    """Sample (with its label values) -> value, as a scrape reads the page."""
    text = generate_latest(registry(lambda: sampler.snapshot)).decode()
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def raises(error: BaseException) -> Callable[[], Iterable[Sample]]:
    def read() -> Iterable[Sample]:
        raise error

    return read


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied", "/sys/class/thermal"),
        ValueError("rubbish"),
        MemoryError(),
        RecursionError(),
        SystemExit(1),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
# A thread that dies of SystemExit or KeyboardInterrupt is what is looked at here.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_raising_source_is_marked_and_the_others_are_served(error: BaseException) -> None:
    sampler = Sampler([source("bad", raises(error)), GOOD])
    sampler.tick()
    assert page(sampler)["phonerack_collector_success bad"] == 0
    assert page(sampler)["phonerack_collector_success good"] == 1
    assert page(sampler)["phonerack_uptime_seconds"] == 12.5


def test_a_hanging_source_is_marked_never_piles_up_and_recovers() -> None:
    release, calls = threading.Event(), []

    def hang() -> Iterator[Sample]:
        calls.append(None)
        release.wait()
        yield BATTERY_TEMPERATURE.sample(30.0)

    sampler = Sampler([source("hanging", hang, limit_seconds=0.1), GOOD])
    for _ in range(5):
        sampler.tick()
        assert page(sampler)["phonerack_collector_success hanging"] == 0
        assert page(sampler)["phonerack_collector_success good"] == 1
        assert "phonerack_battery_temperature_celsius" not in page(sampler)
    assert len(calls) == 1

    release.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(5)
    sampler.tick()
    assert page(sampler)["phonerack_battery_temperature_celsius"] == 30.0


def test_values_of_a_source_that_fails_later_vanish_and_its_last_success_stays() -> None:
    answers: list[Callable[[], Iterable[Sample]]] = [
        lambda: [BATTERY_TEMPERATURE.sample(30.0)],
        raises(OSError("gone")),
    ]
    sampler = Sampler([source("battery", lambda: answers.pop(0)())])
    sampler.tick()
    first = page(sampler)
    sampler.tick()
    second = page(sampler)
    assert "phonerack_battery_temperature_celsius" in first
    assert "phonerack_battery_temperature_celsius" not in second
    last = "phonerack_collector_last_success_timestamp_seconds battery"
    assert second[last] == first[last]


def test_a_source_that_never_answered_has_no_last_success() -> None:
    sampler = Sampler([source("bad", raises(OSError("gone")))])
    sampler.tick()
    assert "phonerack_collector_last_success_timestamp_seconds bad" not in page(sampler)


def test_a_source_that_fails_half_way_gives_nothing() -> None:
    def half() -> Iterator[Sample]:
        yield UPTIME.sample(1.0)
        raise OSError("gone")

    sampler = Sampler([source("half", half)])
    sampler.tick()
    assert "phonerack_uptime_seconds" not in page(sampler)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_absent(value: float) -> None:
    sampler = Sampler([source("odd", lambda: [UPTIME.sample(value)])])
    sampler.tick()
    assert "phonerack_uptime_seconds" not in page(sampler)


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
@pytest.mark.parametrize("value", [1e300, -1e300, 10**18, -(10**18)])
def test_no_metric_shows_what_no_phone_can_have(metric: Metric, value: float) -> None:
    if metric is TRAINING_LOSS:  # of a model's own making
        return
    labels = ["x"] * len(metric.labels)
    sampler = Sampler([source("odd", lambda: [metric.sample(value, *labels)]), GOOD])
    sampler.tick()
    assert page(sampler)["phonerack_collector_success odd"] == 0
    assert page(sampler)["phonerack_collector_success good"] == 1
    assert metric.name in str(sampler.snapshot.document()["errors"])
    assert not metric.is_possible(value)


def test_one_impossible_value_does_not_take_the_others_along() -> None:
    told = [BATTERY_TEMPERATURE.sample(1e9), TRAINING_IMAGES.sample(7)]
    sampler = Sampler([source("odd", lambda: told)])
    sampler.tick()
    assert "phonerack_battery_temperature_celsius" not in page(sampler)
    assert page(sampler)["phonerack_training_images_total"] == 7


def test_a_source_without_end_is_marked() -> None:
    def flood() -> Iterator[Sample]:
        while True:
            yield UPTIME.sample(1.0)

    sampler = Sampler([source("flood", flood), GOOD])
    sampler.tick()
    assert page(sampler)["phonerack_collector_success flood"] == 0
    assert "more than" in sampler.snapshot.document()["errors"]["flood"]
    assert page(sampler)["phonerack_uptime_seconds"] == 12.5


@pytest.mark.parametrize("now", [0.0, 4e9])
def test_a_clock_in_the_future_or_at_1970_is_told_as_it_is(
    monkeypatch: pytest.MonkeyPatch, now: float
) -> None:
    """Compared with that of the scrape, it is what the alert is made of."""
    sampler = Sampler([GOOD])
    monkeypatch.setattr("time.time", lambda: now)
    sampler.tick()
    found = page(sampler)
    assert found["phonerack_clock_timestamp_seconds"] == now
    assert found["phonerack_collector_last_success_timestamp_seconds good"] == now
    monkeypatch.setattr("time.time", lambda: now + 3)
    assert page(sampler)["phonerack_clock_timestamp_seconds"] == now + 3, "read at the scrape"


def test_what_a_source_says_twice_does_not_fail_the_page() -> None:
    sampler = Sampler([source("odd", lambda: [UPTIME.sample(1), UPTIME.sample(2)])])
    sampler.tick()
    text = generate_latest(registry(lambda: sampler.snapshot)).decode()
    assert [line for line in text.splitlines() if line.startswith("phonerack_uptime_seconds")] == [
        "phonerack_uptime_seconds 1.0"
    ]


@pytest.mark.parametrize("label", ["\ud800", "a\nb", 'say "x"', "back\\slash", "x" * 10_000, ""])
def test_rubbish_in_a_label_does_not_fail_the_page(label: str) -> None:
    sampler = Sampler([source("odd", lambda: [TRAINING_INFO.sample(1, label, "0")]), GOOD])
    sampler.tick()
    assert page(sampler)["phonerack_uptime_seconds"] == 12.5
    assert json.dumps(sampler.snapshot.document()).encode()


def test_a_source_that_is_not_due_is_not_asked() -> None:
    calls: list[None] = []
    often, seldom = GOOD, source("seldom", lambda: calls.append(None) or ())
    sampler = Sampler([often, replace(seldom, every_seconds=3600.0)])
    for _ in range(3):
        sampler.tick()
    assert len(calls) == 1


def test_pauses_double_after_the_first_failure_up_to_a_minute() -> None:
    assert [retry_seconds(5, n) for n in range(7)] == [5, 5, 10, 20, 40, 60, 60]
    assert retry_seconds(300, 5) == 300
    assert retry_seconds(5, 10_000) == 60


def test_registering_and_scraping_ask_no_source() -> None:
    sampler = Sampler([source("untouched", raises(AssertionError("asked")))])
    assert set(page(sampler)) == {"phonerack_clock_timestamp_seconds"}


def test_the_collector_describes_every_metric_that_it_may_give() -> None:
    collector = SnapshotCollector(lambda: Sampler([]).snapshot)
    described = {name for family in collector.describe() for name in (family.name,)}
    assert described == {metric.name.removesuffix("_total") for metric in CATALOGUE}


def test_a_counter_has_no_created_series() -> None:
    sampler = Sampler([source("training", lambda: [TRAINING_IMAGES.sample(7)])])
    sampler.tick()
    assert page(sampler)["phonerack_training_images_total"] == 7
    assert not any("_created" in name for name in page(sampler))


def test_the_document_holds_what_the_page_holds_and_the_reasons() -> None:
    sampler = Sampler([GOOD, source("bad", raises(OSError("gone")))])
    sampler.tick()
    document = sampler.snapshot.document()
    assert document["metrics"]["phonerack_uptime_seconds"] == [{"labels": {}, "value": 12.5}]
    assert document["errors"] == {"bad": "gone"}


def test_metric_names_are_unique_and_say_their_help() -> None:
    assert len({metric.name for metric in CATALOGUE}) == len(CATALOGUE)
    assert all(metric.help.endswith(".") for metric in CATALOGUE)
