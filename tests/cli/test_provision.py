"""What `fleetctl provision` shows while Ansible works and after it, and what it refuses."""

from __future__ import annotations

import errno
import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from fleetctl.cli import provision
from fleetctl.cli.main import cli
from fleetctl.cli.provision_view import remarks, render, task_line
from fleetctl.provision import history
from fleetctl.provision.playbook_events import Event, Tracker

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-22]\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    return tmp_path / "home/home"


def fleetctl(*words: str) -> Any:
    return CliRunner().invoke(cli, words, standalone_mode=False)


def tracker(hosts: int, through: int) -> Tracker:
    found = Tracker()
    found.take(Event("playbook_on_task_start", "Provision", "Bring packages", "1"))
    names = [f"phone{n:03}" for n in range(1, hosts + 1)]
    for name in names:
        found.take(Event("runner_on_start", task_id="1", host=name))
    for name in names[:through]:
        found.take(Event("runner_on_ok", task_id="1", host=name, result="changed"))
    return found


def shown(of: Tracker) -> list[str]:
    console = Console(file=StringIO(), width=80)
    console.print(render(of, 65.0))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def test_few_phones_that_work_have_a_line_each() -> None:
    assert shown(tracker(3, 1)) == [
        "00:01:05  Provision",
        "━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 1 of 3  Bring packages",
        "  phone002 works",
        "  phone003 works",
    ]


def test_many_phones_are_folded_and_who_fell_out_is_named() -> None:
    found = tracker(138, 100)
    found.take(
        Event("runner_on_failed", "p", "t", "1", "phone101", result="failed", message="disk full")
    )
    lines = shown(found)
    assert "  phone[102-138] work" in lines
    assert "  fell out: phone101" in lines
    assert max(map(len, lines)) <= 80


def test_a_task_that_is_through_is_one_line() -> None:
    found = tracker(6, 5)
    found.take(Event("runner_on_unreachable", "", "", "1", "phone006", result="unreachable"))
    task = found.task
    assert task is not None
    assert task_line(task) == "Provision: Bring packages: 5 changed, 1 unreachable"


def test_one_reason_of_many_phones_is_said_once() -> None:
    failures = {f"phone{n:03}": "Bring packages: no room" for n in range(1, 4)}
    record = history.Record("r", "ann", (), 0.0, failures=failures)
    assert remarks(record, Tracker(), {}) == ["phone[001-003]: Bring packages: no room"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("verfy",), "did you mean verify"),
        (("phones", "phone099"), "no phone phone099"),
        (("-l", "@drained"), "empty node set"),
        (("@last-failed",), "empty node set"),
    ],
)
def test_what_matches_nothing_is_refused_before_ansible_starts(
    home: Path, words: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provision, "_provision", lambda *_: pytest.fail("started"))
    problem = fleetctl("provision", *words).exception
    assert complaint in str(getattr(problem, "message", problem))
    assert problem.exit_code == 2


def test_phases_flags_and_node_sets_become_ansibles_arguments(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    secret = home / "secret"
    secret.parent.mkdir(parents=True, exist_ok=True)
    secret.touch()
    monkeypatch.setattr(provision, "_provision", lambda _, playbook, *__: asked.append(playbook))
    fleetctl(
        *("provision", "phones", "phone[001-002]", "verify", "-l", "phone003", "-C", "-D", "-vv"),
        *("-e", "a=b", "--skip-tags", "monitoring", "-f", "20", "--flush-cache"),
        *("--vault-id", f"rack@{secret}", "--start-at-task", "Bring packages"),
    )
    assert asked[0].arguments()[2:] == [
        *("--limit", "phone001,phone002,phone003", "--tags", "phones,verify"),
        *("--skip-tags", "monitoring", "--check", "--diff", "--extra-vars", "a=b"),
        *("--vault-id", f"rack@{secret}", "--forks", "20", "--start-at-task", "Bring packages"),
        *("--flush-cache", "-vv", "site.yml"),
    ]
    refused = fleetctl("provision", "--vault-id", "rack@prompt").exception
    assert "there is no file prompt" in str(getattr(refused, "message", refused))


def test_history_is_a_table_or_a_document(home: Path) -> None:
    folder = home / "provisions"
    folder.mkdir(parents=True)
    record = history.begin(folder, "ann", ("phones", "@sw1"))
    history.write(
        folder,
        history.Record(
            *(record.run, "ann", ("phones", "@sw1"), 1.0, 61.2, 3),
            {"phone001": "ok", "phone002": "failed", "phone003": "left out"},
            {"phone002": "Bring packages: no room"},
        ),
    )
    assert "3 hosts, 1 failed, 1 left out  phones @sw1" in fleetctl("provision", "--history").stdout
    document = json.loads(fleetctl("provision", "--history", "-o", "json").stdout)
    assert document["runs"][0]["failures"] == {"phone002": "Bring packages: no room"}


def test_while_one_is_at_it_the_next_is_told_who(home: Path) -> None:
    with history.held(home / "provisions", "ann"):
        problem = fleetctl("provision", "validate").exception
    assert problem.exit_code == 5
    assert "ann" in str(problem)


def test_a_disk_that_fills_up_meanwhile_hides_no_outcome(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def follow(_app: Any, run: Any, *_: Any) -> tuple[bool, dict[str, str]]:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(history, "write", full)
        for name, result in (("phone001", "ok"), ("phone002", "failed")):
            run.tracker.take(Event("runner", "p", "Bring packages", "1", name, result, "no room"))
        return False, {}

    monkeypatch.setattr(provision, "_follow", follow)
    done = fleetctl("provision", "-o", "json")
    assert done.return_value == 3
    assert json.loads(done.stdout)["phones"] == {"phone001": "ok", "phone002": "failed"}
    assert "No space left on device: not all of this run could be written down" in done.stderr
