"""The whole process, with phones that are a hub's and a rack folder of its own."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from fleetctl.guard import service
from fleetctl.guard.acting import Hands
from fleetctl.guard.kept import Kept
from fleetctl.guard.memory import Latch, Memory, PhoneMemory
from fleetctl.guard.service import Service
from fleetctl.power.outlets import LATCH_DRAIN
from fleetctl.rack import RackPaths, load_rack
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State

HUB = """#!{python}
import pathlib, sys
place = pathlib.Path(__file__).parent / sys.argv[1]
place.with_suffix(".new").write_text(sys.argv[2])
place.with_suffix(".new").replace(place)
"""
RACK = """\
rack: lab
network: {cidr: 10.1.0.0/24, medium: ethernet, controller: 10.1.0.1}
phones: [10.1.0.11, 10.1.0.12]
power: {command: [./hub, "{outlet}", "{state}"]}
guard: {poll_seconds: 1, call: [./call, called, "{message}"]}
"""


class Phones:
    """Stands in for the fleet: `celsius` by phone, power by the hub's files."""

    folder: Path
    celsius: dict[str, float]
    lying: set[str]
    killed: list[str]

    def __init__(self, *_: Any) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def run_on(self, name: str, command: str, **_: Any) -> Result:
        await asyncio.sleep(0.01)
        if name not in self.celsius:
            return Result(None, error=PhoneError(name, Fault.UNREACHABLE, f"{name} is away"))
        if "kill -KILL" in command:
            self.killed.append(name)
            return Result(0, "left:\n")
        file = self.folder / name
        live = name in self.lying or not file.exists() or file.read_text() == "on"
        return Result(
            0,
            f"dumpsys\n  AC powered: {str(live).lower()}\n  status: 2\n  health: 2\n  level: 50\n"
            f"  scale: 100\n  temperature: {round(self.celsius[name] * 10)}\n",
        )


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("hub", "call"):
            program = folder / name
            program.write_text(HUB.replace("{python}", sys.executable))
            program.chmod(0o755)
        self.file = folder / "rack.yml"
        self.file.write_text(RACK)
        self.paths = RackPaths("lab")
        self.paths.ensure()
        self.said: list[str] = []

    def guard(self, until: Callable[[], bool], dry: bool = False) -> str:
        """Run a guard until something is so, and end it as systemd does."""
        watcher = Service(load_rack(self.file), self.file, self.paths, self.said.append, dry)

        async def work() -> str:
            task = asyncio.create_task(watcher.run())
            end = time.monotonic() + 30
            while not task.done() and not until():
                assert time.monotonic() < end, self.said
                await asyncio.sleep(0.05)
            if not task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            return await task

        return asyncio.run(work())

    def drains(self) -> dict[str, list[str]]:
        with State(self.paths.state_db) as state:
            facts = state.phones()
        return {name: [d.who for d in each.drains] for name, each in facts.items() if each.drains}

    def heard(self, text: str) -> bool:
        return any(text in line for line in self.said)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(service, "Fleet", Phones)
    Phones.folder, Phones.lying, Phones.killed = tmp_path, set(), []
    Phones.celsius = {"phone001": 31.0, "phone002": 32.0}
    return Lab(tmp_path)


def test_a_battery_above_the_limit_is_cut_latched_and_told(lab: Lab) -> None:
    Phones.celsius["phone001"] = 51.0
    call = lab.folder / "called"
    assert lab.guard(lambda: (lab.folder / "phone001").exists() and (lab.folder / "called").exists()
                     and lab.heard("CALLS A PERSON")) == "stopped"  # fmt: skip
    assert (lab.folder / "phone001").read_text() == "off"
    assert not (lab.folder / "phone002").exists()
    assert Phones.killed == ["phone001"]
    assert lab.drains() == {"phone001": [LATCH_DRAIN]}
    assert lab.heard("phone001: kills its job: its battery had 51.0 °C (limit 50)")
    assert call.exists()

    # Another guard, later: the phone is cool, and stays off.
    Phones.celsius["phone001"] = 25.0
    lab.said.clear()
    lab.guard(lambda: _celsius(lab, "phone001") == 25.0)
    assert (lab.folder / "phone001").read_text() == "off"
    assert lab.drains() == {"phone001": [LATCH_DRAIN]}

    # A person has looked.
    Kept(lab.paths).ask_clear("phone001", "sam", "new battery")
    lab.guard(lambda: lab.heard("cleared by a person: new battery (sam)") and not lab.drains())
    rows = _rows(lab)
    assert [row["starts"] for row in rows if "memory" in row] == [True, True, True]
    assert any(row.get("do") == "switch" and row["outlet"] == "phone001" for row in rows)


def _celsius(lab: Lab, name: str) -> float | None:
    """What the newest day says last of a phone."""
    rows = [row for row in _rows(lab) if row.get("phone") == name and "sample" in row]
    return rows[-1]["sample"]["celsius"] if rows else None


def _rows(lab: Lab) -> list[dict[str, Any]]:
    days = sorted(Kept(lab.paths).log.glob("*.jsonl"))
    return [json.loads(row) for day in days for row in day.read_text().splitlines()]


def test_a_guard_that_lost_its_memory_takes_its_drains_for_latches(lab: Lab) -> None:
    with State(lab.paths.state_db) as state:
        state.drain(["phone002"], who=LATCH_DRAIN, why="swollen", origin="check")
    Kept(lab.paths).make()
    (Kept(lab.paths).folder / "memory.json").write_text("{")
    lab.guard(lambda: (lab.folder / "phone002").exists())
    assert (lab.folder / "phone002").read_text() == "off"
    assert lab.heard("memory.json: it is damaged")
    assert list(Kept(lab.paths).folder.glob("memory.damaged-*"))


def test_a_dry_run_does_nothing_and_says_all(lab: Lab) -> None:
    Phones.celsius["phone001"] = 51.0
    lab.guard(lambda: lab.heard("CALLS A PERSON: latched"), dry=True)
    assert not (lab.folder / "phone001").exists()
    assert Phones.killed == []
    assert lab.drains() == {}
    assert not Kept(lab.paths).folder.exists()
    assert lab.heard("outlet phone001: switches it off")


def test_a_dry_run_beside_a_guard_leaves_its_memory_and_its_log_alone(lab: Lab) -> None:
    kept = Kept(lab.paths)
    with State(lab.paths.state_db) as state:
        state.drain(["phone002"], who=LATCH_DRAIN, why="swollen", origin="check")
    lab.guard(lambda: (lab.folder / "phone002").exists() and lab.heard("CALLS A PERSON: latched"))
    (kept.folder / "memory.json").write_text("{")
    before = _files(kept.folder)
    lab.said.clear()
    Phones.celsius["phone001"] = 51.0
    lab.guard(lambda: lab.heard("CALLS A PERSON: latched: phone001"), dry=True)
    assert _files(kept.folder) == before
    assert lab.heard("memory.json: it is damaged")
    assert not lab.heard("phone002: drained"), "it is already"


def _files(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_latch_of_which_only_the_drain_was_kept_stays_one(lab: Lab) -> None:
    """The disk was full: memory is of before."""
    lab.guard(lambda: _celsius(lab, "phone002") is not None)
    with State(lab.paths.state_db) as state:
        state.drain(["phone002"], who=LATCH_DRAIN, why="swollen", origin="check")
    lab.guard(lambda: (lab.folder / "phone002").exists())
    assert (lab.folder / "phone002").read_text() == "off"
    assert lab.drains() == {"phone002": [LATCH_DRAIN]}


def test_what_guard_knows_needs_no_disk_when_the_rack_file_changes(lab: Lab) -> None:
    Phones.celsius["phone001"] = 51.0
    first = Service(load_rack(lab.file), lab.file, lab.paths, lab.said.append)
    first.memory = Memory(first.clock())
    first.memory.phones["phone001"] = PhoneMemory(first.clock(), latch=Latch("hot", 0.0))
    second = Service(load_rack(lab.file), lab.file, lab.paths, lab.said.append, before=first.memory)

    async def remembered() -> Memory:
        async with Phones() as fleet:
            hands = Hands(second.rack, lab.file, lab.paths, fleet, second._tell, second.say)
            try:
                return await second._remember(hands)
            finally:
                await hands.close()

    latch = asyncio.run(remembered()).phones["phone001"].latch
    assert latch is not None
    assert latch.why == "hot"


def test_a_call_that_a_restart_cut_short_is_made_again(lab: Lab) -> None:
    Phones.celsius["phone001"] = 51.0
    program = (lab.folder / "call").read_text()
    hangs = program + "import time\nplace.with_suffix('.began').touch()\ntime.sleep(600)\n"
    (lab.folder / "call").write_text(hangs)
    began = lab.folder / "called.began"
    lab.guard(lambda: began.exists())
    (lab.folder / "called").unlink()
    (lab.folder / "call").write_text(program)
    lab.guard(lambda: _reached(lab) == [True])
    assert "latched: phone001" in (lab.folder / "called").read_text()


def test_a_call_that_reaches_nobody_is_said_and_kept(lab: Lab) -> None:
    Phones.celsius["phone001"] = 51.0
    (lab.folder / "call").write_text("#!/nowhere/python\n")
    lab.guard(lambda: lab.heard("call cannot be started") and _reached(lab) == [False])
    assert lab.heard("NOBODY WAS CALLED")


def _reached(lab: Lab) -> list[bool]:
    memory = Kept(lab.paths).load(time.time())
    return [call.reached for call in memory.calls.values()] if memory else []


def test_a_disk_that_hangs_holds_up_no_cut(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "DISK_SECONDS", 0.1)
    works = threading.Event()
    save = Kept.save

    def slow(self: Kept, text: str) -> None:
        works.wait(60)
        save(self, text)

    monkeypatch.setattr(Kept, "save", slow)
    Phones.celsius["phone001"] = 51.0

    def cut() -> bool:
        done = (lab.folder / "phone001").exists() and lab.heard("the disk does not answer")
        if done:
            works.set()
        return done

    lab.guard(cut)
    assert (lab.folder / "phone001").read_text() == "off"
    memory = Kept(lab.paths).load(time.time())
    assert memory is not None
    assert memory.phones["phone001"].latch is not None


def test_a_disk_that_hangs_while_clears_are_looked_for_holds_up_no_cut(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = threading.Event()

    def slow(_: Kept) -> dict[str, str]:
        assert works.wait(20), "nothing was cut meanwhile"
        return {}

    monkeypatch.setattr(Kept, "clears", slow)
    Phones.celsius["phone001"] = 51.0

    def cut() -> bool:
        if done := (lab.folder / "phone001").exists():
            works.set()
        return done

    lab.guard(cut)


def test_a_disk_that_fails_while_clears_are_looked_for_ends_no_guard(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Kept) -> dict[str, str]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Kept, "clears", fails)
    Phones.celsius["phone001"] = 51.0
    assert lab.guard((lab.folder / "phone001").exists) == "stopped"
    assert lab.heard("clears: ")


def test_a_rack_file_that_cannot_be_looked_at_ends_no_guard(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Service(load_rack(lab.file), lab.file, lab.paths, lab.said.append)

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "stat", fails)
    assert watcher._stamp() == []


def test_systemd_is_told_of_every_decision(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(service, "alive", lambda: told.append(1))
    lab.guard(lambda: len(told) > 2)


def test_it_takes_up_another_rack_file_and_not_one_with_mistakes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RACK_SECONDS", 0.1)
    began = time.monotonic()

    def change() -> bool:
        if time.monotonic() - began > 0.5 and not lab.heard("mistakes"):
            lab.file.write_text(RACK + "guard: {warn_celsius: 90}\n")
        if lab.heard("mistakes"):
            lab.file.write_text(RACK.replace("poll_seconds: 1", "poll_seconds: 2"))
        return False

    assert lab.guard(change) == "changed"
    assert lab.heard("the rack file has mistakes, the old one stays")


def test_a_phone_that_is_away_is_not_worth_a_word_at_first(lab: Lab) -> None:
    del Phones.celsius["phone002"]
    lab.guard(lambda: _problem(lab, "phone002") is not None)
    assert _problem(lab, "phone002") == "phone002 is away"
    assert lab.said == []


def _problem(lab: Lab, name: str) -> str | None:
    for row in _rows(lab):
        if row.get("phone") == name and "problem" in row:
            return str(row["problem"])
    return None
