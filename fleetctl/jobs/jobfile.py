"""The job file: what a researcher asks for, in YAML."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    field_validator,
    model_validator,
)

from fleetctl.jobs.onphone import OWN_FILES
from fleetctl.rack import InputError
from fleetctl.rack.document import read_document
from fleetctl.rack.files import write_atomic
from trainer.formats import (
    LOSSES,
    MODELS,
    OPTIMIZERS,
    SCHEDULERS,
    CheckpointSpec,
    Exchange,
    MpiAlgorithm,
    class_name,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")

MOST_URGENT = 10
"""Priorities lie between this and its negative: what waits gains one an hour, so that nothing
waits behind newcomers for more than 20 hours."""

# Scalars arrive as text, and a model's or optimiser's arguments have no fixed keys.
Scalar = Annotated[int | float | bool | str, Field(union_mode="left_to_right")]
Value = Annotated[Scalar | list[Scalar], Field(union_mode="left_to_right")]
"""Of an argument that torch's classes take: `lr: 0.1`, `betas: [0.9, 0.99]`."""

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def duration_seconds(text: str | float) -> float:
    """`90m`, `1h30m`, `2d`, `45s`, or a number of seconds. Raises ValueError."""
    try:
        seconds = float(text)
    except ValueError:
        found = _DURATION.fullmatch(str(text).strip())
        if found is None or not any(found.groups()):
            raise ValueError(f"{text!r} is no duration; write one such as 90m or 1h30m") from None
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        seconds = float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
    if not 1 <= seconds <= 366 * 86400:
        raise ValueError(f"{text!r} is no duration from 1 s to 366 d; write one such as 90m")
    return seconds


def duration_words(seconds: float) -> str:
    """`1h30m`, as `duration_seconds` reads it."""
    left, words = round(seconds), ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        words += f"{count}{unit}" if count else ""
    return words or "0s"


_EXCHANGE, _CHECKPOINT = Exchange(), CheckpointSpec()


class JobError(InputError):
    """The job file or the options of `launch` are wrong."""


def _duration(value: Any) -> Any:
    return duration_seconds(value) if isinstance(value, str | int | float) else value


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ModelChoice(Strict):
    """A model of the trainer with the arguments of its constructor; a bare name will do."""

    name: str
    args: dict[str, Scalar] = {}

    @model_validator(mode="before")
    @classmethod
    def from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name not in MODELS:
            raise ValueError(f"model `{name}` is unknown; known: {', '.join(MODELS)}")
        return name


class Named(Strict):
    """A class of torch by name, and its arguments beside the name; a bare name will do."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Value]
    known: ClassVar[tuple[str, ...]] = ()

    name: str

    @model_validator(mode="before")
    @classmethod
    def from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @field_validator("name")
    @classmethod
    def is_known(cls, name: str) -> str:
        found = class_name(name, cls.known)
        if found is None:
            raise ValueError(f"`{name}` is unknown here; known: {', '.join(cls.known)}")
        return found

    @property
    def args(self) -> dict[str, Any]:
        """What the class of torch is called with."""
        return dict(self.__pydantic_extra__)


class Optimizer(Named):
    """An optimiser of torch.optim, or LARS."""

    known: ClassVar = OPTIMIZERS

    name: str = "SGD"
    lr: float = Field(gt=0)

    @property
    def args(self) -> dict[str, Any]:
        return {"lr": self.lr, **dict(self.__pydantic_extra__)}


class Scheduler(Named):
    """A scheduler of torch.optim.lr_scheduler, and when it makes a step."""

    known: ClassVar = SCHEDULERS

    every: Literal["iteration", "epoch"] = "epoch"


class LossChoice(Named):
    """A loss of torch.nn."""

    known: ClassVar = LOSSES


class ExchangeOptions(Strict):
    """How gradients are summed; the defaults are the trainer's."""

    enabled: bool = _EXCHANGE.enabled
    reduce: Literal["ring", "hierarchical", "mpi", "gloo"] = _EXCHANGE.reduce
    algorithm: MpiAlgorithm = _EXCHANGE.algorithm
    codec: Literal["none", "half"] = _EXCHANGE.codec
    segment_bytes: PositiveInt = _EXCHANGE.segment_bytes
    bucket_bytes: Annotated[
        PositiveInt | Literal["all", "each"], Field(union_mode="left_to_right")
    ] = "all"


class Checkpoints(Strict):
    every_iterations: int = Field(default=_CHECKPOINT.every_iterations, ge=0)
    keep: PositiveInt = _CHECKPOINT.keep
    ranks: PositiveInt = _CHECKPOINT.ranks


class Train(Strict):
    """A training run by the trainer. Sizes are in samples; `threads` a phone."""

    model: ModelChoice
    data: str
    stage: Literal["all", "share"] = "all"
    """What of the data set each phone holds: all, or its own samples only."""
    shift_pixels: int = Field(0, ge=0)
    crop_pixels: int = Field(0, ge=0)
    flip: bool = False
    normalise: bool = False
    epochs: PositiveInt
    global_batch: PositiveInt
    optimizer: Optimizer
    loss: LossChoice = LossChoice.model_validate("CrossEntropyLoss")
    warmup_iterations: int = Field(0, ge=0)
    base_batch: PositiveInt | None = None
    schedule: Annotated[
        Literal["constant", "cosine"] | Scheduler, Field(union_mode="left_to_right")
    ] = "constant"
    accumulate: PositiveInt = 1
    sync_batch_norm: bool = False
    heat: bool | None = None
    """Whether shares follow heat. None: where `deterministic`, `stage: share` and
    `exchange: {enabled: false}` do not rule it out."""
    deterministic: bool = False
    seed: int = Field(0, ge=0)
    threads: Annotated[PositiveInt | Literal["auto"], Field(union_mode="left_to_right")] = 1
    kernels: Literal["auto", "off"] = "auto"
    evaluate_every_epochs: PositiveInt = 1
    exchange: ExchangeOptions = ExchangeOptions()
    checkpoint: Checkpoints = Checkpoints()


class Job(Strict):
    """A job: a training run, or any command, one rank a phone."""

    name: str = ""
    """Of its runs (`digits-1`, …); the file's name unless it gives one."""
    phones: str | None = None
    """A number of phones or a node set; None: all that are ready."""
    minimum: PositiveInt | None = None
    """The fewest phones with which it starts and goes on. None: it starts with all of `phones`, and
    goes on after a failure with half of them or more."""
    spares: int = Field(default=0, ge=0)
    """Phones that are held beside those that train, to take the place of one that fails."""
    train: Train | None = None
    command: list[str] | None = Field(None, min_length=1)
    priority: int = Field(default=0, ge=-MOST_URGENT, le=MOST_URGENT)
    """In the queue: larger first."""
    time_limit: Annotated[float | None, BeforeValidator(_duration)] = None
    """Seconds after which it is ended with a checkpoint; such as `90m` in the file."""

    @field_validator("name")
    @classmethod
    def plain(cls, name: str) -> str:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"`name: {name}` does not fit; use letters, digits, `.`, `_` and `-`, at most 61"
            )
        return name

    @model_validator(mode="after")
    def one_of_them(self) -> Self:
        if self.train is None and self.command is None:
            raise ValueError("a job needs `train` or `command`; add one of them")
        script = self.train is not None and self.train.model.name == "script"
        if script != (self.train is not None and self.command is not None):
            raise ValueError(
                "`model: script` and `command` belong together; a model of the trainer's own "
                "needs no command, and a program that calls trainer.fit is `model: script`"
            )
        if self.spares and self.train is None:
            raise ValueError(
                "`spares` take part in the training from a checkpoint on; a command without "
                "`train` keeps none, so leave `spares` out"
            )
        count = (self.phones or "").strip()
        if self.minimum and count.isdigit() and self.minimum > int(count):
            raise ValueError(f"`minimum: {self.minimum}` is more than `phones: {count}`; lower it")
        return self


def read_job(path: Path) -> Job:
    """The job in a file; its name is the file's, unless it gives one. Raises JobError by line."""
    job = read_document(path, JobError).parse(Job, JobError)
    return job if job.name else job.model_copy(update={"name": plain_name(path.stem)})


def with_options(job: Job, priority: int | None, time_limit: str | None) -> Job:
    """The job with what the options of `launch` say. Raises JobError."""
    update: dict[str, Any] = {}
    if priority is not None:
        if not -MOST_URGENT <= priority <= MOST_URGENT:
            raise JobError(
                f"--priority {priority}: give a number from -{MOST_URGENT} to {MOST_URGENT}"
            )
        update["priority"] = priority
    if time_limit is not None:
        try:
            update["time_limit"] = duration_seconds(time_limit)
        except ValueError as problem:
            raise JobError(f"--time-limit: {problem}") from None
    return job.model_copy(update=update)


def command_job(words: list[str]) -> Job:
    """The job of `launch -- COMMAND…`, named after the program or the script that it runs."""
    scripts = [word for word in words if word.endswith((".py", ".sh"))]
    stem = Path(scripts[0]).stem if scripts else Path(words[0]).name
    return Job(name=plain_name(stem), command=words)


def plain_name(text: str) -> str:
    """`text` as a name that a folder, a process environment and a plan can carry."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:60]
    return plain or "job"


def write_job(job: Job, path: Path) -> None:
    """The job as a file that `read_job` and `launch` take again."""
    import yaml

    write_atomic(path, yaml.safe_dump(job.model_dump(exclude_none=True), sort_keys=False))


def local_files(words: list[str], folder: Path) -> tuple[Path, ...]:
    """Words of a command that name files in `folder`: they go along, beside the run's own.

    Raises JobError for a file that would take the place of one of those.
    """
    # A run's folder keeps them apart from its own files, and can be run again.
    places = [(folder / w, folder / "files" / w) for w in words if w == Path(w).name]
    found = tuple(there[0] for two in places if (there := [p for p in two if p.is_file()]))
    for path in found:
        if path.name in OWN_FILES:
            raise JobError(f"{path}: a run has a file {path.name} of its own; rename yours")
    return found
