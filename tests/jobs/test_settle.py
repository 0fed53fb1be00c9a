"""What the phones' last words say of a run that has ended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs import onphone, runs
from fleetctl.jobs.jobfile import Train
from fleetctl.jobs.planning import build_plan
from fleetctl.jobs.settle import settle
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State
from trainer.formats import Final

PHONES = ("phone001", "phone002", "phone003")


class Ended:
    """Phones whose ranks are done, each with parameters of this checksum."""

    def __init__(self, *parameters: str) -> None:
        self.parameters = parameters

    async def run_on(self, name: str, command: str, **_: Any) -> Result:
        rank = PHONES.index(name)
        if command != onphone.read_finals("digits-1"):
            return Result(0)
        final = Final("digits-1", rank, name, "done", None, 30, 0.99, self.parameters[rank])
        return Result(0, final.to_json())

    async def run(self, names: Any, command: str, **_: Any) -> dict[str, Result]:
        return {name: await self.run_on(name, command) for name in names}

    async def get(self, name: str, remote: str, *_: Any, **__: Any) -> None:
        raise PhoneError(name, Fault.FAILED, f"{name} has no {remote}")


@pytest.mark.parametrize(("exchange", "told"), [(True, True), (False, False)])
def test_phones_that_should_have_one_model_and_do_not_are_named(
    tmp_path: Path, exchange: bool, told: bool
) -> None:
    train = Train.model_validate(
        {
            **{"model": "digits-cnn", "data": "digits", "epochs": 1, "global_batch": 48},
            **{"optimizer": {"name": "sgd", "lr": 0.1}, "exchange": {"enabled": exchange}},
        }
    )
    run = runs.create(tmp_path / "runs", "digits")
    build_plan(train, run.name, PHONES).write(run.plan_file)
    run.record("created", phones=PHONES)
    fleet: Any = Ended("ab", "ab", "cd")
    with State(tmp_path / "state.db") as state:
        verdict = asyncio.run(settle(fleet, state, run, PHONES, {}, blamed={}))
    assert verdict.state == "done"
    assert ("phone003 ended with other parameters" in (verdict.reason or "")) is told
    assert run.summary().reason == verdict.reason
