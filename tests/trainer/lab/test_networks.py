"""Whole runs of networks with BatchNorm: alike on any number of phones, and resumed on another."""

import dataclasses
import io

import mpi
import pytest
import torch

from trainer import checkpoint, models
from trainer.formats import CheckpointSpec, DataSpec, ModelSpec, OptimizerSpec, SchedulerSpec

pytestmark = pytest.mark.soak

IMAGES = {"num_classes": 3, "in_channels": 3, "stem": "small"}


def a_network(*samples: int, **changes: object):
    plan = mpi.a_plan(
        *samples,
        model=ModelSpec("resnet-18", IMAGES),
        data=DataSpec("images", "images", flip=True, crop_pixels=10, normalise=True),
        optimizer=OptimizerSpec("AdamW", {"lr": 0.001}),
        scheduler=SchedulerSpec("StepLR", {"step_size": 2, "gamma": 0.5}, "iteration"),
        warmup_iterations=2,
        sync_batch_norm=True,
        epochs=2,
        checkpoint=CheckpointSpec(every_iterations=2, keep=9, ranks=1),
    )
    return dataclasses.replace(plan, **changes)


def parameters(run: mpi.Run) -> dict[str, torch.Tensor]:
    with torch.device("cpu"):
        model = models.build(run.plan.model)
    found, skipped = checkpoint.newest_valid(
        run.folder / "checkpoints", run.plan.model, checkpoint.layout_sha256(model)
    )
    assert found is not None, skipped
    state: dict[str, torch.Tensor] = torch.load(io.BytesIO(found.payload), weights_only=True)[
        "model"
    ]
    return state


def test_a_run_that_goes_on_with_fewer_phones_ends_like_an_undisturbed_one(tmp_path) -> None:
    whole = mpi.train(a_network(3, 3), tmp_path / "whole")
    mpi.train(a_network(3, 3, epochs=1), tmp_path / "parts")
    rest = mpi.train(a_network(2, 2, 2, resume="checkpoints"), tmp_path / "parts")
    assert len(rest.accuracies) == 3
    assert len({final.parameters_sha256 for final in rest.finals}) == 1
    ours, theirs = parameters(rest), parameters(whole)
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=5e-2, atol=5e-3, msg=name)


def test_statistics_of_each_phone_s_own_are_one_after_a_run(tmp_path) -> None:
    run = mpi.train(a_network(2, 4, sync_batch_norm=False, threads="auto"), tmp_path)
    assert len(run.accuracies) == 2
    assert len({final.parameters_sha256 for final in run.finals}) == 1
    (start,) = run.events("start")
    assert "BatchNorm computes statistics of only 2 samples" in start.note
    assert "phone001 computes with" in start.note
    # 15 images in batches of 6: the last 3 would leave a phone with one.
    (start,) = run.events("start")
    assert "3 samples of each epoch" in start.note
    assert [event.images for event in run.events("iteration")] == [6] * 4
