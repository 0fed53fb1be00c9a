"""Training steps with exchange on synthetic samples, iteration by iteration, with temperatures.

Whether the phones stop is decided together: each iteration sums one number besides the gradients
only when a time was given, so that a run by iterations exchanges exactly what training does.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from trainer import depthwise
from trainer.errors import TrainerError
from trainer.exchange.engine import Engine
from trainer.exchange.reduce import open_world
from trainer.formats import StepTime, Trained, TrainingSpec
from trainer.measure.compute import build_for, synthetic
from trainer.measure.heat import Thermometer
from trainer.optimizers import build_optimizer, with_heads
from trainer.step import DataParallel
from trainer.threads import compute_with


class WorldError(TrainerError):
    """The world is not the one that was planned."""


def measure(spec: TrainingSpec) -> Trained:
    """This rank's iterations. Raises WorldError."""
    compute_with(spec.threads)
    torch.manual_seed(0)
    model = build_for(spec.model, spec.input).train()
    loss = with_heads(torch.nn.functional.cross_entropy, model)
    optimizer = build_optimizer(spec.optimizer, model.parameters())
    engine = Engine(lambda: open_world(spec.exchange, spec.phones), spec.exchange, spec.switches)
    if engine.size != len(spec.phones):
        engine.abandon()
        raise WorldError(f"the world has {engine.size} ranks, {len(spec.phones)} phones planned")
    samples = spec.samples_per_rank[engine.rank]
    images, labels = synthetic(spec.input, samples)
    depthwise.speed_up(model, torch.zeros(1, *spec.input.shape), max(1, samples))  # as in a run
    step = DataParallel(model, loss, optimizer, engine, spec.exchange.bucket_bytes)
    global_batch = sum(spec.samples_per_rank)
    with Thermometer() as thermometer:

        def one() -> StepTime:
            done = step.step(images, labels, global_batch)
            return StepTime(
                time.time(),
                done.compute_seconds,
                done.exchange_seconds,
                done.wait_seconds,
                thermometer.celsius,
            )

        one()  # warms up, and all begin together
        began = time.monotonic()
        steps = [one()]
        while len(steps) < spec.iterations or _go_on(engine, spec.seconds, began):
            steps.append(one())
    engine.close()
    return Trained(spec.phones[engine.rank], samples, tuple(steps))


def _go_on(engine: Engine, seconds: float, began: float) -> bool:
    """Whether rank 0 wants another iteration; equal on all ranks, whose clocks differ."""
    if not seconds:
        return False
    wish = np.array([time.monotonic() - began < seconds], np.float32)
    return bool(engine.broadcast(wish, 0)[0])
