"""guard's commands as a person calls them: status, clear, replay."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from desk import Desk

from fleetctl.cli.main import cli
from fleetctl.guard.journal import Journal
from fleetctl.guard.kept import GuardRuns, Kept
from fleetctl.guard.memory import Memory
from fleetctl.rack import InputError, Rack, RackPaths
from fleetctl.state import State

RACK = """\
rack: lab
network: {cidr: 192.0.2.0/24, medium: wifi}
phones: [192.0.2.20-22]
power: {command: [hub, "{state}", "{outlet}"], outlets: {a: phone001, strip: "phone[002-003]"}}
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RackPaths:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(tmp_path / "rack.yml"))
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "rack.yml").write_text(RACK)
    made = RackPaths("lab")
    made.ensure()
    return made


def guard(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["guard", *arguments])


def status() -> Result:
    """`return_value` is the exit code, as main takes it."""
    return CliRunner().invoke(cli, ["guard", "status"], standalone_mode=False)


def latched(paths: RackPaths) -> Memory:
    """A rack of which phone001 was latched a moment ago."""
    desk = Desk()
    desk.now = time.time() - 30
    desk.memory = Memory(desk.now)
    desk.celsius["phone001"] = 51.0
    desk.go(20)
    kept = Kept(paths)
    kept.make()
    kept.save(desk.memory.to_json())
    return desk.memory


def test_status_says_that_nobody_watches(paths: RackPaths) -> None:
    done = status()
    assert done.return_value == 1
    assert "no guard watches this rack: start `fleetctl guard`" in done.stderr
    assert "phone001" in done.stdout


def test_status_shows_what_is_cut_off_and_whom_guard_calls(paths: RackPaths) -> None:
    latched(paths)
    with Kept(paths).alone():
        done = status()
        document = json.loads(guard("status", "-o", "json").stdout)
    assert done.return_value == 3
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("phone001")]
    assert row.split()[:5] == ["phone001", "51.0", "50%", "off", "a"]
    assert "LATCHED" in row
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "! latched: phone001: its battery had 51.0 °C" in done.stderr
    assert document["schema"] == 1
    first, second, _ = document["phones"]
    assert first["latched"] == "its battery had 51.0 °C (limit 50)"
    assert second["outlet"] == "strip"
    assert document["process"]
    assert [call["what"] for call in document["calls"]] == ["latched"]


def test_status_says_of_which_calls_nobody_has_heard(paths: RackPaths, tmp_path: Path) -> None:
    memory = latched(paths)
    (call,) = memory.calls.values()
    call.reached, call.said, call.tries = False, "exit code 1: no route", 7
    Kept(paths).save(memory.to_json())
    (line,) = [line for line in status().stderr.splitlines() if line.startswith("! latched")]
    assert not line.endswith(")"), "it is called for in the log alone"
    (tmp_path / "rack.yml").write_text(RACK + "guard: {call: [page]}\n")
    (line,) = [line for line in status().stderr.splitlines() if line.startswith("! latched")]
    assert line.endswith("(tried 7 times: exit code 1: no route)")


def test_a_guard_watches_whose_clock_is_not_this_machines(paths: RackPaths) -> None:
    """It began before this machine had the time."""
    desk = Desk()
    desk.go(20)
    Kept(paths).make()
    Kept(paths).save(desk.memory.to_json())
    with Kept(paths).alone():
        done = status()
        document = json.loads(guard("status", "-o", "json").stdout)
    assert done.return_value == 0
    assert document["decided_seconds"] < 60
    assert document["phones"][0]["heard_seconds"] < 60


def test_a_second_guard_is_refused(paths: RackPaths) -> None:
    with Kept(paths).alone():
        done = guard()
    assert isinstance(done.exception, GuardRuns)
    assert done.exception.exit_code == 5


def test_clear_needs_a_reason_and_something_to_clear(paths: RackPaths) -> None:
    assert guard("clear", "phone001").exit_code == 2
    for words, expected in (
        (("phone001", "--why", "x"), "phone001 is not cut off by guard"),
        (("phone001", "--why", " "), "--why needs a reason"),
        (("phone[001-002]", "--why", "x"), "is 2 phones; name one"),
        (("phone009", "--why", "x"), "no phone phone009 in this rack"),
    ):
        done = guard("clear", *words)
        assert isinstance(done.exception, InputError)
        assert expected in str(done.exception)


def test_clear_leaves_word_for_the_guard_that_comes(paths: RackPaths) -> None:
    latched(paths)
    done = guard("clear", "phone001", "--why", "new battery")
    assert done.exit_code == 0
    assert "cleared as soon as `fleetctl guard` runs again" in done.stderr
    (why,) = Kept(paths).clears().values()
    assert why.startswith("new battery (")


def test_clear_says_when_the_guard_does_not_take_it_up(
    paths: RackPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetctl.cli.guard.CLEAR_LIMIT_SECONDS", 0.1)
    latched(paths)
    with Kept(paths).alone():
        done = guard("clear", "phone001", "--why", "new battery")
    assert isinstance(done.exception, InputError)
    assert "does not take it up; restart it" in str(done.exception)


def test_a_recorded_day_under_other_limits(paths: RackPaths, tmp_path: Path) -> None:
    desk = Desk()
    journal = Journal(tmp_path / "days", warn_celsius=40)
    journal.begin(desk.now, desk.memory)
    desk.journal = journal
    desk.celsius["phone001"] = 41.0
    desk.go(20)
    journal.close()
    (day,) = (tmp_path / "days").glob("*.jsonl")
    plain = guard("--replay", str(day))
    assert plain.stdout.splitlines() == [f"{_clock(desk.now - 19)} phone001: warm: 41.0 °C"]

    file = tmp_path / "rack.yml"
    file.write_text(RACK + "guard: {warn_celsius: 30, drain_celsius: 35, cut_celsius: 40}\n")
    document = json.loads(guard("--replay", str(day), "-o", "json").stdout)
    done = [line["do"] for line in document["decisions"]]
    assert {"drain", "kill", "switch", "call"} <= set(done)
    last = document["decisions"][-1]
    assert (last["do"], last["what"]) == ("call", "latched"), "its cut is taken to have worked"
    with State(paths.state_db) as state:
        assert state.phones() == {}


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment))


def test_a_file_that_is_no_day_is_refused(paths: RackPaths, tmp_path: Path) -> None:
    done = guard("--replay", str(tmp_path / "rack.yml"))
    assert isinstance(done.exception, InputError)
    assert "rack.yml:1: no line of guard's log" in str(done.exception)


class Watcher:
    """Stands in for the service: what it was told to watch, and what happens meanwhile."""

    racks: ClassVar[list[Rack]] = []
    meanwhile: ClassVar[list[Callable[[], object]]] = []

    def __init__(self, rack: Rack, *_: Any, **__: Any) -> None:
        self.racks.append(rack)
        self.memory = Memory(0.0)

    async def run(self) -> str:
        if not self.meanwhile:
            return "stopped"
        self.meanwhile.pop(0)()
        return "changed"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[Rack]:
    monkeypatch.setattr("fleetctl.guard.service.Service", Watcher)
    Watcher.racks, Watcher.meanwhile = [], []
    return Watcher.racks


def test_a_mistake_in_the_rack_file_and_a_restart_leave_no_rack_unwatched(
    paths: RackPaths, tmp_path: Path, watched: list[Rack]
) -> None:
    file = tmp_path / "rack.yml"
    hub = tmp_path / "hub"
    hub.write_text("#!/bin/sh\n")
    hub.chmod(0o755)
    good = RACK.replace("[hub,", "[./hub,")
    file.write_text(good)
    assert guard().exit_code == 0
    for text in (good.replace("rack: lab", "rock: lab"), "rack: [", good + "guard: {x: 1}\n"):
        file.write_text(text)
        done = guard()
        assert done.exit_code == 0
        assert "the rack file has mistakes, guard goes by what it was before: " in done.stderr
        assert str(file) in done.stderr
    before, *after = watched
    assert after == [before] * 3
    assert before.outlets["a"].command[0] == str(hub)

    dry = guard("--dry-run")
    assert isinstance(dry.exception, InputError), "who looks on shall see it"


def test_a_dry_run_keeps_no_rack_file(
    paths: RackPaths, tmp_path: Path, watched: list[Rack]
) -> None:
    Watcher.meanwhile = [lambda: (tmp_path / "rack.yml").write_text(RACK + "\n")]
    assert guard("--dry-run").exit_code == 0
    assert len(watched) == 2
    assert not (paths.dir / "guard").exists()


def test_a_rack_file_that_breaks_while_it_is_taken_up_ends_no_guard(
    paths: RackPaths, tmp_path: Path, watched: list[Rack]
) -> None:
    file = tmp_path / "rack.yml"
    other = RACK.replace("rack: lab", "rack: lab\nguard: {warn_celsius: 38}")
    Watcher.meanwhile = [lambda: file.write_text(other), lambda: file.write_text("rack: [")]
    assert guard().exit_code == 0
    assert [rack.guard.warn_celsius for rack in watched] == [40, 38, 38]


def test_a_mistake_in_a_rack_file_that_no_guard_ever_took_is_told(
    paths: RackPaths, tmp_path: Path, watched: list[Rack]
) -> None:
    assert guard().exit_code == 0
    (tmp_path / "other.yml").write_text("rack: [")
    done = CliRunner().invoke(cli, ["--rack", str(tmp_path / "other.yml"), "guard"])
    assert isinstance(done.exception, InputError)
    assert len(watched) == 1
