"""How long one decision of the queue takes: 1,000 queued jobs over 138 simulated phones.

    python benchmarks/serve/decisions.py [--jobs 1000] [--phones 138]

The queue is worked off: jobs start, end, and are followed by new ones, so that the queue stays as
long as it is, with the rack full, half free, and all free. Prints milliseconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from fleetctl.serve.decide import Running, Waiting, decide
from fleetctl.serve.placement import Floor


def some_job(number: int, now: float, phones: Floor, chance: random.Random) -> Waiting:
    wanted = chance.choice([1, 2, 4, 8, 16, 32, 64, len(phones.names)])
    among = tuple(sorted(chance.sample(phones.names, wanted))) if chance.random() < 0.1 else ()
    return Waiting(
        name=f"job-{number}",
        number=number,
        arrived=now,
        priority=chance.randint(-3, 3),
        least=max(wanted // 2, 1) if chance.random() < 0.3 else wanted,
        most=wanted,
        spares=chance.randint(0, 2),
        among=among,
        limit_seconds=chance.choice([None, 600.0, 3600.0, 36000.0]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--phones", type=int, default=138)
    parser.add_argument("--decisions", type=int, default=500)
    options = parser.parse_args()
    chance = random.Random(6)  # noqa: S311
    names = tuple(f"phone{i:03}" for i in range(1, options.phones + 1))
    floor = Floor(names, tuple(f"sw{i // 46}" for i in range(options.phones)))
    now, number = 0.0, options.jobs
    waiting = {f"job-{i}": some_job(i, now, floor, chance) for i in range(options.jobs)}
    running: dict[str, Running] = {}
    took, started = [], 0
    for turn in range(options.decisions):
        unusable = dict.fromkeys(chance.sample(names, 3), "drained")
        began = time.perf_counter()
        decision = decide(floor, [*waiting.values()], [*running.values()], unusable, now)
        took.append((time.perf_counter() - began) * 1000)
        for start in decision.starts:
            started += 1
            limit = waiting.pop(start.name).limit_seconds
            ends = None if limit is None else now + limit
            running[start.name] = Running(start.name, (*start.phones, *start.spares), ends)
            waiting[f"job-{number}"] = some_job(number, now, floor, chance)
            number += 1
        now += 60
        # Now and then all end at once, as when a rack was repaired.
        ended = [*running] if turn % 50 == 49 else [n for n in running if chance.random() < 0.2]
        for name in ended:
            del running[name]
    took.sort()
    print(
        f"{options.jobs} jobs, {options.phones} phones, {len(took)} decisions, {started} starts: "
        f"median {statistics.median(took):.1f} ms, 99 % {took[int(len(took) * 0.99)]:.1f} ms, "
        f"most {took[-1]:.1f} ms"
    )


if __name__ == "__main__":
    main()
