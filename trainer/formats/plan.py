"""The plan of a run: planners make it, the trainer executes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from trainer.formats.models import KNOWN, MODELS, ModelSpec, unknown_args
from trainer.formats.training import (
    LossSpec,
    OptimizerSpec,
    SchedulerSpec,
    conditions,
    has_own_rate,
)
from trainer.shares import smallest_part
from trainer.strictjson import Document, FormatError

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

LEAST_FOR_BATCH_NORM = 2
"""One sample has no variance where a layer's images are 1x1; torch refuses it there."""

MpiAlgorithm = Literal["default", "recursive_doubling", "ring", "segmented_ring", "rabenseifner"]


class PlanError(FormatError):
    """Parts of a plan that do not fit each other; the message names both."""


@dataclass(frozen=True, slots=True)
class DataSpec:
    """A data set: `path` is relative to $HOME/phonerack/data on the phone."""

    name: str
    path: str
    shift_pixels: int = 0
    """Augmentation: each training image is shifted by up to so many pixels either way."""
    stage: Literal["all", "share"] = "all"
    """`share`: each phone holds its own samples only (scatter.needed_shards) and draws its part of
    every batch from them, instead of from all."""
    crop_pixels: int = 0
    """Augmentation: a square of so many pixels a side is cut out of each training image at a
    random place, and out of each test image in the middle; 0: the whole image."""
    flip: bool = False
    """Augmentation: every other training image, by chance, is mirrored left to right."""
    normalise: bool = False
    """Each channel minus its mean over the training images, divided by its deviation."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """How gradients are summed over the phones."""

    enabled: bool = True
    """False: each phone trains alone, on its share of the training samples."""
    transport: Literal["mpi"] = "mpi"
    reduce: Literal["ring", "hierarchical", "mpi", "gloo"] = "ring"
    """`hierarchical`: rings inside the switches and across. `mpi`: MPI_Allreduce; `gloo`:
    torch.distributed, by its own transport. The last two are there to be compared with."""
    algorithm: MpiAlgorithm = "default"
    """Of MPI_Allreduce, where `reduce` is mpi."""
    segment_bytes: int = 512 * 1024
    codec: Literal["none", "half"] = "none"
    """`half`: float16 on the wire; phones keep and add float32."""
    bucket_bytes: Literal["all", "each"] | int = "all"
    order: Literal["fifo"] = "fifo"
    staleness: Literal[0] = 0


@dataclass(frozen=True, slots=True)
class CheckpointSpec:
    """Checkpoints every so many iterations (0: only at the end), the newest `keep` of them,
    on each of the first `ranks` phones."""

    every_iterations: int = 100
    keep: int = 2
    ranks: int = 2


@dataclass(frozen=True, slots=True)
class HeatSpec:
    """Whether shares follow heat: a phone that it slows gets fewer samples, one that is too hot
    pauses, others take theirs; see trainer.members."""

    enabled: bool = False
    pause_celsius: float = 43.0
    """Of its battery; from there on a phone pauses."""
    most_at_once: tuple[int, ...] = ()
    """Samples that each rank has memory for: a larger share is computed in more parts. Empty: it
    has enough for any."""


@dataclass(frozen=True, slots=True)
class Plan(Document):
    """What the phones do in a run. Planners make it, the trainer executes it."""

    run: str
    phones: tuple[str, ...]
    """Phone names in ring order; the position is the MPI rank."""
    samples_per_rank: tuple[int, ...]
    """Samples of each rank in one iteration; their sum is the global batch."""
    model: ModelSpec
    data: DataSpec
    epochs: int
    optimizer: OptimizerSpec
    warmup_iterations: int = 0
    schedule: Literal["constant", "cosine"] = "constant"
    """The learning rate after the warm-up: kept, or a half cosine down to zero."""
    scheduler: SchedulerSpec | None = None
    """A scheduler of torch instead; the warm-up multiplies its rate."""
    base_batch: int | None = None
    """The batch that the learning rate is meant for: it is multiplied by global batch /
    base_batch, and the warm-up begins at the rate itself (Goyal et al. 2017)."""
    loss: LossSpec = field(default_factory=LossSpec)
    accumulate: int = 1
    """Parts in which a phone computes its samples, one after the other: memory for one only."""
    sync_batch_norm: bool = False
    """BatchNorm with the statistics of all phones' samples, not of each phone's own."""
    deterministic: bool = False
    """Only operators that give the same bits each time; the others raise an error."""
    seed: int = 0
    threads: int | Literal["auto"] = 1
    """Compute threads of torch on each phone; auto: each phone measures what is fastest."""
    kernels: Literal["auto", "off"] = "auto"
    """Our kernels where each phone measures that they are faster than torch; or torch alone."""
    exchange: Exchange = field(default_factory=Exchange)
    switches: tuple[str, ...] = ()
    """Each rank's switch, for reduces that ask; "" is one that the rack file does not say."""
    checkpoint: CheckpointSpec = field(default_factory=CheckpointSpec)
    heat: HeatSpec = field(default_factory=HeatSpec)
    evaluate_every_epochs: int = 1
    resume: str | None = None
    """A checkpoint file, or a folder of them (the newest valid one is taken), on the phone;
    relative to the run folder."""
    version: Literal[1] = 1

    @property
    def global_batch(self) -> int:
        return sum(self.samples_per_rank)

    def check(self) -> None:
        """Raise PlanError for values out of range and for pairs that do not fit."""
        for sound, complaint in self._conditions():
            if not sound:
                raise PlanError(f"plan of run {self.run!r}: {complaint}")

    def _conditions(self) -> list[tuple[bool, str]]:
        return [
            *self._range_conditions(),
            *conditions(self.optimizer, self.scheduler, self.loss),
            *self._pair_conditions(),
        ]

    def _range_conditions(self) -> list[tuple[bool, str]]:
        path, exchange, checkpoint = PurePosixPath(self.data.path), self.exchange, self.checkpoint
        bucket = exchange.bucket_bytes
        return [
            (bool(_RUN_NAME.fullmatch(self.run)), "run must be letters, digits, '.', '_', '-'"),
            (bool(self.phones), "phones is empty: name at least one phone"),
            (len(set(self.phones)) == len(self.phones), "phones names one phone twice"),
            (all(n >= 0 for n in self.samples_per_rank), "samples_per_rank has a negative number"),
            (self.global_batch > 0, "samples_per_rank sums to 0: give one phone a sample"),
            (
                self.model.name in MODELS,
                f"model.name {self.model.name!r} is unknown; known: {', '.join(MODELS)}",
            ),
            (
                bool(path.parts) and not path.is_absolute() and ".." not in path.parts,
                f"data.path {self.data.path!r} must lie inside $HOME/phonerack/data",
            ),
            *[
                (False, f"model.args: {self.model.name} takes no argument {name!r}")
                for name in unknown_args(self.model)
            ],
            (self.data.shift_pixels >= 0, "data.shift_pixels is negative"),
            (self.data.crop_pixels >= 0, "data.crop_pixels is negative"),
            (self.base_batch is None or self.base_batch >= 1, "base_batch must be at least 1"),
            (self.accumulate >= 1, "accumulate must be at least 1"),
            (self.epochs >= 1, "epochs must be at least 1"),
            (self.warmup_iterations >= 0, "warmup_iterations is negative"),
            (self.threads == "auto" or self.threads >= 1, "threads must be at least 1"),
            (self.evaluate_every_epochs >= 1, "evaluate_every_epochs must be at least 1"),
            (0 <= self.seed < 2**63, "seed must be between 0 and 2^63 - 1"),
            (
                exchange.segment_bytes > 0 and exchange.segment_bytes % 8 == 0,
                "exchange.segment_bytes must be a positive multiple of 8 (whole numbers)",
            ),
            (not isinstance(bucket, int) or bucket > 0, "exchange.bucket_bytes must be positive"),
            (checkpoint.every_iterations >= 0, "checkpoint.every_iterations is negative"),
            (checkpoint.keep >= 1, "checkpoint.keep must be at least 1"),
            (checkpoint.ranks >= 1, "checkpoint.ranks must be at least 1"),
        ]

    def _pair_conditions(self) -> list[tuple[bool, str]]:
        phones, samples = len(self.phones), len(self.samples_per_rank)
        alone = not self.exchange.enabled
        return [
            *exchange_conditions(self.exchange, self.phones, self.switches),
            *self._heat_conditions(),
            (
                phones == samples,
                f"phones ({phones} names) and samples_per_rank ({samples} numbers) "
                "must be equally long",
            ),
            (
                not (alone and self.resume is not None),
                "resume and exchange.enabled=false: a checkpoint holds one set of parameters, "
                "but without exchange each phone has its own",
            ),
            (
                not (alone and self.sync_batch_norm),
                "sync_batch_norm and exchange.enabled=false: phones that train alone exchange no "
                "statistics",
            ),
            (
                not (self.scheduler is not None and self.schedule != "constant"),
                f"schedule {self.schedule} and scheduler: each sets the learning rate; name one",
            ),
            (
                self.base_batch is None or not has_own_rate(self.scheduler),
                "base_batch and scheduler: it sets the learning rate by its own arguments, so "
                "nothing is there to multiply; leave base_batch out and raise max_lr",
            ),
            (
                not (self.deterministic and self.threads == "auto"),
                "deterministic and threads=auto: another number of threads sums in another order; "
                "give a number",
            ),
            (
                self.accumulate <= max((1, *self.samples_per_rank)),
                f"accumulate ({self.accumulate}) and samples_per_rank: no phone has so many",
            ),
            (
                not self._own_statistics() or self._enough_for_batch_norm(),
                too_few_for_batch_norm(self.samples_per_rank, self.accumulate),
            ),
            (
                not (alone and 0 in self.samples_per_rank),
                "samples_per_rank with a 0 and exchange.enabled=false: that phone would "
                "learn nothing",
            ),
        ]

    def _heat_conditions(self) -> list[tuple[bool, str]]:
        heat, phones = self.heat, len(self.phones)
        on = heat.enabled
        return [
            (
                20 <= heat.pause_celsius <= 70,
                f"heat.pause_celsius {heat.pause_celsius:g} must be from 20 to 70",
            ),
            (
                len(heat.most_at_once) in (0, phones) and all(n > 0 for n in heat.most_at_once),
                f"heat.most_at_once must be empty, or {phones} numbers above 0, one a phone",
            ),
            (
                not (on and self.data.stage == "share"),
                "heat and data.stage share: each phone holds its own samples only, so its share "
                "cannot go to others; take stage all, or heat false",
            ),
            (
                not (on and not self.exchange.enabled),
                "heat and exchange.enabled=false: phones that train alone have no shares",
            ),
            (
                not (on and self.deterministic),
                "heat and deterministic: shares that follow heat sum in another order each time; "
                "leave one of them out",
            ),
        ]

    def _own_statistics(self) -> bool:
        """Whether the model is known to have BatchNorm, and each phone sees its own samples."""
        known = KNOWN.get(self.model.name)
        return known is not None and known.batch_norm and not self.sync_batch_norm

    def _enough_for_batch_norm(self) -> bool:
        fewest = smallest_part(self.samples_per_rank, self.accumulate)
        return fewest >= LEAST_FOR_BATCH_NORM


def exchange_conditions(
    exchange: Exchange, phones: Sequence[str], switches: Sequence[str]
) -> list[tuple[bool, str]]:
    """What must be so of an exchange between `phones`, and what to say where it is not; `switches`
    names the switch of each, "" where none is known."""
    unplaced = [p for p, switch in zip(phones, switches, strict=False) if not switch]
    hierarchical = exchange.reduce == "hierarchical"
    return [
        (
            not switches or len(switches) == len(phones),
            f"phones ({len(phones)} names) and switches ({len(switches)} names) "
            "must be equally long",
        ),
        (
            not hierarchical or bool(switches),
            "exchange.reduce hierarchical and switches: the plan names none; take ring",
        ),
        (
            not hierarchical or not unplaced,
            f"exchange.reduce hierarchical and switches: none is known for "
            f"{', '.join(unplaced)}; say it in the rack file, or take ring",
        ),
        (
            exchange.codec == "none" or exchange.reduce in ("ring", "hierarchical"),
            f"exchange.codec {exchange.codec} and exchange.reduce {exchange.reduce}: it sums "
            "what it is given; take codec none, or reduce ring or hierarchical",
        ),
        (
            exchange.algorithm == "default" or exchange.reduce == "mpi",
            f"exchange.algorithm {exchange.algorithm} and exchange.reduce "
            f"{exchange.reduce}: only reduce mpi has algorithms",
        ),
    ]


def too_few_for_batch_norm(samples_per_rank: Sequence[int], accumulate: int) -> str:
    """Why a plan is refused whose model has BatchNorm."""
    fewest = smallest_part(samples_per_rank, accumulate)
    return (
        f"samples_per_rank ({fewest} at a time on some phone) and BatchNorm, which needs at least "
        f"{LEAST_FOR_BATCH_NORM}: raise global_batch, take fewer phones, or set sync_batch_norm"
    )
