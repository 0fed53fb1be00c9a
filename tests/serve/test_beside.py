"""What the fleet exporter tells of guard and of runs that failed."""

from __future__ import annotations

import os
from typing import Any

import pytest

from fleetctl.guard.kept import Kept
from fleetctl.guard.memory import Latch, Memory, OpenCall, PhoneMemory
from fleetctl.jobs.runs import RunFolder
from fleetctl.serve.beside import RECENT_SECONDS, GuardSeen, Watch, guard_seen


def test_of_a_guard_that_never_ran_nothing_is_told(paper: Any) -> None:
    assert guard_seen(paper.paths, 1000.0) is None


def test_guard_is_seen_by_what_it_keeps(paper: Any) -> None:
    kept = Kept(paper.paths)
    kept.make()
    memory = Memory(1000.0)
    memory.phones["phone001"] = PhoneMemory(990.0, latch=Latch("52 °C", 995.0))
    memory.phones["phone002"] = PhoneMemory(990.0)
    memory.calls["latched:phone001"] = OpenCall("latched", "phone001", "hot", 995.0)
    kept.save(memory.to_json())
    os.utime(kept.folder / "memory.json", (1990.0, 1990.0))
    seen = GuardSeen(1990.0, {"latched": 1}, 1)
    assert guard_seen(paper.paths, 2000.0) == seen, "its own clock may be another one"
    (kept.folder / "memory.json").write_text("{")
    assert guard_seen(paper.paths, 2000.0) is None


def failed(paper: Any, name: str, reason: str, state: str = "failed") -> float:
    """A run that is over; when it ended."""
    run = paper.run(name)
    run.path.mkdir(parents=True)
    run.record("created", phones=["phone001"])
    run.record("ended", state=state, reason=reason)
    ended: float = run.summary().ended
    return ended


def test_failed_runs_are_counted_by_cause_for_an_hour(paper: Any) -> None:
    failed(paper, "digits-1", "rank 3 on phone004: its loss is not finite in iteration 7")
    failed(paper, "digits-2", "phone003 is dead")
    failed(paper, "digits-3", "stopped by the operator", state="stopped")
    ended = failed(paper, "digits-4", "phone003 is dead")
    watch = Watch(paper.paths)
    assert watch.look(ended + 1).failed == {"not-finite": 1, "other": 2}
    assert watch.look(ended + RECENT_SECONDS).failed == {}


def test_a_run_trains_from_its_start_to_its_end_if_it_has_a_plan(paper: Any) -> None:
    for name in ("digits-1", "program-1"):
        run = paper.run(name)
        run.path.mkdir(parents=True)
        run.record("created", phones=["phone001"])
    digits, program = paper.run("digits-1"), paper.run("program-1")
    digits.plan_file.write_text("{}")
    watch = Watch(paper.paths)

    def trains(moment: float) -> Any:
        return watch.look(1000.0 * moment).training

    assert trains(1) == [], "its data is on the way"
    digits.record("started", head="phone001", pid=1)
    program.record("started", head="phone001", pid=1)
    assert trains(2) == ["digits-1"]
    digits.record("attempt-ended", reason="phone003 is dead")
    digits.record("attempt", number=2, phones=["phone001"])
    assert trains(3) == ["digits-1"], "with its second attempt's plan not made yet"
    digits.record("ended", state="done")
    assert trains(4) == []


def test_runs_that_cannot_be_read_leave_guard_and_are_no_zero(
    paper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = failed(paper, "digits-1", "phone003 is dead")
    kept = Kept(paper.paths)
    kept.make()
    kept.save(Memory(1000.0).to_json())
    watch = Watch(paper.paths)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "summary", unreadable)
        for later in (1, 2):  # the second look is of the same moment
            seen = watch.look(ended + later)
            assert (seen.failed, seen.training, seen.trouble) == (None, None, "input/output error")
            assert seen.guard is not None
    assert watch.look(ended + 60).failed == {"other": 1}


def unreadable(_: RunFolder) -> Any:
    raise OSError("input/output error")


def test_a_look_is_not_repeated_at_once_and_a_removed_run_is_forgotten(paper: Any) -> None:
    ended = failed(paper, "digits-1", "phone003 is dead")
    watch = Watch(paper.paths)
    assert watch.look(ended).failed == {"other": 1}
    (paper.run("digits-1").events_file).unlink()
    paper.run("digits-1").path.rmdir()
    assert watch.look(ended + 1).failed == {"other": 1}
    assert watch.look(ended + 60).failed == {}


def test_the_trainers_own_words_are_known(paper: Any) -> None:
    from pathlib import Path

    from fleetctl.serve.beside import cause

    loop = (Path(__file__).resolve().parents[2] / "trainer/loop.py").read_text()
    said = [line for line in loop.splitlines() if "not finite" in line]
    assert {cause(line) for line in said} == {"not-finite"}
    assert cause(None) == cause("phone003 is dead") == "other"
