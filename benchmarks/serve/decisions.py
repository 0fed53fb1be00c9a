"""How long one decision of the queue takes: 1,000 queued jobs over 138 simulated phones.

    python benchmarks/serve/decisions.py [--jobs 1000] [--phones 138]

The queue is worked off: jobs start, end, and are followed by new ones, so that the queue stays as
long as it is, with the rack full, half free, and all free. Then whole turns of `fleetctl serve`,
databases and all, over a full rack. Prints milliseconds of processor time, since others may be at
work on the machine; reading waits for nothing else.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import RackPaths, load_rack
from fleetctl.rack.placement import Floor
from fleetctl.serve.decide import Running, Waiting, decide
from fleetctl.serve.queue import Entry, Queue
from fleetctl.serve.service import Service
from fleetctl.state import State


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


def whole_turns(jobs: int, phones: int, turns: int) -> list[float]:
    """Milliseconds of turns of the service: rack file, run folders, both databases, decision."""
    chance = random.Random(6)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PHONERACK_HOME"] = folder
        rack_file = Path(folder) / "rack.yml"
        places = (f"{{addresses: 10.9.{1 + i // 250}.{1 + i % 250}}}" for i in range(phones))
        rack_file.write_text(
            "rack: bench\nnetwork: {cidr: 10.9.0.0/16, medium: ethernet, controller: 10.9.0.1}\n"
            "phones:\n" + "".join(f"  - {place}\n" for place in places)
        )
        rack = load_rack(rack_file)
        paths = RackPaths(rack.name)
        paths.ensure()
        floor = Floor(tuple(rack.ring()), ("",) * phones)
        with State(paths.state_db) as state, Queue(paths.queue_db) as queue:
            state.record_contact(dict.fromkeys(rack.phones, True))
            for phone in rack.phones:
                state.record_health(phone, "OK")
            for number in range(jobs):
                queue.add(_entry(some_job(number, time.time(), floor, chance)))
            run = RunFolder(paths.runs / "long-1")
            run.path.mkdir()
            state.allocate(run.name, list(rack.phones))
            run.record("created", phones=list(rack.phones))
            with run.supervise():
                service = Service(rack_file, paths, state, queue, print, supervisor=("false",))
                return [_milliseconds(service) for _ in range(turns)]


def _entry(job: Waiting) -> Entry:
    return Entry(
        number=0,
        name=job.name,
        arrived=job.arrived,
        who="bench",
        priority=job.priority,
        least=job.least,
        most=job.most,
        spares=job.spares,
        among=job.among,
        limit_seconds=job.limit_seconds,
    )


def _milliseconds(service: Service) -> float:
    began = time.process_time()
    turn = service.turn()
    took = (time.process_time() - began) * 1000
    assert not turn.decision.starts  # noqa: S101
    return took


def told(what: str, took: Sequence[float]) -> str:
    order = sorted(took)
    return (
        f"{what}: median {statistics.median(order):.1f} ms, "
        f"99 % {order[int(len(order) * 0.99)]:.1f} ms, most {order[-1]:.1f} ms"
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
        began = time.process_time()
        decision = decide(floor, [*waiting.values()], [*running.values()], unusable, now)
        took.append((time.process_time() - began) * 1000)
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
    size = f"{options.jobs} jobs, {options.phones} phones"
    print(told(f"{size}, {len(took)} decisions, {started} starts", took))
    turns = whole_turns(options.jobs, options.phones, options.decisions // 5)
    print(told(f"{size}, {len(turns)} turns of the service", turns))


if __name__ == "__main__":
    main()
