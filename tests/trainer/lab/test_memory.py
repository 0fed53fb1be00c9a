"""What a rank is said to need is what it takes: the peak of real processes, beside it."""

import json
import os
import subprocess
import sys

import mpi
import pytest
import torch

from trainer import memory
from trainer.formats import ModelSpec, OptimizerSpec, PlanError

STEP = """
import json, resource, sys, torch
from trainer import models
from trainer.formats import Plan
from trainer.optimizers import build_optimizer
from trainer.step import DataParallel
plan, samples, pixels, onednn = Plan.read(sys.argv[1]), *map(int, sys.argv[2:])
torch.backends.mkldnn.enabled = bool(onednn)
torch.set_num_threads(1)
import torchvision
model = models.build(plan.model)
optimizer = build_optimizer(plan.optimizer, model.parameters())
step = DataParallel(model, torch.nn.CrossEntropyLoss(), optimizer, None, "all").step
images, labels = torch.rand(samples, 3, pixels, pixels), torch.zeros(samples, dtype=torch.int64)
for _ in range(2):
    step(images, labels, samples)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(plan, folder, samples: int, pixels: int, onednn: bool) -> int:
    plan.write(folder / "plan.json")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            STEP,
            folder / "plan.json",
            *map(str, (samples, pixels, int(onednn))),
        ],
        env={**os.environ, "PYTHONPATH": str(mpi.PROJECT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("onednn", [True, False], ids=["onednn", "phone"])
@pytest.mark.parametrize(
    ("name", "samples", "pixels"),
    [("resnet-18", 8, 160), ("mobilenet-v2", 8, 160), ("squeezenet", 16, 160), ("alexnet", 8, 96)],
)
def test_the_peak_of_a_real_step_is_what_was_said(
    tmp_path, monkeypatch, name, samples, pixels, onednn
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: onednn)
    optimizer = OptimizerSpec("sgd", {"lr": 0.01, "momentum": 0.9})
    plan = mpi.a_plan(samples, model=ModelSpec(name), optimizer=optimizer)
    said = memory.need(plan, (3, pixels, pixels))
    step = said.model_bytes + samples * said.sample_bytes
    taken = peak(plan, tmp_path, samples, pixels, onednn) - peak(
        mpi.a_plan(1, model=ModelSpec("digits-cnn", {"in_channels": 3})), tmp_path, 1, 8, onednn
    )
    print(name, onednn, f"said {step >> 20} MiB, taken {taken >> 20} MiB")
    assert 0.8 * taken < step < 1.6 * taken + (32 << 20)


def test_a_rehearsal_grows_with_samples_and_with_the_optimiser() -> None:
    plans = [
        mpi.a_plan(8, model=ModelSpec("resnet-18"), optimizer=OptimizerSpec(name, {"lr": 0.1}))
        for name in ("SGD", "Adam")
    ]
    sgd, adam = (memory.need(plan, (3, 64, 64)) for plan in plans)
    parameters, largest = 4 * 11_689_512, 4 * 512 * 512 * 9
    assert sgd.model_bytes == pytest.approx(2 * parameters + largest, rel=0.01)
    assert adam.model_bytes == pytest.approx(4 * parameters + largest, rel=0.01)
    assert adam.bytes_for(600) - adam.bytes_for(400) == 200 * adam.sample_bytes
    larger = memory.need(plans[0], (3, 128, 128))
    assert larger.sample_bytes == pytest.approx(4 * sgd.sample_bytes, rel=0.1)
    free = sgd.bytes_for(400)
    assert sgd.samples_that_fit(free) == 400
    assert sgd.samples_that_fit(sgd.runtime_bytes) == 0


@pytest.mark.soak
def test_what_torch_refuses_is_told_before_a_launch(tmp_path) -> None:
    plan = mpi.a_plan(8, optimizer=OptimizerSpec("Adam", {"lr": 0.1, "speed": 3}))
    with pytest.raises(PlanError, match=r"optimizer Adam\(lr=0.1, speed=3\)"):
        memory.need(plan, (1, 8, 8))
    done = subprocess.run(
        [sys.executable, "-m", "trainer.memory", "1x8x8"],
        input=mpi.a_plan(8).to_json(),
        env={**os.environ, "PYTHONPATH": str(mpi.PROJECT)},
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout)["sample_bytes"] > 0, done.stderr
