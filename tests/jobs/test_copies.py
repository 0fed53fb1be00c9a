"""Copies of files that grow on a phone, over connections that break at any byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from loopback_phones import Listen, Loopback

from fleetctl.jobs import copies, runs
from fleetctl.jobs.supervise import Watch, _follow_progress

ITERATION = (
    '{"kind": "iteration", "time": 1.0, "iteration": %d, "epoch": 1, "loss": 0.5, "images": 48, '
    '"images_per_second": 9.0, "compute_seconds": 1.0, "exchange_seconds": 1.0, '
    '"wait_seconds": 0.1}\n'
)


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def test_a_line_that_a_lost_connection_cut_is_read_again_as_a_whole(
    tmp_path: Path, loopback: Loopback, listen: Listen, monkeypatch: Any
) -> None:
    monkeypatch.setattr("fleetctl.jobs.copies.RECONNECT_PAUSE_SECONDS", 0.1)
    remote, local = tmp_path / "remote", tmp_path / "local"
    remote.write_text("one\ntw")
    told: list[str] = []

    async def go() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            task = asyncio.create_task(
                copies.follow(fleet, "phone001", str(remote), local, told.append)
            )
            await until(lambda: told)
            (await fleet.connection("phone001")).abort()
            await asyncio.sleep(0.05)
            with remote.open("a") as file:
                file.write("o\nthree\n")
            await until(lambda: "three" in told)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())
    assert told == ["one", "two", "three"]
    assert local.read_text() == "one\ntwo\nthree\n"


def test_a_damaged_line_of_an_earlier_follower_does_not_end_the_next_one(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Silent:
        async def stream(self, *_: Any) -> Any:
            asked.set()
            await asyncio.Future()
            yield ""

    run = runs.create(tmp_path / "runs", "digits")
    run.progress_file.write_text(ITERATION % 7 + '{"kind": "iterat\n' + ITERATION % 9)
    fleet: Any = Silent()
    state: Any = SimpleNamespace()
    watch = Watch(fleet, state, run, ("phone001",), {})

    async def go() -> None:
        task = asyncio.create_task(_follow_progress(watch))
        going_on = asyncio.create_task(asked.wait())
        await asyncio.wait([task, going_on], return_when=asyncio.FIRST_COMPLETED)
        assert not task.done(), task.exception()
        task.cancel()

    asyncio.run(go())
    assert watch.tracker.last is not None
    assert watch.tracker.last.iteration == 9
    assert [event["kind"] for event in run.events()] == ["progress-refused"]
