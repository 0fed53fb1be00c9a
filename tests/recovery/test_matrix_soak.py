"""The fault matrix: every kind of fault at ten random moments of a training on eight phones."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from which_rack import NAME, SUBNET

from fleetctl.rack import RackPaths, load_rack

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "benchmarks/recovery"))

import matrix  # noqa: E402
from table import write_table  # noqa: E402

pytestmark = [pytest.mark.standin, pytest.mark.soak]

RESULTS = PROJECT / "docs/figures/recovery.jsonl"
NOTICED_WITHIN_SECONDS = 30.0
ROUNDING = 0.01
"""Of the first loss: sums in another order, 50 iterations later. A sample that is seen twice, a
step that is made twice or a lost momentum is beyond."""


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A provisioned rack of eight."""
    from conftest import RackUnderTest

    home = tmp_path_factory.mktemp("matrix")
    base = home / "base.yml"
    shipped = (PROJECT / "inventory/standin.yml").read_text()
    base.write_text(shipped.replace("10.138.0.", f"{SUBNET}.").replace(": standin", f": {NAME}"))
    rack = RackUnderTest(home, base)
    with pytest.MonkeyPatch.context() as patch:
        try:
            rack.fleetctl("standin", "up", "--phones", "8", "--switches", "2", timeout=1800)
            rack = dataclasses.replace(rack, file=home / NAME / "rack.yml")
            rack.playbook()
            rack.fleetctl("data", "add", "digits")
            for name in ("PHONERACK_HOME", "PHONERACK_RACK"):
                patch.setitem(os.environ, name, rack.env[name])
            yield load_rack(rack.file)
        finally:
            rack.fleetctl("standin", "down")


@pytest.fixture(scope="module")
def calm(rack: Any) -> dict[int, float]:
    return matrix.undisturbed(rack, RackPaths(rack.name))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("moment", range(matrix.MOMENTS))
@pytest.mark.parametrize("kind", matrix.KINDS)
def test_a_training_survives(rack: Any, calm: dict[int, float], kind: str, moment: int) -> None:
    cell = matrix.play(rack, RackPaths(rack.name), kind, moment, calm)
    with RESULTS.open("a") as file:
        file.write(json.dumps(cell.as_json()) + "\n")
    write_table(matrix.lines(RESULTS), list(matrix.KINDS), PROJECT / "docs/figures.md")
    assert cell.finished
    assert cell.right, (cell.hurt, cell.named)
    assert cell.left_over == ()
    assert cell.noticed_seconds is None or cell.noticed_seconds <= NOTICED_WITHIN_SECONDS
    assert cell.recovered_seconds is None or cell.recovered_seconds <= 2 * cell.cold_seconds
    assert (cell.deviation or 0.0) <= ROUNDING
    damaged = kind == "checkpoint-corrupted"
    assert (cell.lost_iterations or 0) <= matrix.EVERY * (2 if damaged else 1)
