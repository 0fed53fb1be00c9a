"""The exchange as DDP's communication hook."""

from __future__ import annotations

import re
from pathlib import Path

import mpi
import pytest

from trainer import ddp_hook
from trainer.formats import Exchange, ModelSpec, Plan, PlanError

HERE = Path(__file__).parent
SCRIPT = ModelSpec("script")


def a_plan(*samples: int, **changes: object) -> Plan:
    return mpi.a_plan(*samples, model=SCRIPT, **changes)


def test_ddp_with_the_hook_trains_as_without(tmp_path: Path) -> None:
    run = mpi.train(a_plan(16, 16, 16), tmp_path, HERE / "hook_ranks.py")
    assert {final.status for final in run.finals} == {"done"}, run.output
    for rank in range(3):
        assert f"rank {rank}: equal" in run.output
    assert [event.iteration for event in run.events("iteration")] == [1, 2, 3, 4, 5]


@pytest.mark.soak
def test_the_shipped_example_learns_with_half_the_bytes(tmp_path: Path) -> None:
    plan = a_plan(16, 16, 16, exchange=Exchange(codec="half"))
    run = mpi.train(plan, tmp_path, mpi.PROJECT / "examples/jobs/ddp_hook.py")
    accuracies = [float(found) for found in re.findall(r"test accuracy ([\d.]+)%", run.output)]
    assert len(accuracies) == 3, run.output
    assert min(accuracies) > 85


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        (Exchange(reduce="gloo"), "exchange.reduce gloo: that is DDP without a hook"),
        (Exchange(enabled=False), "exchange.enabled=false"),
    ],
)
def test_what_a_hook_cannot_do_is_refused(exchange: Exchange, why: str) -> None:
    with (
        pytest.raises(PlanError, match=f"ddp_hook and {why}"),
        ddp_hook(a_plan(16, exchange=exchange)),
    ):
        pass


def test_a_program_that_fails_inside_leaves_its_word_on_every_rank(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from trainer import ddp_hook\nwith ddp_hook():\n    raise ValueError('lost')\n"
    )
    run = mpi.train(a_plan(8, 8), tmp_path, program)
    assert run.status != 0
    assert {final.reason for final in run.finals} == {"ValueError: lost"}
