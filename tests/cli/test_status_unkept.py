"""`fleetctl status` where the state cannot be used: what phones say now is shown all the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.live import Live

from fleetctl.checks import alerts, facts, vitals
from fleetctl.checks.vitals import Vitals
from fleetctl.cli import watch
from fleetctl.cli.common import App
from fleetctl.cli.main import cli
from fleetctl.state import State, StateError

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-21]\n"
LOOKS = {
    "phone001": Vitals(reached=True, temperature_celsius=31.0),
    "phone002": Vitals(reached=False, problem="phone002 (192.0.2.21) does not answer"),
}
WRITES = ("record_contact", "record_revocations", "record_facts")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the state of a rack of two, of which one answers."""
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))

    async def look(_: Any, names: Any) -> dict[str, Vitals]:
        return {name: LOOKS[name] for name in names}

    async def look_at(_: Any, name: str) -> Vitals:
        return LOOKS[name]

    async def gather(_fleet: Any, _names: Any) -> Any:
        return {"phone001": {"android": {"model": "SM-G975F"}}}, {"phone002": "phone002: away"}

    monkeypatch.setattr(vitals, "look", look)
    monkeypatch.setattr(vitals, "look_at", look_at)
    monkeypatch.setattr(facts, "gather", gather)
    monkeypatch.setattr(alerts, "firing", lambda _: None)
    path = tmp_path / "home/home/state.db"
    path.parent.mkdir(parents=True)
    with State(path) as kept:
        kept.drain(["phone001"], "ann", "swollen")
    return path


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise StateError("state.db: its disk is full: free some space and do it again")

    for name in WRITES:
        monkeypatch.setattr(State, name, refuse)


def damage(state: Path) -> None:
    for file in state.parent.glob("state.db*"):
        file.write_bytes(b"no database" * 1000)


def status(*words: str) -> Result:
    return CliRunner().invoke(cli, ["status", *words], standalone_mode=False)


def test_on_a_full_disk_phones_are_shown_by_what_they_say_now(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    done = status("-o", "json")
    assert isinstance(done.exception, StateError)
    assert str(done.exception).endswith("do it again; what phones said now is not kept")
    phones = {each["name"]: each["state"] for each in json.loads(done.stdout)["phones"]}
    assert phones == {"phone001": "drained", "phone002": "lost"}


@pytest.mark.parametrize("words", [(), ("phone002",)])
def test_a_damaged_state_is_named_below_what_phones_say(state: Path, words: tuple[str]) -> None:
    damage(state)
    done = status(*words)
    assert isinstance(done.exception, StateError)
    assert "drains, health and jobs are not known" in str(done.exception)
    assert "phone002 does not answer" in done.stdout


def test_facts_that_cannot_be_kept_are_shown(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_disk(monkeypatch)
    done = status("--facts")
    assert isinstance(done.exception, StateError)
    assert "SM-G975F" in done.stdout


class Enough(Exception):
    """No further screen is wanted."""


def screen_with(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    """The first screen of `--watch` that has all these words; else the last of very many."""
    seen: list[str] = []

    def update(_: Live, screen: Any, **__: Any) -> None:
        console = Console(width=100, height=24)
        with console.capture() as capture:
            console.print(screen)
        seen.append(capture.get())
        if all(word in seen[-1] for word in words) or len(seen) == 1000:
            raise Enough

    monkeypatch.setattr(Live, "update", update)
    monkeypatch.setattr(watch, "REFRESH_SECONDS", 0.01)
    with pytest.raises(ExceptionGroup) as ended:
        asyncio.run(watch.watch(App(), ["phone001", "phone002"]))
    assert ended.value.split(Enough)[1] is None, "nothing else has ended it"
    return seen[-1]


def test_watching_goes_on_over_a_full_disk_and_keeps_later_what_it_saw(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk(full)
        assert "its disk is full" in screen_with(monkeypatch, "1 drained, 1 lost")
    assert "its disk is full" not in screen_with(monkeypatch, "1 drained, 1 lost")
    with State(state) as kept:
        assert kept.phones()["phone001"].contact.seen is not None


def test_watching_a_rack_that_nobody_monitors_says_so(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "alerts unknown: no answer from 192.0.2.2; `fleetctl check controller`"
    assert said in screen_with(monkeypatch, said)
