"""Training steps, timed: our engine beside DistributedDataParallel over gloo, taking turns.

Run by mpirun, one process a phone. Both train the same model on the same samples in the same
processes; DDP both as it comes and with buckets like ours. Rank 0 prints one JSON object. DDP does
not send BatchNorm's statistics around here, as ours does not.

    mpirun … python steps_on_phone.py resnet18 --batch 16 --iterations 3 --rounds 5
    mpirun … python steps_on_phone.py digits-cnn --accuracy 0.98
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from trainer import load_data
from trainer.data import epoch_order
from trainer.exchange.engine import Engine
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange
from trainer.step import DataParallel
from trainer.threads import compute_with

Step = Callable[[torch.Tensor, torch.Tensor], object]
LOSS = nn.functional.cross_entropy
RATE, MOMENTUM = 0.1, 0.9
WARM_UP_STEPS = 2
"""In the second one DDP deals the gradients to its buckets anew, in the order of their coming."""


def digits_cnn() -> nn.Module:
    """The shipped job's model."""
    return nn.Sequential(
        *(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(48 * 16, 64), nn.ReLU(), nn.Linear(64, 10)),
    )


def built(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """A model for ten classes, and the shape of a sample."""
    torch.manual_seed(0)
    if name == "digits-cnn":
        return digits_cnn(), (1, 8, 8)
    import torchvision

    return getattr(torchvision.models, name)(num_classes=10), (3, 32, 32)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)


def our_step(model: nn.Module, engine: Engine | None, bucket_bytes: str | int) -> Step:
    executor = DataParallel(model, LOSS, optimizer_of(model), engine, bucket_bytes)
    size = engine.size if engine else 1
    return lambda images, labels: executor.step(images, labels, len(labels) * size)


def ddp_step(model: nn.Module, bucket_bytes: int | None = None) -> Step:
    """DDP as it comes, or with buckets as large as ours, whose gradients are views of them too."""
    options = {}
    if bucket_bytes is not None:
        options = {"bucket_cap_mb": bucket_bytes / 2**20, "gradient_as_bucket_view": True}
    copies = DistributedDataParallel(model, broadcast_buffers=False, **options)
    optimizer = optimizer_of(copies)

    def step(images: torch.Tensor, labels: torch.Tensor) -> None:
        optimizer.zero_grad()
        LOSS(copies(images), labels).backward()
        optimizer.step()

    return step


class Bench:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def together(self) -> None:
        self._engine.all_reduce(np.zeros(1, np.float32))

    def seconds(self, work: Callable[[], object], times: int = 1) -> float:
        """Of one of `times` turns, on the slowest rank; all ranks start together."""
        self.together()
        began = time.perf_counter()
        for _ in range(times):
            work()
        all_seconds = np.zeros(self._engine.size)
        all_seconds[self._engine.rank] = (time.perf_counter() - began) / times
        return float(self._engine.all_reduce(all_seconds).max())


def backward_seconds(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    loss = LOSS(model(images), labels)
    began = time.perf_counter()
    loss.backward()
    return time.perf_counter() - began


def steps(options: argparse.Namespace, engine: Engine) -> dict[str, object]:
    """Seconds of an iteration each way, by round; and of compute and exchange alone."""
    model, shape = built(options.model)
    images = torch.rand(options.batch, *shape)
    labels = torch.arange(options.batch) % 10
    ways = {
        "ours": our_step(copy.deepcopy(model), engine, options.bucket_bytes),
        "ddp": ddp_step(copy.deepcopy(model)),
        "ddp-tuned": ddp_step(copy.deepcopy(model), options.bucket_bytes),
        "compute": our_step(copy.deepcopy(model), None, "all"),
    }
    gradients = np.zeros(sum(p.numel() for p in model.parameters()), np.float32)
    bench, found = Bench(engine), {name: [] for name in (*ways, "exchange", "backward")}
    for step in ways.values():
        for _ in range(WARM_UP_STEPS):
            step(images, labels)
    for _ in range(options.rounds):
        for name, step in ways.items():
            taken = bench.seconds(lambda: step(images, labels), options.iterations)  # noqa: B023
            found[name].append(taken)
        found["exchange"].append(bench.seconds(lambda: engine.all_reduce(gradients)))
        bench.together()
        found["backward"].append(backward_seconds(model, images, labels))
    return {"bytes": gradients.nbytes, **found}


def to_accuracy(options: argparse.Namespace, engine: Engine) -> dict[str, object]:
    """Seconds until the test accuracy is reached, each way, by round."""
    digits = load_data("digits")
    train = torch.from_numpy(digits.train.images[:]), torch.from_numpy(digits.train.labels[:])
    test = torch.from_numpy(digits.test.images[:]), torch.from_numpy(digits.test.labels[:])
    bench, found = Bench(engine), {"ours": [], "ddp": [], "epochs": []}
    whole = options.batch * engine.size

    def train_until(step: Step, model: nn.Module) -> int:
        for epoch in range(200):
            order = torch.from_numpy(epoch_order(len(train[1]), 0, epoch))
            for start in range(0, len(order) - whole + 1, whole):
                own = order[start + engine.rank * options.batch :][: options.batch]
                step(train[0][own], train[1][own])
            with torch.no_grad():
                right = (model(test[0]).argmax(1) == test[1]).float().mean().item()
            if right >= options.accuracy:
                return epoch + 1
        raise RuntimeError(f"accuracy {options.accuracy} is not reached")

    for _ in range(options.rounds):
        for way in ("ours", "ddp"):
            model, _ = built(options.model)
            ours = way == "ours"
            step = our_step(model, engine, options.bucket_bytes) if ours else ddp_step(model)
            epochs: list[int] = []
            found[way].append(bench.seconds(lambda: epochs.append(train_until(step, model))))  # noqa: B023
            found["epochs"] += epochs
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="digits-cnn, or a model of torchvision")
    parser.add_argument("--batch", type=int, default=16, help="samples a phone")
    parser.add_argument("--bucket-bytes", type=int, default=1 << 20)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--accuracy", type=float, help="train digits until it is reached")
    options = parser.parse_args()
    compute_with(1)
    engine = Engine(MpiTransport, Exchange())
    distributed.init_process_group("gloo")
    answer = (to_accuracy if options.accuracy else steps)(options, engine)
    if engine.rank == 0:
        print(json.dumps(answer))
    distributed.barrier()
    engine.close()


if __name__ == "__main__":
    main()
