"""Whom Android's phantom-process killer takes, and where it does not run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standin.android.fresh import boxed, enrolled
from standin.android.state import AndroidState, StateFile, write_state
from standin.phantoms import Child, excess

children = st.lists(
    st.builds(Child, pid=st.integers(2, 99_999), started_ticks=st.integers(0, 10**9)),
    unique_by=lambda child: child.pid,
    max_size=60,
)


@given(children, st.integers(0, 40))
def test_as_many_as_are_allowed_stay_and_none_that_is_older_than_one_killed(
    found: list[Child], limit: int
) -> None:
    killed = excess(found, limit)
    stay = [child for child in found if child not in killed]
    assert len(stay) == min(limit, len(found))
    assert all(old.started_ticks <= young.started_ticks for old in killed for young in stay)


def made(api_level: int) -> AndroidState:
    return enrolled(
        api_level, "arm64-v8a", 10_001, wired=True, time_server="10.0.0.2", signer="signer"
    )


@pytest.mark.parametrize(("level", "limit"), [(28, None), (30, None), (31, 32), (32, 32), (35, 32)])
def test_it_runs_from_android_12_on_until_the_setting_is_made(
    level: int, limit: int | None
) -> None:
    assert boxed(level, "arm64-v8a", 10_001).phantom_limit == limit
    assert (made(level).phantom_limit or 2**31) > 10_000


def test_who_looks_often_reads_android_only_when_it_has_changed(tmp_path: Path) -> None:
    file = StateFile(tmp_path)
    assert not file.changed()
    write_state(tmp_path, made(31))
    assert file.changed()
    assert file.state == made(31)
    assert not file.changed()
