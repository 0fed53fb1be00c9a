"""A controller that has lost its network blames no phone, and goes on when it is back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs import alone, runs, settle, supervise
from fleetctl.jobs.supervise import Watch
from fleetctl.remote import Fault, PhoneError, Result


def away(name: str) -> PhoneError:
    return PhoneError(name, Fault.UNREACHABLE, f"{name} is unreachable")


class Fleet:
    """phone001 has lost its connection, for `why`; the others answer once they were asked often
    enough."""

    def __init__(
        self,
        *answering: str,
        from_try: int = 0,
        returns: bool = False,
        why: Fault = Fault.UNREACHABLE,
    ) -> None:
        self.answering, self.from_try, self.returns = answering, from_try, returns
        self.why, self.tries = why, 0
        self.connections = 0

    async def run(self, names: Any, *_: Any, **__: Any) -> dict[str, Result]:
        return {name: await self.run_on(name) for name in names}

    async def run_on(self, name: str, *_: Any, **__: Any) -> Result:
        self.tries += 1
        if name in self.answering and self.tries > self.from_try:
            return Result(0)
        return Result(None, error=away(name))

    async def connection(self, name: str) -> Any:
        self.connections += 1
        if self.returns and self.connections > 1:
            return self
        raise PhoneError(name, self.why, f"{name}: {self.why}")

    async def wait_closed(self) -> None:
        await asyncio.Future()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "ASK_SECONDS", 0.01)
    monkeypatch.setattr(alone, "RETURN_SECONDS", 0.0)
    monkeypatch.setattr(supervise, "RETRY_SECONDS", 0.01)


def watched(folder: Path, fleet: Any, witnesses: tuple[str, ...] = ("phone003",)) -> Watch:
    """What a watch of phone001 and phone002 has found, once it has blamed somebody or asked often
    enough to have done so."""
    run = runs.create(folder / "runs", "digits")
    state: Any = None
    watch = Watch(fleet, state, run, ("phone001", "phone002"), {}, witnesses)

    async def go() -> None:
        watching = asyncio.create_task(supervise._watch_phone(watch, "phone001"))
        while not watching.done() and fleet.tries < 30 and fleet.connections < 4:
            await asyncio.sleep(0.01)
            if fleet.returns and fleet.connections > 1:
                break
        watching.cancel()

    asyncio.run(go())
    return watch


@pytest.mark.parametrize("other", ["phone002", "phone003"])
def test_a_phone_is_to_blame_while_another_answers(tmp_path: Path, other: str) -> None:
    assert [*watched(tmp_path, Fleet(other)).blamed] == ["phone001"]


@pytest.mark.parametrize("why", [Fault.THROTTLED, Fault.AUTH])
def test_a_phone_that_sends_us_away_is_alive(tmp_path: Path, why: Fault) -> None:
    watch = watched(tmp_path, Fleet("phone002", why=why))
    assert (watch.blamed, watch.trouble.is_set()) == ({}, False)


def test_nobody_is_to_blame_while_the_controller_has_no_network(tmp_path: Path) -> None:
    watch = watched(tmp_path, Fleet("phone002", from_try=9, returns=True))
    assert watch.blamed == {}
    assert [event["kind"] for event in watch.run.events()] == ["alone", "back"]


def test_however_long_that_takes(tmp_path: Path) -> None:
    watch = watched(tmp_path, Fleet())
    assert (watch.blamed, watch.trouble.is_set()) == ({}, False)
    assert [event["kind"] for event in watch.run.events()] == ["alone"]


def test_a_phone_that_does_not_come_back_with_the_others_is_to_blame_then(tmp_path: Path) -> None:
    watch = watched(tmp_path, Fleet("phone002", from_try=9))
    assert [*watch.blamed] == ["phone001"]
    assert [event["kind"] for event in watch.run.events()] == ["alone", "back"]


def test_the_others_have_a_while_to_come_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alone, "RETURN_SECONDS", 60.0)
    assert watched(tmp_path, Fleet("phone002", from_try=9)).blamed == {}


def test_a_run_that_is_silent_meanwhile_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    fleet: Any = Fleet()
    state: Any = None
    watch = Watch(fleet, state, run, ("phone001", "phone002"), {})
    watch.heard -= 1000
    sleep = asyncio.sleep
    monkeypatch.setattr("fleetctl.jobs.supervise.asyncio.sleep", lambda _: sleep(0.01))

    async def go() -> None:
        watching = asyncio.create_task(supervise._watch_silence(watch))
        await asyncio.wait([watching], timeout=0.3)
        watching.cancel()

    asyncio.run(go())
    assert (watch.blamed, watch.trouble.is_set()) == ({}, False)


def test_the_end_is_judged_once_somebody_can_be_asked(tmp_path: Path) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    fleet: Any = Fleet("phone002", from_try=9)
    state: Any = None
    watch = Watch(fleet, state, run, ("phone001", "phone002"), {})
    assert asyncio.run(supervise._without_network(watch)) is False
    assert [event["kind"] for event in run.events()] == ["alone", "back"]

    watch = Watch(Fleet(), state, run, ("phone001", "phone002"), {})  # type: ignore[arg-type]
    watch.stop_requested.set()
    assert asyncio.run(supervise._without_network(watch)) is True


def test_connections_that_broke_for_want_of_a_network_are_no_evidence(tmp_path: Path) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    run.record("connection-lost", phone="phone001")
    assert settle._came_back(run) == {"phone001"}
    run.record("alone")
    run.record("back", seconds=300)
    assert settle._came_back(run) == set()


def test_a_rack_of_one_phone_has_no_other_to_ask(tmp_path: Path) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    fleet: Any = Fleet()
    state: Any = None
    watch = Watch(fleet, state, run, ("phone001",), {})
    asyncio.run(supervise._watch_phone(watch, "phone001"))
    assert [*watch.blamed] == ["phone001"]


def test_a_connection_that_broke_long_before_the_end_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    now = 1e9
    monkeypatch.setattr("time.time", lambda: now)
    run.record("connection-lost", phone="phone001")
    now += 3600
    run.record("connection-lost", phone="phone002")
    now += settle.LATELY_SECONDS
    run.record("noticed")
    now += 600
    assert settle._came_back(run) == {"phone002"}
    monkeypatch.undo()
    assert settle._came_back(run) == {"phone002"}
