"""Old runs go by themselves, from the controller and from phones; what may be wanted stays."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.jobs import onphone, retention, runs
from fleetctl.jobs.jobfile import Job, write_job
from fleetctl.jobs.retention import (
    KEPT_RUNS,
    KEPT_SECONDS,
    MOST_RUNS,
    RESUMABLE_SECONDS,
    Kept,
    expired,
    leftovers,
)
from fleetctl.jobs.room import Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError
from fleetctl.remote import Fault, PhoneError, Result

DAY = 86400.0
NOW = 1000 * DAY


def over(count: int, age_seconds: float) -> list[Kept]:
    """So many that ended so long ago, the first one last."""
    return [Kept(f"a-{n}", NOW - age_seconds - n) for n in range(1, count + 1)]


def test_the_newest_stay_however_old() -> None:
    assert expired(over(KEPT_RUNS, 365 * DAY), NOW) == []


def test_others_stay_for_a_while_and_go_then() -> None:
    assert expired(over(KEPT_RUNS + 3, KEPT_SECONDS - DAY), NOW) == []
    # The highest number stays, so that no run is ever called like one that was.
    assert expired(over(KEPT_RUNS + 3, KEPT_SECONDS + DAY), NOW) == ["a-51", "a-52"]


def test_of_very_many_only_those_of_a_day_stay() -> None:
    many = over(MOST_RUNS + 3, 2 * DAY)
    assert expired(many, NOW) == [f"a-{MOST_RUNS + 1}", f"a-{MOST_RUNS + 2}"]
    assert expired(over(MOST_RUNS + 3, DAY / 2), NOW) == []


def test_what_is_not_over_or_may_be_wanted_stays() -> None:
    old = [*over(KEPT_RUNS, DAY), Kept("open-1", None), Kept("failed-1", 0.0, wanted=True)]
    old += [Kept("done-1", 0.0), Kept("done-2", 0.0)]
    assert expired(old, NOW) == ["done-1"]


def test_what_could_be_resumed_stays_a_season_and_takes_no_others_place() -> None:
    def resumable(name: str, age_seconds: float) -> Kept:
        return Kept(name, NOW - age_seconds, resumable=True)

    many = over(KEPT_RUNS, KEPT_SECONDS + DAY)
    young = [resumable(f"b-{n}", RESUMABLE_SECONDS - DAY) for n in range(3)]
    old = [resumable(f"c-{n}", RESUMABLE_SECONDS + DAY) for n in range(3)]
    # The highest number of a name stays, here too.
    assert expired([*many, *young, *old], NOW) == ["c-0", "c-1"]


def made(
    folder: Path, name: str, state: str, *, checkpoint: bool = False, resumed: str | None = None
) -> RunFolder:
    run = RunFolder(folder / name)
    run.path.mkdir(parents=True)
    run.record("created", phones=["phone001", "phone002"], resumed_from=resumed)
    if state != "running":
        run.record("ended", state=state)
    if checkpoint:
        run.checkpoints.mkdir()
        (run.checkpoints / "iteration-10.ckpt").touch()
    return run


def test_what_a_run_is_kept_for_is_read_from_its_folder(tmp_path: Path) -> None:
    made(tmp_path, "a-1", "running")
    made(tmp_path, "a-2", "done", checkpoint=True)
    made(tmp_path, "a-3", "failed", checkpoint=True)
    made(tmp_path, "a-4", "failed")
    made(tmp_path, "a-5", "stopped")
    (tmp_path / "queued-1").mkdir()
    found = {run.name: run for run in retention.look(tmp_path, ["a-5"])}
    assert [name for name, run in found.items() if run.wanted] == ["a-5"]
    assert [name for name, run in found.items() if run.resumable] == ["a-3"]
    assert sorted(name for name, run in found.items() if run.ended) == ["a-2", "a-3", "a-4"]


def test_a_run_that_another_has_gone_on_from_is_not_kept_for_that(tmp_path: Path) -> None:
    for name in ("a-1", "b-1", "c-1"):
        made(tmp_path, name, "failed", checkpoint=True)
    made(tmp_path, "a-2", "done", resumed="a-1")
    made(tmp_path, "b-2", "failed", checkpoint=True, resumed="b-1")
    made(tmp_path, "c-2", "failed", resumed="c-1")  # it came to nothing, and has none itself
    kept = {run.name for run in retention.look(tmp_path) if run.resumable}
    assert kept == {"b-2", "c-1"}


def test_a_job_that_never_ran_and_that_the_queue_has_lost_goes_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "KEPT_RUNS", 0)
    folder = tmp_path / "runs"
    for name in ("a-1", "a-2", "a-3", "notes"):
        (folder / name).mkdir(parents=True)
    for name in ("a-1", "a-2", "a-3"):
        write_job(Job(name="a", command=["true"]), folder / name / "job.yml")
    made_at = (folder / "a-1/job.yml").stat().st_mtime
    assert retention.prune_controller(folder, now=made_at + KEPT_SECONDS - DAY) == []
    assert retention.prune_controller(folder, ["a-2"], now=made_at + KEPT_SECONDS + DAY) == ["a-1"]
    assert sorted(path.name for path in folder.iterdir()) == ["a-2", "a-3", "notes"]


def test_a_run_that_is_looked_after_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "KEPT_RUNS", 0)
    folder = tmp_path / "runs"
    first, _, _ = (made(folder, f"a-{n}", "done") for n in (1, 2, 3))
    later = NOW * 100
    with first.supervise():
        assert retention.prune_controller(folder, now=later) == ["a-2"]
    (tmp_path / ".pruned-a-9").mkdir()  # a process was killed here
    assert retention.prune_controller(folder, now=later) == ["a-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    assert [run.name for run in runs.all_runs(folder)] == ["a-3"]


KNOWN = {
    **{f"a-{n}": Kept(f"a-{n}", 1.0) for n in range(1, 9)},
    "b-1": Kept("b-1", None),
    "c-1": Kept("c-1", 1.0, wanted=True),
    "d-1": Kept("d-1", 1.0, resumable=True),
}


def test_a_phone_keeps_the_newest_and_what_is_wanted() -> None:
    listing = ["2000000", *[f"{1000 + n} a-{n}" for n in range(1, 9)]]
    listing += ["1999000 a-7.2"]  # of today
    listing += ["900 a-8.2", "10 b-1", "10 b-1.stage", "10 c-1.3", "10 d-1"]
    assert leftovers("\n".join(listing), KNOWN) == ["a-4", "a-3", "a-2", "a-1", "a-8.2"]


def test_what_nobody_knows_stays_a_week_by_the_phones_own_clock() -> None:
    week = 7 * DAY
    listing = f"{week + 100:.0f}\n50 x-1\n50 .x-2.ab12.part\n150 y-1\n50 ..\n50 a b\n50 .\n"
    assert leftovers(listing, {}) == ["x-1", ".x-2.ab12.part"]


def test_the_words_for_the_phone_are_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onphone, "RUNS", str(tmp_path / "none"))
    shell = ["sh", "-c"]
    assert len(subprocess.check_output([*shell, onphone.list_runs()]).split()) == 1
    monkeypatch.setattr(onphone, "RUNS", str(tmp_path))
    for name in ("a-1", "a-1.2", ".a-3.cd.part"):
        (tmp_path / name).mkdir()
    listing = subprocess.check_output([*shell, onphone.list_runs()], text=True)
    assert sorted(line.split()[1] for line in listing.splitlines()[1:]) == [
        *(".a-3.cd.part", "a-1", "a-1.2")
    ]
    subprocess.run([*shell, onphone.remove_runs(["a-1", ".a-3.cd.part"])], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a-1.2"]


class Phones:
    """Phones whose folders of runs are folders here; phone002 does not answer."""

    def __init__(self, listing: str) -> None:
        self.listing, self.removed = listing, list[str]()

    async def run(self, names: Any, *_: Any, **__: Any) -> dict[str, Result]:
        away = PhoneError("phone002", Fault.UNREACHABLE, "phone002 is unreachable")
        said = {name: Result(0, self.listing) for name in names}
        return said | ({"phone002": Result(None, error=away)} if "phone002" in said else {})

    async def run_on(self, _: str, command: str, **__: Any) -> Result:
        self.removed.append(command.rpartition(" -- ")[2])
        return Result(0)


def test_a_person_may_name_a_run_that_is_over(tmp_path: Path) -> None:
    made(tmp_path / "runs", "a-1", "running")
    made(tmp_path / "runs", "a-2", "failed", checkpoint=True)
    phones: Any = Phones("100\n1 a-1\n1 a-2\n1 a-2.2\n1 a-2.5-3\n1 a-2.stage")
    rack: Any = SimpleNamespace(phones={"phone001": 0, "phone002": 0})
    paths: Any = SimpleNamespace(runs=tmp_path / "runs")
    state: Any = None
    room = Room(phones, rack, state, paths, print)
    for name, queued in (("a-1", set()), ("a-2", {"a-2"})):
        with pytest.raises(InputError, match="not over"):
            asyncio.run(retention.prune(room, queued, name))
    done = asyncio.run(retention.prune(room, set(), "a-2"))
    assert (done.runs, done.folders) == (["a-2"], {"phone001": 3})
    assert done.failed == {"phone002": "phone002 is unreachable"}
    # `a-2.5-3` is a run of another name.
    assert phones.removed == ["a-2 a-2.2 a-2.stage"]
    assert not (tmp_path / "runs/a-2").exists()
