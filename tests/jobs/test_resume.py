"""A run that is resumed: on the phones that are left, and without a trace when it is only tried."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from loopback_phones import Listen, Loopback
from test_checkpoints import PAYLOAD, write

from fleetctl.checks.phone import PhoneFacts
from fleetctl.cli import launch as command
from fleetctl.cli.common import App
from fleetctl.errors import ExitCode
from fleetctl.jobs import launch, runs
from fleetctl.jobs.choose import Again, NotEnoughPhones, Wish
from fleetctl.jobs.jobfile import Job, write_job
from fleetctl.jobs.launch import Chosen, Room
from fleetctl.jobs.runs import RunFolder
from fleetctl.remote import Fleet
from fleetctl.state import State
from trainer.formats import MemoryNeed

TRAIN = {
    "model": "digits-cnn",
    "data": "digits",
    "epochs": 1,
    "global_batch": 8,
    "optimizer": {"name": "sgd", "lr": 0.1},
}
Look = Callable[[Wish], Chosen]

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    path = tmp_path / "rack.yml"
    path.write_text(RACK)
    return App(str(path))


def ended(folder: Path, *phones: str) -> RunFolder:
    run = runs.create(folder, "digits")
    write_job(Job(name="digits", phones=str(len(phones)), command=["true"]), run.job_file)
    run.record("created", phones=phones)
    run.record("ended", state="failed", reason=f"{phones[-1]} died")
    return run


def wish_of(app: App, **options: Any) -> Wish:
    every = ["job_file", "resume", "name", "count", "phones", "priority", "time_limit"]
    return command._request(app, None, dict.fromkeys(every) | options).wish


def test_a_resumed_run_takes_what_is_ready_unless_told_otherwise(app: App) -> None:
    run = ended(app.paths.runs, "phone001", "phone002", "phone003")
    with_spare = ended(app.paths.runs, "phone001", "phone002")
    job = Job.model_validate({"name": "digits", "phones": "2", "spares": 1, "train": TRAIN})
    write_job(job, with_spare.job_file)
    assert wish_of(app, resume=run.name) == Wish(limit=3)
    assert wish_of(app, resume=run.name, count=2) == Wish(count=2)
    assert wish_of(app, resume=with_spare.name) == Wish(limit=2, spares=1)
    assert wish_of(app, resume=run.name, phones="phone005") == Wish(named=("phone005",))


@pytest.mark.parametrize(
    ("wish", "taken"),
    [
        (Wish(limit=3), ("phone001", "phone002", "phone004")),
        (Wish(limit=6), ("phone001", "phone002", "phone004", "phone005", "phone006")),
        (Wish(), ("phone001", "phone002", "phone004", "phone005", "phone006")),
        (Wish(count=4), ("phone001", "phone002", "phone004", "phone005")),
    ],
)
def test_a_dead_phone_is_passed_over(look: Look, wish: Wish, taken: tuple[str, ...]) -> None:
    assert look(wish).phones == taken


def test_spares_of_named_phones_are_any_others_that_pass(look: Look) -> None:
    chosen = look(Wish(named=("phone001", "phone002"), spares=2))
    assert (chosen.phones, chosen.spares) == (("phone001", "phone002"), ("phone004", "phone005"))
    with pytest.raises(NotEnoughPhones, match="2 phones wanted, 1 ready"):
        look(Wish(named=("phone001", "phone003"), spares=2))


@pytest.fixture
def look(app: App, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Chooses phones where phone003 is dead."""

    async def gather(_: Any, __: Any, names: Any, **___: Any) -> dict[str, PhoneFacts]:
        return {name: PhoneFacts(name, app.rack.phones[name].address) for name in names}

    monkeypatch.setattr("fleetctl.jobs.launch.preflight.gather", gather)
    monkeypatch.setattr("fleetctl.jobs.launch.preflight.judge", lambda facts, _: dict(facts))
    monkeypatch.setattr(
        "fleetctl.jobs.launch._failures",
        lambda facts: {"phone003": "dead"} if "phone003" in facts else {},
    )
    monkeypatch.setattr("fleetctl.jobs.launch._tell", lambda *_: None)
    fleet: Any = None
    room = Room(fleet, app.rack, app.state, app.paths, lambda _: None)
    return lambda wish: asyncio.run(launch.choose_phones(room, wish, dry=True))


def test_a_phone_without_memory_for_a_rank_is_passed_over_in_a_further_attempt(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"phone001": 700, "phone002": 900, "phone003": None}

    async def gather(_: Any, __: Any, names: Any, **___: Any) -> dict[str, PhoneFacts]:
        return {
            name: PhoneFacts(name, "", free_memory_bytes=free[name])
            for name in names
            if name in free
        }

    monkeypatch.setattr("fleetctl.jobs.launch.preflight.gather", gather)
    monkeypatch.setattr("fleetctl.jobs.launch.preflight.judge", lambda *_: {})
    fleet: Any = None
    remarks: list[str] = []
    room = Room(fleet, app.rack, app.state, app.paths, remarks.append)
    again = Again("digits-1", (), memory=MemoryNeed(300, 400, 100, 20))
    chosen = asyncio.run(launch.choose_phones(room, Wish(limit=3), dry=True, again=again))
    assert chosen.phones == ("phone002", "phone003")
    assert "passed over: phone001: a rank of this run needs" in remarks[0]


@pytest.fixture
def phone_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of phone001 with a good checkpoint there, and a newer one that was cut off."""
    phone = tmp_path / "phone"
    monkeypatch.setattr("fleetctl.jobs.onphone.RUNS", str(phone))
    run = ended(tmp_path / "runs", "phone001")
    (run.path / "plan.json").touch()
    monkeypatch.setattr(RunFolder, "plan", lambda _: SimpleNamespace())
    write(phone / run.name / "checkpoints", 20)
    write(phone / run.name / "checkpoints", 30, PAYLOAD[:-1])
    write(run.checkpoints, 10)
    return run


def test_a_look_for_a_checkpoint_leaves_the_old_run_as_it_is(
    phone_run: RunFolder, loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    remarks: list[str] = []

    async def look(fleet: Fleet) -> str:
        with State(tmp_path / "state.db") as state:
            rack: Any = None
            room = Room(fleet, rack, state, rack, remarks.append)
            return await launch.look_for_checkpoint(room, phone_run)

    async def go() -> str:
        async with listen("phone001"), loopback.fleet() as fleet:
            return await look(fleet)

    before = sorted(phone_run.path.rglob("*")), phone_run.events()
    assert asyncio.run(go()) == "iteration-00000020.ckpt"
    assert (sorted(phone_run.path.rglob("*")), phone_run.events()) == before
    assert any("iteration-00000030.ckpt of phone001 not used" in said for said in remarks)


def test_a_terminal_that_closes_before_the_start_is_no_success(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closing(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(60)

    monkeypatch.setattr("fleetctl.cli.launch._launch", closing)
    # As nohup wishes is how a test run may have been started.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        done = CliRunner().invoke(command.command, ["--", "true"], obj=app)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.exit_code == ExitCode.INTERRUPTED
