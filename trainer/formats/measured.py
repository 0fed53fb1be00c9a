"""What `fleetctl bench` asks phones to measure, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainer.formats.plan import Exchange, ModelSpec, OptimizerSpec
from trainer.strictjson import Document

Method = Literal["ring", "hierarchical", "mpi", "mpi-tuned", "gloo"]
"""Ways to all-reduce. `mpi-tuned` is MPI_Allreduce with Open MPI's own ring, which it does not
choose by itself; mpirun has to be told."""

Operation = Literal["all-reduce", "one-to-many", "many-to-many"]
Way = Literal["packed", "chunk-wise"]


@dataclass(frozen=True, slots=True)
class CollectivesSpec(Document):
    """One method on all phones of a launch. Sizes are the bytes that each phone holds."""

    phones: tuple[str, ...]
    method: Method
    sizes_bytes: tuple[int, ...]
    repeats: int
    models: tuple[ModelSpec, ...] = ()
    """Whose tensors are summed, packed and chunk-wise."""
    with_patterns: bool = False
    """Measure one-to-many and many-to-many, too."""
    switches: tuple[str, ...] = ()
    """The switch of each phone, for `hierarchical`; empty where the rack has none."""
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """One collective. `seconds` are those of the slowest rank, one number a repeat;
    `cpu_seconds` those of an average rank in one repeat."""

    operation: Operation
    method: str
    bytes: int
    seconds: tuple[float, ...]
    cpu_seconds: float
    model: str | None = None
    way: Way | None = None
    tensors: int = 1


@dataclass(frozen=True, slots=True)
class Collectives(Document):
    """What one launch measured. `missing` tells what was not, and why."""

    phones: tuple[str, ...]
    method: Method
    times: tuple[CollectiveTime, ...]
    missing: tuple[str, ...] = ()
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Input:
    """Synthetic samples: their shape (channels, height, width) and number of classes."""

    shape: tuple[int, ...]
    classes: int


@dataclass(frozen=True, slots=True)
class ComputeCase:
    model: ModelSpec
    input: Input
    batch: int
    threads: int


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """Look for the largest batch, no larger than `most`, whose step stays below
    `share` of the memory that is free, or below `limit_bytes` where that is less."""

    most: int
    share: float = 0.6
    limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class ComputeSpec(Document):
    """Steps of training without exchange, on every phone by itself. `seconds` a case."""

    phones: tuple[str, ...]
    cases: tuple[ComputeCase, ...]
    optimizer: OptimizerSpec
    seconds: float
    device: str = "cpu"
    memory: MemorySearch | None = None
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ComputeTime:
    """One case on one phone. Forward, backward and optimiser are medians of the sustained part:
    the last third of the time; `burst` is the median of the first few steps. Temperatures are of
    the hottest sensor that can be read."""

    case: ComputeCase
    steps: int
    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float
    step_seconds: float
    burst_step_seconds: float
    celsius_before: float | None
    celsius_after: float | None
    gradient_bytes: int | None = None
    """Of all parameters that learn, as float32."""

    @property
    def images_per_second(self) -> float:
        return self.case.batch / self.step_seconds


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest batch whose training step was tried and fitted, and its peak memory; 0: not even
    one sample fits. `bounded`: it is the largest that was asked for, more would fit."""

    model: ModelSpec
    input: Input
    batch: int
    peak_bytes: int
    limit_bytes: int
    trials: int
    bounded: bool


@dataclass(frozen=True, slots=True)
class Computed(Document):
    """What one phone, or one machine, measured by itself."""

    phone: str
    device: str
    """Its kind: `cpu`, or the accelerator's name."""
    torch: str
    times: tuple[ComputeTime, ...]
    largest: tuple[LargestBatch, ...] = ()
    missing: tuple[str, ...] = ()
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class TrainingSpec(Document):
    """Training steps with exchange on synthetic samples, for so many iterations or seconds,
    whichever is later."""

    phones: tuple[str, ...]
    model: ModelSpec
    input: Input
    samples_per_rank: tuple[int, ...]
    optimizer: OptimizerSpec
    iterations: int
    seconds: float = 0.0
    threads: int = 1
    exchange: Exchange = field(default_factory=Exchange)
    switches: tuple[str, ...] = ()
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class StepTime:
    """One iteration of one rank, at its end by its own clock; the temperature last read."""

    time: float
    compute_seconds: float
    exchange_seconds: float
    wait_seconds: float
    celsius: float | None


@dataclass(frozen=True, slots=True)
class Trained(Document):
    """All iterations of one rank; the first, which warms up, is left out."""

    phone: str
    samples: int
    steps: tuple[StepTime, ...]
    version: Literal[1] = 1


def measured_name(rank: int) -> str:
    """The file of a rank's answer, in the run's folder on its phone."""
    return f"rank-{rank}.measured.json"
