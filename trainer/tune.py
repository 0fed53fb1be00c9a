"""How many threads, on which cores, a model trains fastest with on this phone: by measurement."""

from __future__ import annotations

import contextlib
import copy
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from trainer.formats import PROFILE, FormatError, Profile, Threads, Workload
from trainer.optimizers import Loss

_CPUS = Path("/sys/devices/system/cpu")
_SECONDS = 2.0
"""Of each number of threads: long enough for a phone's governor to settle."""
_LEAST_STEPS = 3
_HOPELESS = 1.3
"""So much slower than the best: more threads are not tried."""


def profile_path() -> Path:
    return Path.home() / "phonerack" / PROFILE


def read_profile(path: Path) -> Profile:
    """What the phone knows; nothing if the file is missing or damaged (it is measured anew)."""
    try:
        return Profile.read(path)
    except (OSError, FormatError):
        return Profile()


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


def best(seconds_of: Callable[[int], float], numbers: Iterable[int]) -> tuple[int, float]:
    """The number with the least seconds; the smaller of equals, since idle cores stay cool.

    Ends where more threads have become hopeless: the paper's phones were slower with 8 than 4.
    """
    found: tuple[int, float] | None = None
    for number in numbers:
        seconds = seconds_of(number)
        if found is None or seconds < found[1] * 0.97:
            found = (number, seconds)
        elif seconds > found[1] * _HOPELESS:
            break
    assert found is not None  # noqa: S101
    return found


def measure(model: torch.nn.Module, loss: Loss, workload: Workload) -> Threads:
    """Try the numbers of threads on a copy of `model`, which stays as it is."""
    trial = copy.deepcopy(model)
    images = torch.rand(workload.samples, *workload.shape)
    labels = torch.zeros(workload.samples, dtype=torch.int64)
    cores = fastest_cores()

    def seconds_of(number: int) -> float:
        use(number, cores[:number])
        return _sustained(lambda: loss(trial(images), labels).backward())

    number, seconds = best(seconds_of, candidates(len(cores)))
    pinned = tuple(sorted(cores[:number])) if number < len(cores) else ()
    return Threads(workload, number, pinned, seconds, time.time())


def _sustained(step: Callable[[], None]) -> float:
    """Median seconds of the second half of the steps: the first ones are a burst."""
    taken: list[float] = []
    began = time.perf_counter()
    while len(taken) < _LEAST_STEPS or time.perf_counter() - began < _SECONDS:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[len(taken) // 2 :])


def use(threads: int, cores: Sequence[int], free: int | None = None) -> None:
    """Compute with so many threads, and hold all threads that this process has now to `cores`,
    but for the one numbered `free`."""
    torch.set_num_threads(threads)
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
    use(measured.threads, sorted(allowed))  # until everything else has its threads
    path.parent.mkdir(parents=True, exist_ok=True)
    profile.with_threads(measured).write(path)
    return measured
