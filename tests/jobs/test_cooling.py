"""Phones that fail again and again rest for a while; then they may try again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs import cooling, runs
from fleetctl.jobs.cooling import cool_down, cool_down_seconds, failures
from fleetctl.jobs.verdict import Verdict
from fleetctl.state import State


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


def failed(folder: Path, *phones: str, before: float = 0.0) -> Any:
    """A run that those phones have ended, so many seconds ago."""
    run = runs.create(folder, "digits")
    culprits = {phone: f"{phone} hung" for phone in phones}
    verdict = Verdict("failed", "hung", culprits, None, {}, "phones")
    run.record("attempt-ended", **verdict.as_json())
    if before:
        text = run.events_file.read_text()
        moment = run.events()[0]["time"]
        run.events_file.write_text(text.replace(str(moment), str(moment - before)))
    return run


def drained(state: State, now: float | None = None) -> set[str]:
    return {name for name, facts in state.phones(now).items() if facts.drains}


def test_the_second_failure_within_a_day_drains_for_a_while(tmp_path: Path, state: State) -> None:
    first = failed(tmp_path / "runs", "phone001", "phone002")
    cool_down(state, first, {"phone001": "it hung", "phone002": "it hung"})
    assert drained(state) == set()
    second = failed(tmp_path / "runs", "phone001")
    cool_down(state, second, {"phone001": "it hung"})
    assert drained(state) == {"phone001"}
    (drain,) = state.phones()["phone001"].drains
    assert (drain.who, drain.origin) == (cooling.WHO, "check")
    assert drain.why == "failed 2 times within a day, the last time: it hung"
    assert drained(state, drain.since + cooling.FIRST_SECONDS + 1) == set()
    assert second.events()[-1]["kind"] == "cooling"


def test_what_was_longer_ago_than_a_day_is_forgotten(tmp_path: Path) -> None:
    failed(tmp_path / "runs", "phone001", before=2 * cooling.REMEMBERED_SECONDS)
    run = failed(tmp_path / "runs", "phone001")
    now = run.events()[0]["time"]
    found = failures(tmp_path / "runs", ["phone001"], now - cooling.REMEMBERED_SECONDS)
    assert found == {"phone001": [now]}


def test_each_failure_doubles_the_rest_up_to_a_limit() -> None:
    rests = [cool_down_seconds([0.0] * count) for count in range(1, 9)]
    assert rests[:3] == [0.0, cooling.FIRST_SECONDS, 2 * cooling.FIRST_SECONDS]
    assert rests[-1] == cooling.MOST_SECONDS
