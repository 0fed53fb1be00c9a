"""The matrix of racks: each case is one run of the molecule scenario `matrix`.

`make test` draws one case by lot; `make soak` runs all. The lot's seed is the commit, so that a
result can be had again and every change is tried on other cases; PHONERACK_SEED is another.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CASES = sorted(path.parent.name for path in PROJECT.glob("molecule/matrix/cases/*/rack.yml"))
SAMPLE = 1
LONG = {
    *("add", "dead-phone", "failing-canary", "interrupted", "limit", "remove", "skip-tags"),
    *("virgin-check", "empty-group"),
}
"""Of three runs of site.yml and more, or without a second one that may change nothing: only in
`make soak`."""


def seed() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    return os.environ.get("PHONERACK_SEED") or commit.stdout.strip() or "1"


def cases() -> list[object]:
    drawn = random.Random(seed()).sample(sorted({*CASES} - LONG), SAMPLE)  # noqa: S311
    return [
        *(pytest.param(case, marks=pytest.mark.standin, id=f"drawn-{case}") for case in drawn),
        *(pytest.param(case, marks=pytest.mark.soak, id=case) for case in CASES),
    ]


def test_every_case_has_steps() -> None:
    assert CASES
    for case in CASES:
        assert (PROJECT / f"molecule/matrix/cases/{case}/steps.yml").is_file(), case


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", cases())
def test_site_copes_with(case: str) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("molecule"), "test", "-s", "matrix"],
        cwd=PROJECT,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PHONERACK_CASE": case,
            "PHONERACK_SEED": seed(),
            "NO_COLOR": "1",
        },
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"seed {seed()}\n{done.stdout[-8000:]}\n{done.stderr[-4000:]}"
