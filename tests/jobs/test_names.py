"""Names of runs that a person chooses, and durations as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.jobs import names
from fleetctl.jobs.jobfile import JobError, duration_seconds, duration_words


def test_a_whole_name_is_claimed_once(tmp_path: Path) -> None:
    assert names.is_whole("digits-7")
    assert not names.is_whole("digits")
    assert names.claim(tmp_path / "runs", "digits-7").name == "digits-7"
    names.claim(tmp_path / "runs", "digits-12")

    with pytest.raises(JobError, match="digits-7 already; the next free name is digits-13"):
        names.claim(tmp_path / "runs", "digits-7")
    assert names.next_free(tmp_path / "runs", "other") == "other-1"


@given(st.integers(1, 366 * 86400))
def test_durations_are_read_as_they_are_written(seconds: int) -> None:
    assert duration_seconds(duration_words(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("90m", 5400), ("1h30m", 5400), ("45s", 45), ("2d", 172800), ("60", 60)]
)
def test_durations_of_people(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "1h30", "-5", "0", "30m1h", "nan", "1e9", "inf"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration_seconds(text)
