"""Checkpoints: one file, a JSON header line and what torch.save made; atomic and checksummed."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer.errors import TrainerError
from trainer.files import write_atomic
from trainer.formats import CheckpointHeader, ModelSpec
from trainer.strictjson import FormatError

_SUFFIX = ".ckpt"


class CheckpointError(TrainerError):
    """A checkpoint is missing, damaged, or of another model; names the file."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A verified checkpoint; `payload` is what `pack` made."""

    path: Path
    header: CheckpointHeader
    payload: bytes


def pack(model: torch.nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any = None) -> bytes:
    """Everything that a run needs to go on exactly; orders and our own rates follow from the
    iteration."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "optimizer_name": type(optimizer).__name__,
    }
    if scheduler is not None:
        # Plain values: what else it holds (a Counter, a function) is made anew from the plan.
        state["scheduler"] = {
            name: value
            for name, value in scheduler.state_dict().items()
            if isinstance(value, int | float | str | list | None)
        }
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def unpack(
    payload: bytes,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: Any = None,
) -> None:
    """Take over a state that `pack` made; never executes code from the payload.

    Raises CheckpointError for the state of another optimiser or without the scheduler's.
    """
    state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True)
    model.load_state_dict(state["model"])
    # torch would take over any state, and fail, or worse not fail, in the first step.
    theirs, ours = state.get("optimizer_name"), type(optimizer).__name__
    if theirs not in (None, ours):
        raise CheckpointError(
            f"the checkpoint is of a run with optimiser {theirs}, this run has {ours}; resume "
            "with the one that the run had, or launch anew"
        )
    optimizer.load_state_dict(state["optimizer"])
    if scheduler is not None:
        if "scheduler" not in state:
            raise CheckpointError(
                "the checkpoint is of a run without a scheduler, this run has one; resume with "
                "the schedule that the run had, or launch anew"
            )
        scheduler.load_state_dict(state["scheduler"])


def is_finite(model: torch.nn.Module) -> bool:
    """Whether every parameter and statistic is a number."""
    return all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())


def layout_sha256(model: torch.nn.Module) -> str:
    """Of the names and shapes of all tensors: equal for equal architectures."""
    layout = [f"{name} {tuple(tensor.shape)}" for name, tensor in model.state_dict().items()]
    return hashlib.sha256("\n".join(layout).encode()).hexdigest()


def parameters_sha256(model: torch.nn.Module) -> str:
    """Of the bytes of all tensors: equal on all ranks after a run with exchange."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def save(
    folder: Path,
    payload: bytes,
    *,
    run: str,
    phone: str,
    model: ModelSpec,
    layout: str,
    iteration: int,
    epoch: int,
    keep: int,
) -> Path:
    """Write a checkpoint into `folder`, then delete all but the newest `keep`.

    Raises OSError (a full disk) with the older checkpoints untouched.
    """
    header = CheckpointHeader(
        run=run,
        phone=phone,
        time=time.time(),
        model=model,
        layout_sha256=layout,
        iteration=iteration,
        epoch=epoch,
        payload_bytes=len(payload),
        payload_sha256=hashlib.sha256(payload).hexdigest(),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"iteration-{iteration:08d}{_SUFFIX}"
    write_atomic(path, header.to_json().encode() + b"\n" + payload)
    for old in _newest_first(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def load(path: Path, model: ModelSpec, layout: str) -> Checkpoint:
    """The checkpoint at `path`, if it is whole and of this model. Raises CheckpointError."""
    try:
        line, _, payload = path.read_bytes().partition(b"\n")
        header = CheckpointHeader.from_json(line, str(path))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    except FormatError as error:
        raise CheckpointError(f"{path}: corrupt header: {error}") from None
    if len(payload) != header.payload_bytes:
        raise CheckpointError(f"{path}: truncated: {len(payload)} of {header.payload_bytes} bytes")
    found = hashlib.sha256(payload).hexdigest()
    if found != header.payload_sha256:
        raise CheckpointError(
            f"{path}: corrupt: expected sha256 {header.payload_sha256}, found {found}"
        )
    if header.layout_sha256 != layout:
        raise CheckpointError(
            f"{path}: holds model {_describe(header.model)}, this run trains {_describe(model)}"
        )
    return Checkpoint(path, header, payload)


def newest_valid(place: Path, model: ModelSpec, layout: str) -> tuple[Checkpoint | None, list[str]]:
    """The checkpoint at `place`, or the newest valid one if that is a folder; and why others,
    newer ones, were passed over."""
    skipped: list[str] = []
    for path in _newest_first(place) if place.is_dir() else [place]:
        try:
            return load(path, model, layout), skipped
        except CheckpointError as error:
            skipped.append(str(error))
    return None, skipped


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{_SUFFIX}"), reverse=True)


def _describe(model: ModelSpec) -> str:
    return f"{model.name} {dataclasses.asdict(model)['args'] or ''}".strip()
