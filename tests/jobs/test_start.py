"""What the start of an attempt brings to its phones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.checks.phone import PhoneFacts
from fleetctl.jobs import runs, start
from fleetctl.jobs.room import Chosen, Prepared, Room
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Result
from fleetctl.state import State

RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}") for n in (1, 2, 3)},
)
PHONES = tuple(RACK.phones)


class Fleet:
    """Phones that take everything; `files` is what each of them has."""

    def __init__(self) -> None:
        self.files: dict[str, set[str]] = {phone: set() for phone in PHONES}

    async def put(self, names: Any, local: Path, remote: str, **_: Any) -> dict[str, None]:
        folder = remote.partition("/runs/")[2]
        came = {f"{folder}/{path.name}" for path in local.iterdir()} if local.is_dir() else {folder}
        for name in names:
            self.files[name] |= came
        return dict.fromkeys(names)

    async def run_on(self, *_: Any, **__: Any) -> Result:
        return Result(0, stdout="7")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.mark.parametrize("trainer_alone", [True, False])
def test_a_checkpoint_goes_to_the_first_rank_alone_unless_a_program_may_read_it(
    tmp_path: Path, state: State, trainer_alone: bool
) -> None:
    run = runs.create(tmp_path / "runs", "digits")
    run.record("created", phones=PHONES)
    checkpoint = tmp_path / "iteration-20.ckpt"
    checkpoint.write_text("a large one")
    facts = {phone: PhoneFacts(phone, RACK.phones[phone].address) for phone in PHONES}
    addresses = {name: phone.address for name, phone in RACK.phones.items()}
    prepared = Prepared(
        run.name, Chosen(PHONES, facts, 0.1), None, ("mpirun",), "5.0", trainer_alone, addresses
    )
    fleet: Any = Fleet()
    found: Any = SimpleNamespace(path=checkpoint)
    paths: Any = None
    room = Room(fleet, RACK, state, paths, lambda _: None)
    asyncio.run(start.begin(room, run, prepared, found))
    have = [phone for phone in PHONES if "digits-1/resume/iteration-20.ckpt" in fleet.files[phone]]
    assert have == [*(PHONES[:1] if trainer_alone else PHONES)]
    assert all("digits-1/rank.sh" in files for files in fleet.files.values())
    assert run.summary().state == "running"
