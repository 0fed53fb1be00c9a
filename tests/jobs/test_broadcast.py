"""How long data may take to reach phones, and what is told of it on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetctl.jobs import broadcast, staging
from fleetctl.jobs.staging import DataOnController, Need, StageRoom
from fleetctl.provision import data
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State

PHONES = ("phone001", "phone002", "phone003")
RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={name: Phone(name, f"10.0.0.{n}") for n, name in enumerate(PHONES, 11)},
)


class Slow:
    """Phones to which a broadcast goes on until all are lost; `come` is what they tell of it, and
    `limits` is how long copies may take."""

    def __init__(self, come: dict[str, str]) -> None:
        self.come = come
        self.asked = 0
        self.limits: list[float] = []
        self.copied = asyncio.Event()

    async def run(self, names: Any, _command: str, **_: Any) -> dict[str, Result]:
        self.asked += 1
        lost = PhoneError(PHONES[0], Fault.LOST, "lost") if self.asked > 2 else None
        return {name: Result(0, stdout=self.come[name], error=lost) for name in names}

    async def run_on(self, *_: Any, **__: Any) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    async def put_each(self, *_: Any, timeout_seconds: float) -> None:
        self.limits.append(timeout_seconds)
        await self.copied.wait()


@pytest.fixture
def some(tmp_path: Path) -> DataOnController:
    images = np.random.default_rng(0).integers(0, 256, (900, 1, 28, 28), np.uint8)
    np.savez(tmp_path / "some.npz", x=images, y=np.arange(900) % 3)
    data.add(data.Wish("some", tmp_path / "some.npz"), tmp_path / "data")
    return staging.read_data(tmp_path / "data", "some")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def fleet() -> Slow:
    return Slow({PHONES[0]: "20000\n", PHONES[1]: "0\n"})


@pytest.fixture
def room(
    tmp_path: Path, some: DataOnController, told: list[str], fleet: Any
) -> Iterator[StageRoom]:
    with State(tmp_path / "state.db") as state:
        yield StageRoom(fleet, RACK, state, some.folder.parent, "0.1", told.append)


def need(*lacking: str) -> Need:
    return Need(lacking, lacking, placed=False, free_bytes=10**12)


def files(some: DataOnController) -> list[str]:
    return [shard.file for shard in some.manifest.shards]


def test_a_rank_is_patient_while_much_that_it_does_not_need_passes_by(
    some: DataOnController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "SLOWEST_BYTES_PER_SECOND", 1.0)
    first, *between, last = files(some)

    def patience(second: Need) -> float:
        waiting = {PHONES[0]: need(*files(some)), PHONES[1]: second}
        return broadcast.stage_plan(some, "run-1", waiting).patience_seconds

    usual = patience(need(*files(some)))
    passing = sum(some.sizes[file] for file in between)
    assert patience(need(first, last)) == usual + passing
    assert patience(need(last)) == usual + passing + some.sizes[first]
    assert patience(need(first)) == usual, "it waits for nothing after that"


def test_who_lacks_no_file_is_not_the_slowest(
    room: StageRoom, some: DataOnController, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "WATCH_SECONDS", 0.0)
    monkeypatch.setattr(broadcast, "TELL_SECONDS", 0.0)
    waiting = {PHONES[0]: need(*files(some)), PHONES[1]: need()}
    plan = broadcast.stage_plan(some, "run-1", waiting)
    chain = broadcast._Chain(room, some, "run-1", PHONES[:2], plan)
    assert list(asyncio.run(chain.until_over())) == list(PHONES[:2])
    whole = sum(some.sizes.values()) / 1e6
    assert f"0 of {whole:,.0f} MB have reached the slowest phone" in told[0]


def test_copies_that_share_the_controller_s_link_may_take_longer(
    room: StageRoom, some: DataOnController, fleet: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "TRANSFER_LIMIT_SECONDS", 0.0)
    monkeypatch.setattr(staging, "SLOWEST_BYTES_PER_SECOND", 1.0)
    fleet.copied.set()
    asyncio.run(staging._copy(room, some, dict.fromkeys(PHONES, need(*files(some)))))
    assert fleet.limits == [3 * sum(some.sizes.values())] * 3
