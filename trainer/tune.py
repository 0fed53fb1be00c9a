"""How many threads, on which cores, a model trains fastest with on this phone: by measurement."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from trainer.formats import PROFILE, FormatError, ModelSpec, Profile, Threads, Workload
from trainer.optimizers import Loss
from trainer.threads import compute_with

_CPUS = Path("/sys/devices/system/cpu")
_SECONDS = 2.0
"""Of each number of threads: long enough for a phone's governor to settle."""
_LEAST_STEPS = 3
_HOPELESS = 1.3
"""So much slower than the best: more threads are not tried."""

type Pools = tuple[int, int]
"""Threads of torch, and of OpenBLAS in each of these."""


def profile_path() -> Path:
    return Path.home() / "phonerack" / PROFILE


def read_profile(path: Path) -> Profile:
    """What the phone knows; nothing if the file is missing or damaged (it is measured anew)."""
    try:
        return Profile.read(path)
    except (OSError, FormatError):
        return Profile()


def workload_of(
    spec: ModelSpec, model: torch.nn.Module, shape: tuple[int, ...], samples: int
) -> Workload:
    """What this process is about to compute, as the profile names it."""
    layers = repr(model) + repr([tuple(each.shape) for each in model.parameters()])
    digest = hashlib.sha256(layers.encode()).hexdigest()[:16]
    return Workload(
        model=json.dumps([spec.name, spec.args, digest], sort_keys=True),
        shape=shape,
        samples=samples,
        torch=torch.__version__,
        cores=tuple(sorted(os.sched_getaffinity(0))),
    )


def fastest_cores(cpus: Path = _CPUS) -> list[int]:
    """The cores that this process may use, fastest first; equal ones in their order."""

    def speed(core: int) -> int:
        try:
            return int((cpus / f"cpu{core}/cpufreq/cpuinfo_max_freq").read_text())
        except (OSError, ValueError):
            return 0  # hidden, as on many phones: then all count as equal

    return sorted(os.sched_getaffinity(0), key=lambda core: (-speed(core), core))


def candidates(cores: int) -> list[int]:
    """Numbers of threads worth trying: powers of two, and all cores."""
    return sorted({*(2**i for i in range(cores.bit_length()) if 2**i <= cores), cores})


def best(seconds_of: Callable[[Pools], float], numbers: Iterable[int]) -> tuple[Pools, float]:
    """The threads with the least seconds; the fewer of equals, since idle cores stay cool.

    Either torch has them or OpenBLAS. A way that has become hopeless with so many is not tried with
    more: the paper's phones were slower with 8 than with 4.
    """
    found: tuple[Pools, float] | None = None
    hopeless: set[bool] = set()
    for number in numbers:
        for pools in dict.fromkeys([(number, 1), (1, number)]):
            if (of_blas := pools[1] > 1) in hopeless:
                continue
            seconds = seconds_of(pools)
            if found is None or seconds < found[1] * 0.97:
                found = (pools, seconds)
            elif seconds > found[1] * _HOPELESS:
                hopeless.add(of_blas)
    assert found is not None  # noqa: S101
    return found


def measure(model: torch.nn.Module, loss: Loss, workload: Workload) -> Threads:
    """Try the numbers of threads on a copy of `model`, which stays as it is."""
    trial = copy.deepcopy(model)
    images = torch.rand(workload.samples, *workload.shape)
    labels = torch.zeros(workload.samples, dtype=torch.int64)
    cores = fastest_cores()

    def seconds_of(pools: Pools) -> float:
        use(pools, cores[: max(pools)])
        return _sustained(lambda: loss(trial(images), labels).backward())

    pools, seconds = best(seconds_of, candidates(len(cores)))
    pinned = tuple(sorted(cores[: max(pools)])) if max(pools) < len(cores) else ()
    return Threads(workload, pools[0], pinned, seconds, time.time(), blas_threads=pools[1])


def _sustained(step: Callable[[], None]) -> float:
    """Median seconds of the second half of the steps: the first ones are a burst."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < _LEAST_STEPS or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[len(taken) // 2 :])


def use(pools: Pools, cores: Sequence[int], free: int | None = None) -> None:
    """Compute with so many threads, and hold all threads that this process has now to `cores`,
    but for the one numbered `free`."""
    compute_with(*pools)
    if cores:
        own = {int(thread) for thread in os.listdir("/proc/self/task")}  # noqa: PTH208
        for thread in own - {free}:
            with contextlib.suppress(OSError):  # it has ended, or the phone does not allow it
                os.sched_setaffinity(thread, cores)


def choose(model: torch.nn.Module, loss: Loss, workload: Workload, path: Path) -> Threads:
    """From the phone's profile, or measured now and kept there."""
    profile = read_profile(path)
    known = profile.known(workload)
    if known is not None:
        return known
    allowed = os.sched_getaffinity(0)
    measured = measure(model, loss, workload)
    # any core, until everything else has its threads
    use(measured.pools, sorted(allowed))
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.with_threads(measured).write(path)
    return measured
