"""How people write moments, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cli.moments import parse_until
from fleetctl.errors import ExitCode
from fleetctl.rack import InputError

NOW = datetime(2027, 3, 1, 12, 0, 30).timestamp()


def after(text: str) -> float:
    return parse_until(text, NOW) - NOW


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("90m", 5400), ("1.5h", 5400), ("2d12h", 216_000), ("1w", 604_800)],
)
def test_spans_count_from_now(text: str, seconds: float) -> None:
    assert after(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("18:30", datetime(2027, 3, 1, 18, 30)),
        ("9:05", datetime(2027, 3, 2, 9, 5)),
        ("2027-03-04", datetime(2027, 3, 4)),
        ("2027-03-04 18:30", datetime(2027, 3, 4, 18, 30)),
    ],
)
def test_times_are_this_machines(text: str, moment: datetime) -> None:
    assert parse_until(text, NOW) == moment.timestamp()


@pytest.mark.parametrize("text", ["2027-03-01 12:00", "2026-03-01", "0s"])
def test_what_is_over_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is over already: write a span such as 90m"):
        parse_until(text, NOW)


@pytest.mark.parametrize("text", ["", "soon", "90", "25:00", "-2h", "2027-13-01", "9" * 30 + "d"])
def test_what_is_no_moment_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(InputError, match="is no moment: write a span such as 90m") as caught:
        parse_until(text, NOW)
    assert caught.value.exit_code == ExitCode.BAD_INPUT


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_spans_add_up(days: int, minutes: int) -> None:
    wanted = timedelta(days=days, minutes=minutes).total_seconds()
    assert after(f"{days}d{minutes}m") == pytest.approx(wanted)
