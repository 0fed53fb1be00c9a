"""One exchange, timed: any reduce of the trainer, its references included.

Run by mpirun, one process a phone; NumPy only, but for gloo. Rank 0 prints one JSON object:
seconds of each repeat on the slowest rank, and the CPU seconds that it took an average rank.

    mpirun … python on_phone.py '{"reduce": "ring"}' lengths.json --repeats 5

The file holds a list of numbers: how long the tensors are that are summed, one after another.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from trainer.exchange.engine import Engine
from trainer.exchange.reduce import open_world
from trainer.formats import Exchange


def measure(engine: Engine, lengths: list[int]) -> tuple[float, float]:
    """Seconds that one exchange took on the slowest rank, and CPU seconds of an average rank
    meanwhile."""
    data = [np.full(length, engine.rank + 1, np.float32) for length in lengths]
    engine.all_reduce(np.zeros(1, np.float32))  # so that all start together
    began, cpu_began = time.perf_counter(), time.process_time()
    for bucket in [engine.post(each) for each in data]:
        engine.wait(bucket)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    expected = engine.size * (engine.size + 1) / 2
    if any(each.min() != expected or each.max() != expected for each in data):
        raise RuntimeError(f"rank {engine.rank}: the sum is wrong")
    times = np.zeros(engine.size)
    times[engine.rank] = seconds
    cpu_times = np.full(1, cpu_seconds)
    return float(engine.all_reduce(times).max()), float(engine.all_reduce(cpu_times)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exchange", help="an exchange of the plan, as JSON")
    parser.add_argument("lengths", type=Path)
    parser.add_argument("--switches", default="", help="of the ranks, with commas")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()

    exchange = Exchange(**json.loads(options.exchange))
    switches = options.switches.split(",")
    engine = Engine(lambda: open_world(exchange, ()), exchange, switches)
    lengths = json.loads(options.lengths.read_text())
    results = [measure(engine, lengths) for _ in range(options.repeats)]
    if engine.rank == 0:
        seconds, cpu_seconds = zip(*results, strict=True)
        cpu_seconds = [each / engine.size for each in cpu_seconds]
        print(json.dumps({"ranks": engine.size, "seconds": seconds, "cpu_seconds": cpu_seconds}))
    engine.close()


if __name__ == "__main__":
    main()
