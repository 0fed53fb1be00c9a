"""What goes without a rehearsal: small models, told by their size and not by their name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs.planning import is_small
from fleetctl.jobs.rehearsal import rehearse
from fleetctl.provision import data
from fleetctl.remote import Result
from trainer.formats import DataSpec, MemoryNeed, ModelSpec, OptimizerSpec, Plan

NEED = MemoryNeed(300 << 20, 400 << 20, 100 << 20, 20 << 20)
DIGITS = ModelSpec("digits-cnn", {"num_classes": 10, "in_channels": 1, "pixels": 8})


@pytest.mark.parametrize(
    ("model", "shape", "samples"),
    [
        (ModelSpec("digits-cnn", {"hidden": 1_000_000}), (1, 8, 8), 96),
        (ModelSpec("digits-cnn", {"channels": 4096}), (1, 8, 8), 96),
        (DIGITS, (3, 224, 224), 1),
        (DIGITS, (1, 8, 8), 100_000),
        (ModelSpec("squeezenet"), (3, 32, 32), 1),
        (ModelSpec("script"), (1, 8, 8), 1),
    ],
    ids=["hidden", "channels", "images", "samples", "another", "own"],
)
def test_a_model_is_not_small_for_its_name_alone(
    model: ModelSpec, shape: tuple[int, ...], samples: int
) -> None:
    assert is_small(DIGITS, (1, 8, 8), 96)
    assert not is_small(model, shape, samples)


class Head:
    """A head phone that rehearses; `asked` are the shapes of the images."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run_on(self, _name: str, command: str, **_: Any) -> Result:
        self.asked.append(command.rpartition(" ")[2])
        return Result(0, NEED.to_json())


@pytest.mark.parametrize(
    ("args", "crop", "asked"),
    [({}, 0, []), ({"hidden": 10**6}, 0, ["1x8x8"]), ({"hidden": 10**6}, 6, ["1x6x6"])],
)
def test_only_what_is_small_goes_unrehearsed(
    args: dict[str, Any], crop: int, asked: list[str], tmp_path: Path
) -> None:
    data.add(data.Wish("digits"), tmp_path)
    plan = Plan(
        run="r",
        phones=("phone001", "phone002"),
        samples_per_rank=(32, 32),
        model=ModelSpec("digits-cnn", args),
        data=DataSpec("digits", "digits", crop_pixels=crop),
        epochs=1,
        optimizer=OptimizerSpec("SGD", {"lr": 0.1}),
    )
    head: Any = Head()
    need = asyncio.run(rehearse(head, plan, "0.1", tmp_path, {}))
    assert head.asked == asked
    assert need == (NEED if asked else None)
