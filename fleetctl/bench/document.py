"""bench.json: what a bench measured, and where it comes from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleetctl.bench.fit import LinkFit
from fleetctl.rack import InputError
from trainer.formats import (
    Collectives,
    Computed,
    Document,
    Exchange,
    FormatError,
    ModelSpec,
    Trained,
)

BENCH_FILE = "bench.json"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What one must know to believe a number, and to measure it again. `time` in Unix seconds."""

    rack: str
    medium: str
    time: float
    command: str
    fleetctl: str
    commit: str | None
    """Of the project's folder, with a `+` when files differed from it."""
    phones: tuple[str, ...]
    """In ring order."""
    models: dict[str, str]
    """Phone -> its model or target."""
    versions: dict[str, dict[str, str]]
    """Release, Open MPI, Python -> version -> node set."""
    runs: tuple[str, ...] = ()
    """The runs that measured, in runs/ beside this one."""
    note: str | None = None


@dataclass(frozen=True, slots=True)
class MethodFit:
    """α and B of a ring, as one method showed them."""

    method: str
    fit: LinkFit


@dataclass(frozen=True, slots=True)
class CollectivesBench(Document):
    """`goodput_mbits`: iperf3 between two of the phones in the same bench."""

    provenance: Provenance
    launches: tuple[Collectives, ...]
    goodput_mbits: float | None
    fits: tuple[MethodFit, ...] = ()
    problems: tuple[str, ...] = ()
    kind: Literal["collectives"] = "collectives"
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ComputeBench(Document):
    provenance: Provenance
    phones: tuple[Computed, ...]
    problems: tuple[str, ...] = ()
    kind: Literal["compute"] = "compute"
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ScalingLaunch:
    """All ranks of one number of phones. `mode`: which batch is the same for all numbers."""

    model: ModelSpec
    mode: Literal["global", "phone"]
    samples_per_rank: tuple[int, ...]
    ranks: tuple[Trained, ...]


@dataclass(frozen=True, slots=True)
class ScalingBench(Document):
    provenance: Provenance
    exchange: Exchange
    threads: int
    launches: tuple[ScalingLaunch, ...]
    problems: tuple[str, ...] = ()
    kind: Literal["scaling"] = "scaling"
    version: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class ThermalBench(Document):
    """One long run; `ranks` hold iterations with temperatures."""

    provenance: Provenance
    model: ModelSpec
    samples_per_rank: tuple[int, ...]
    ranks: tuple[Trained, ...]
    problems: tuple[str, ...] = ()
    kind: Literal["thermal"] = "thermal"
    version: Literal[1] = 1


type Bench = CollectivesBench | ComputeBench | ScalingBench | ThermalBench

_KINDS: dict[str, type[Document]] = {
    "collectives": CollectivesBench,
    "compute": ComputeBench,
    "scaling": ScalingBench,
    "thermal": ThermalBench,
}


def read_bench(folder: Path) -> Bench:
    """The bench whose folder this is. Raises InputError."""
    path = folder / BENCH_FILE
    try:
        text = path.read_bytes()
        kind = json.loads(text).get("kind")
        document: Bench = _KINDS[kind].from_json(text, str(path))  # type: ignore[assignment]
    except FileNotFoundError:
        raise InputError(f"{folder.name} is no bench: it has no {BENCH_FILE}") from None
    except (FormatError, ValueError, AttributeError, KeyError) as error:
        raise InputError(f"{path} is not what `fleetctl bench` writes: {error}") from None
    return document
