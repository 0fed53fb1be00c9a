"""What was measured of a rack, for planners: links, compute, memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer.formats.measured import Input
from trainer.formats.plan import ModelSpec
from trainer.strictjson import Document


@dataclass(frozen=True, slots=True)
class LinkProfile:
    """The cost of a ring over the rack's links: 2(p-1)·alpha + 2(p-1)/p·S/B, for `method`.

    `error` is the root mean square of the relative errors of this formula; `phones` the most that
    it was fitted to. `time` in Unix seconds; `run` is the bench that measured.
    """

    method: str
    alpha_seconds: float
    bytes_per_second: float
    error: float
    phones: int
    time: float
    run: str


@dataclass(frozen=True, slots=True)
class ComputeProfile:
    """A sustained training step of one phone by itself, without exchange. What of `step_seconds`
    is neither forward nor backward is the optimiser's."""

    phone: str
    device: str
    model: ModelSpec
    input: Input
    batch: int
    threads: int
    forward_seconds: float
    backward_seconds: float
    step_seconds: float
    gradient_bytes: int | None
    """What phones exchange in each iteration; None where it was not counted."""
    time: float
    run: str


@dataclass(frozen=True, slots=True)
class MemoryProfile:
    """The largest batch that fits one phone; `bounded`: more would, but was not asked for."""

    phone: str
    device: str
    model: ModelSpec
    input: Input
    largest_batch: int
    peak_bytes: int
    bounded: bool
    time: float
    run: str


@dataclass(frozen=True, slots=True)
class RackProfile(Document):
    """The newest measurement of each kind."""

    rack: str
    links: tuple[LinkProfile, ...] = ()
    compute: tuple[ComputeProfile, ...] = ()
    memory: tuple[MemoryProfile, ...] = ()
    version: Literal[2] = 2
