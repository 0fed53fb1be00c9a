"""The phone itself, from what the kernel shows to an app: it varies by vendor and Android."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator

from exporters.metrics import (
    CPU_FREQUENCY,
    CPU_FREQUENCY_LIMIT,
    CPU_FREQUENCY_MAX,
    CPUS_ALLOWED,
    CPUS_POSSIBLE,
    EXPORTER_CPU,
    EXPORTER_RESIDENT,
    MEMORY_AVAILABLE,
    MEMORY_SIZE,
    PROCESSES,
    PROCESSES_RESIDENT,
    STORAGE_FREE,
    STORAGE_SIZE,
    SWAP_FREE,
    SWAP_SIZE,
    THROTTLED,
    UPTIME,
    Sample,
)
from exporters.sources import Layout, Source, Unavailable, numbered, read_text
from exporters.sources.throttle import Lasting

MOST_POLICIES = 4

_PROGRAMS = {
    "python": "python",
    "mpirun": "mpi",
    "prterun": "mpi",
    "prted": "mpi",
    "orted": "mpi",
    "sshd": "ssh",
    "sshd-session": "ssh",
    "ssh": "ssh",
}


def sources(layout: Layout) -> list[Source]:
    readers: dict[str, Callable[[Layout], Iterator[Sample]]] = {
        "cpuset": cpuset,
        "memory": memory,
        "storage": storage,
        "uptime": uptime,
        "processes": processes,
        "exporter": exporter,
    }
    others = [Source(name, _bound(read, layout)) for name, read in readers.items()]
    return [_frequency(layout), *others]


def _frequency(layout: Layout) -> Source:
    slowed = Lasting()

    def read() -> list[Sample]:
        samples = list(frequency(layout))
        limited = is_limited(samples)
        if limited is None:
            return samples
        seconds = slowed.look(limited, time.monotonic())
        return [*samples, THROTTLED.sample(seconds, "frequency_limit")]

    return Source("frequency", read)


def is_limited(samples: list[Sample]) -> bool | None:
    """Whether a cluster of cores may not reach the frequency that it is built for; None where
    that cannot be told."""
    most = {s.labels: s.value for s in samples if s.metric is CPU_FREQUENCY_MAX}
    found = [
        s.value < most[s.labels]
        for s in samples
        if s.metric is CPU_FREQUENCY_LIMIT and s.labels in most
    ]
    return any(found) if found else None


def _bound(
    read: Callable[[Layout], Iterator[Sample]], layout: Layout
) -> Callable[[], list[Sample]]:
    return lambda: list(read(layout))


def frequency(layout: Layout) -> Iterator[Sample]:
    readable = 0
    folders = numbered(layout.sys / "devices/system/cpu/cpufreq", "policy")
    for folder in folders[:MOST_POLICIES]:
        for metric, name in (
            (CPU_FREQUENCY, "scaling_cur_freq"),
            (CPU_FREQUENCY_LIMIT, "scaling_max_freq"),
            (CPU_FREQUENCY_MAX, "cpuinfo_max_freq"),
        ):
            with contextlib.suppress(OSError, ValueError):
                kilohertz = int(read_text(folder / name))
                if metric.is_possible(kilohertz * 1000):
                    readable += 1
                    yield metric.sample(kilohertz * 1000, folder.name.removeprefix("policy"))
    if not readable:
        raise Unavailable("no frequency can be read")


def cpuset(layout: Layout) -> Iterator[Sample]:
    """Android keeps a background app off the fast cores."""
    status = read_text(layout.proc / "self/status")
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)$", status, re.MULTILINE)
    if not allowed:
        raise Unavailable("no Cpus_allowed_list in /proc/self/status")
    yield CPUS_ALLOWED.sample(cpu_count(allowed[1]))
    with contextlib.suppress(OSError):
        yield CPUS_POSSIBLE.sample(cpu_count(read_text(layout.sys / "devices/system/cpu/possible")))


def cpu_count(ranges: str) -> int:
    """How many cores `0-3,6` means. Raises Unavailable for what is no such list."""
    total = 0
    for part in ranges.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise Unavailable(f"not a list of cores: {ranges[:40]!r}")
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total


def memory(layout: Layout) -> Iterator[Sample]:
    text = read_text(layout.proc / "meminfo")
    kibibytes = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    for metric, key in (
        (MEMORY_SIZE, "MemTotal"),
        (MEMORY_AVAILABLE, "MemAvailable"),
        (SWAP_SIZE, "SwapTotal"),
        (SWAP_FREE, "SwapFree"),
    ):
        if key in kibibytes:
            yield metric.sample(int(kibibytes[key]) * 1024)
    if "MemAvailable" not in kibibytes:
        raise Unavailable("no MemAvailable in /proc/meminfo")


def storage(layout: Layout) -> Iterator[Sample]:
    state = os.statvfs(layout.home)
    yield STORAGE_SIZE.sample(state.f_blocks * state.f_frsize)
    yield STORAGE_FREE.sample(state.f_bavail * state.f_frsize)


def uptime(_: Layout) -> Iterator[Sample]:
    """From the clock, since Android denies /proc/uptime; a wrong date does not matter to it."""
    yield UPTIME.sample(time.clock_gettime(time.CLOCK_BOOTTIME))


def processes(layout: Layout) -> Iterator[Sample]:
    """The app's own; Android shows no others."""
    count, resident = Counter[str](), Counter[str]()
    page = resource.getpagesize()
    for folder in layout.proc.iterdir():
        # A process may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdecimal() and folder.stat().st_uid == os.getuid():
                name = read_text(folder / "comm").rstrip(".0123456789")
                program = _PROGRAMS.get(name, "other")
                resident[program] += int(read_text(folder / "statm").split()[1]) * page
                count[program] += 1
    if not count:
        raise Unavailable("no process of the app can be seen in /proc")
    for program in sorted(set(_PROGRAMS.values()) | {"other"}):
        yield PROCESSES.sample(count[program], program)
        yield PROCESSES_RESIDENT.sample(resident[program], program)


def exporter(layout: Layout) -> Iterator[Sample]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield EXPORTER_CPU.sample(usage.ru_utime + usage.ru_stime)
    pages = int(read_text(layout.proc / "self/statm").split()[1])
    yield EXPORTER_RESIDENT.sample(pages * resource.getpagesize())
