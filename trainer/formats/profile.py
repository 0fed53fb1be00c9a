"""What a phone has measured of itself; kept on it as $HOME/phonerack/profile.json."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trainer.strictjson import Document

PROFILE = "profile.json"
_KEPT = 64
"""Entries; the oldest go, so that the file stays small."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What was computed: one step of a model for so many samples of a shape, by this torch."""

    model: str
    """Name, arguments and a digest of its layers, as JSON: a name alone may be of any program's."""
    shape: tuple[int, ...]
    samples: int
    torch: str
    cores: tuple[int, ...] = ()
    """That the process may use: Android gives fewer to an app in the background."""


@dataclass(frozen=True, slots=True)
class Threads:
    """The number of threads that a workload is fastest with."""

    workload: Workload
    threads: int
    cores: tuple[int, ...]
    """The cores that they are held to; empty: any."""
    seconds: float
    """Of one forward and backward pass, when it was measured."""
    time: float
    blas_threads: int = 1
    """Of OpenBLAS, in each of these threads."""

    @property
    def pools(self) -> tuple[int, int]:
        return self.threads, self.blas_threads


@dataclass(frozen=True, slots=True)
class Profile(Document):
    threads: tuple[Threads, ...] = ()
    version: Literal[1] = 1

    def known(self, workload: Workload) -> Threads | None:
        return next((each for each in self.threads if each.workload == workload), None)

    def with_threads(self, measured: Threads) -> Profile:
        """The profile with this in the place of what it knew of the workload."""
        others = [each for each in self.threads if each.workload != measured.workload]
        return replace(self, threads=(*others, measured)[-_KEPT:])
