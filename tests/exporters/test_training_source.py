"""Which run a phone shows, and when a run disappears."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from exporters.sources import Layout
from exporters.sources.training import FINISHED_SECONDS, STALE_SECONDS, training
from trainer.formats import Final, FormatError, Progress, final_name, progress_name

NOW = time.time()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(prefix=tmp_path / "usr", home=tmp_path / "home")


def record(
    layout: Layout, run: str, *, age: float = 0.0, rank: int = 3, iteration: int = 40
) -> Path:
    """A progress record that was written `age` seconds ago."""
    folder = layout.folder / "runs" / run
    folder.mkdir(parents=True, exist_ok=True)
    progress = Progress(
        run=run,
        rank=rank,
        phone="phone004",
        time=NOW - age,
        iteration=iteration,
        iterations=100,
        epoch=2,
        loss=0.5 if iteration else None,
        accuracy=None,
        compute_seconds=0.2,
        exchange_seconds=0.1,
        wait_seconds=0.05,
        images=640,
    )
    path = folder / progress_name(rank)
    progress.write(path)
    _set_age(folder, path, age)
    return path


def final(layout: Layout, run: str, *, age: float, rank: int = 3) -> None:
    folder = layout.folder / "runs" / run
    path = folder / final_name(rank)
    Final(
        run=run,
        rank=rank,
        phone="phone004",
        status="done",
        reason=None,
        iteration=100,
        test_accuracy=0.99,
        parameters_sha256=None,
    ).write(path)
    _set_age(folder, path, age)


def _set_age(folder: Path, path: Path, age: float) -> None:
    for each in (path, folder):
        os.utime(each, (NOW - age, NOW - age))


def values(layout: Layout) -> dict[str, float]:
    return {
        " ".join((s.metric.name.removeprefix("phonerack_training_"), *s.labels)): s.value
        for s in training(layout, NOW)
    }


def test_a_phone_without_runs_shows_none(layout: Layout) -> None:
    assert values(layout) == {}


def test_the_run_under_way(layout: Layout) -> None:
    record(layout, "night", age=2)
    found = values(layout)
    assert found["info night 3"] == 1
    assert found["iteration"] == 40
    assert found["images_total"] == 640
    assert found["loss"] == 0.5
    assert (found["compute_seconds"], found["exchange_seconds"], found["wait_seconds"]) == (
        0.2,
        0.1,
        0.05,
    )


def test_what_the_run_does_not_know_yet_is_absent(layout: Layout) -> None:
    record(layout, "night", iteration=0)
    assert not {"loss", "test_accuracy_ratio", "compute_seconds"} & set(values(layout))


def test_the_newest_of_several_runs_is_shown(layout: Layout) -> None:
    record(layout, "zz-first", age=60)
    record(layout, "second", age=5)
    assert "info second 3" in values(layout)


def test_a_run_whose_record_no_longer_changes_disappears(layout: Layout) -> None:
    record(layout, "dead", age=STALE_SECONDS + 1)
    assert values(layout) == {}


def test_a_record_from_the_future_of_a_reset_clock_is_not_the_present(layout: Layout) -> None:
    record(layout, "before", age=-STALE_SECONDS - 1)
    assert values(layout) == {}


def test_a_finished_run_stays_for_the_last_scrape_and_then_disappears(layout: Layout) -> None:
    record(layout, "done", age=FINISHED_SECONDS / 2)
    final(layout, "done", age=FINISHED_SECONDS / 2 - 1)
    assert values(layout)["iteration"] == 40
    record(layout, "done", age=FINISHED_SECONDS + 3)
    final(layout, "done", age=FINISHED_SECONDS + 2)
    assert values(layout) == {}


def test_a_resumed_run_is_shown_in_spite_of_its_earlier_final_record(layout: Layout) -> None:
    record(layout, "again", age=200)
    final(layout, "again", age=190)
    record(layout, "again", age=1)
    assert values(layout)["iteration"] == 40


def test_a_resumed_run_with_another_rank_shows_the_new_one(layout: Layout) -> None:
    record(layout, "again", age=100, rank=5)
    record(layout, "again", age=1, rank=2)
    assert "info again 2" in values(layout)


def test_a_record_that_is_none_is_an_error_that_names_the_file(layout: Layout) -> None:
    record(layout, "torn").write_text('{"version": 1, "run"')
    with pytest.raises(FormatError, match=r"rank-3\.progress\.json"):
        values(layout)
