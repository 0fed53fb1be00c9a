"""A run that does not fit in its phones' memory is refused, with what would fit."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fleetctl.jobs.rehearsal import (
    NotRehearsed,
    PlanRefused,
    refitted,
    rehearse,
    too_large,
    too_small,
    with_room,
)
from fleetctl.remote import Fault, PhoneError, Result
from trainer.formats import (
    DataManifest,
    DataSpec,
    HeatSpec,
    MemoryNeed,
    ModelSpec,
    OptimizerSpec,
    Plan,
)

MIB = 1 << 20
NEED = MemoryNeed(300 * MIB, 400 * MIB, 100 * MIB, 20 * MIB)
PLAN = Plan(
    run="r",
    phones=("phone001", "phone002"),
    samples_per_rank=(32, 32),
    model=ModelSpec("resnet-50"),
    data=DataSpec("images", "images"),
    epochs=1,
    optimizer=OptimizerSpec("SGD", {"lr": 0.1}),
)


def test_a_run_that_fits_is_not_spoken_of() -> None:
    assert NEED.bytes_for(32) == 1340 * MIB
    assert too_large(PLAN, NEED, {"phone001": 1340 * MIB, "phone002": None}) is None


def test_a_phone_may_take_over_as_much_as_fits_at_a_time_and_never_less_than_it_had() -> None:
    plan = dataclasses.replace(PLAN, heat=HeatSpec(True, 43.0, (32, 32)))
    free = {"phone001": 1500 * MIB, "phone002": 800 * MIB}
    assert with_room(plan, NEED, free).heat.most_at_once == (40, 32)
    assert with_room(plan, NEED, {}).heat.most_at_once == (32, 32)
    assert with_room(PLAN, NEED, free) == PLAN


def test_the_tightest_phone_is_named_and_what_would_fit_it() -> None:
    reason = too_large(PLAN, NEED, {"phone001": 1000 * MIB, "phone002": 900 * MIB})
    assert reason == (
        "resnet-50 with 32 samples at a time needs about 1340 MiB on each phone; phone002 has "
        "900 MiB free (2 phones have too little). 10 samples at a time fit: set `global_batch` to "
        "at most 20, or `accumulate` to 4"
    )
    advised = dataclasses.replace(PLAN, accumulate=4)
    assert too_large(advised, NEED, {"phone001": 1000 * MIB, "phone002": 900 * MIB}) is None


def test_larger_shares_of_fewer_phones_are_computed_in_parts_that_fit() -> None:
    free = {"phone001": 1340 * MIB, "phone002": 900 * MIB}
    fitting = refitted(PLAN, NEED, free)
    assert fitting == dataclasses.replace(PLAN, accumulate=4)
    assert too_large(fitting, NEED, free) is None
    assert refitted(PLAN, NEED, {"phone001": 1340 * MIB, "phone002": None}) == PLAN
    asked_for = dataclasses.replace(PLAN, accumulate=8)
    assert refitted(asked_for, NEED, free) == asked_for


def test_whoever_takes_over_in_a_further_attempt_computes_no_more_at_a_time_than_fits() -> None:
    plan = dataclasses.replace(PLAN, heat=HeatSpec(True, 43.0, (32, 32)))
    fitting = refitted(plan, NEED, {"phone001": 1340 * MIB, "phone002": 900 * MIB})
    assert (fitting.accumulate, fitting.heat.most_at_once) == (4, (32, 10))


def test_parts_of_one_sample_do_not_help_batch_norm() -> None:
    large = dataclasses.replace(NEED, sample_bytes=80 * MIB)
    with pytest.raises(NotRehearsed, match=r"1 samples at a time fit.*; but .* BatchNorm"):
        refitted(PLAN, large, {"phone001": 800 * MIB})


def test_a_phone_without_memory_for_the_model_is_told_from_one_that_may_take_a_share() -> None:
    free = {"phone001": 750 * MIB, "phone002": 900 * MIB, "phone003": None}
    assert too_small(NEED, free) == {
        "phone001": "a rank of this run needs about 800 MiB of memory, 750 MiB are free"
    }


@pytest.mark.parametrize("free", [650 * MIB, 750 * MIB])
def test_a_model_that_is_too_large_by_itself_is_said_to_be_so(free: int) -> None:
    """Even a batch of one sample does not help where the copies of a checkpoint do not fit."""
    reason = too_large(PLAN, NEED, {"phone001": free}) or ""
    assert "too little for the model alone" in reason


def test_copies_of_a_large_model_count_more_than_few_samples() -> None:
    large = dataclasses.replace(NEED, copies_bytes=900 * MIB)
    assert large.bytes_for(1) == large.bytes_for(40) == 1600 * MIB
    assert large.samples_that_fit(1600 * MIB) == 45


LOST = PhoneError("phone001", Fault.LOST, "phone001 was lost")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Result(2, stderr="SGD has no argument `momentun`"), PlanRefused),
        (Result(2, stderr="No module named 'torchvision'"), NotRehearsed),
        (Result(137), NotRehearsed),
        (Result(None, error=LOST), NotRehearsed),
    ],
)
def test_what_torch_refuses_is_told_from_what_a_phone_cannot_do(
    tmp_path: Path, answer: Result, kind: type[Exception]
) -> None:
    class Phone:
        async def run_on(self, *_: Any, **__: Any) -> Result:
            return answer

    fleet: Any = Phone()
    folder = tmp_path / "images"
    folder.mkdir()
    manifest = DataManifest("images", 10, (3, 64, 64), "uint8", 0, (), ())
    manifest.write(folder / "manifest.json")

    with pytest.raises(NotRehearsed) as caught:
        asyncio.run(rehearse(fleet, PLAN, "r1", tmp_path, {}))
    assert type(caught.value) is kind
