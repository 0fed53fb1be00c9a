"""What threads.py starts in the lab image: prints its measurements as JSON.

python3 threads_lab.py THREADS BATCH SIDE ROUNDS
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch

from trainer import models
from trainer.formats import ModelSpec
from trainer.threads import blas_threads, compute_with

MODELS = ("resnet-18", "alexnet", "mobilenet-v2")
CLASSES = 10


def measure(name: str, pools: list[tuple[int, int]], sizes: tuple[int, int, int]) -> list[Any]:
    """Each way's best step, wall and processor; they take turns."""
    batch, side, rounds = sizes
    torch.manual_seed(0)
    model = models.build(ModelSpec(name, {"num_classes": CLASSES})).train()
    images, labels = torch.rand(batch, 3, side, side), torch.zeros(batch, dtype=torch.int64)
    best = {each: (float("inf"), 0.0) for each in pools}
    for turn in range(rounds + 1):
        for each in pools:
            compute_with(*each)
            began, worked = time.perf_counter(), time.process_time()
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            taken = time.perf_counter() - began, time.process_time() - worked
            if turn:  # the first one warms up
                best[each] = min(best[each], taken)
    return [
        {"model": name, "torch": each[0], "openblas": each[1], "ms": took[0] * 1e3}
        | {"cpu_ms": took[1] * 1e3}
        for each, took in best.items()
    ]


def main(threads: int, batch: int, side: int, rounds: int) -> None:
    torch.backends.mkldnn.enabled = False  # Termux's torch has none
    if blas_threads() is None:
        sys.exit("torch computes without OpenBLAS here: there is nothing to compare")
    pools = list(dict.fromkeys([(1, 1), (threads, 1), (1, threads), (threads, threads)]))
    rows = [row for name in MODELS for row in measure(name, pools, (batch, side, rounds))]
    print(json.dumps({"torch": torch.__version__, "batch": batch, "side": side, "steps": rows}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
