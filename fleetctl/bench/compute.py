"""`bench compute`: training steps of every phone by itself, or of this machine."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fleetctl.bench.document import BENCH_FILE, ComputeBench, Provenance
from fleetctl.bench.session import BenchError, Session, Stopped, late
from trainer.formats import (
    ComputeCase,
    Computed,
    ComputeSpec,
    Input,
    MemorySearch,
    ModelSpec,
    OptimizerSpec,
    measured_name,
)

START_SECONDS = 900.0
"""Of a launch and torch's import, at most."""
CASE_SECONDS = 300.0
"""Beyond a case's own time, at most: the model is built, and some steps are made however slow."""
SEARCH_SECONDS = 1800.0
"""Of a search for the largest batch, at most: ten trials."""

OPTIMIZER = OptimizerSpec("sgd", {"lr": 0.01, "momentum": 0.9})
HERE = "here"


@dataclass(frozen=True, slots=True)
class ComputeWish:
    """Every model with every batch and number of threads, so many seconds each."""

    models: tuple[ModelSpec, ...]
    input: Input
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    seconds: float
    device: str = "cpu"
    memory: MemorySearch | None = None

    @property
    def limit_seconds(self) -> float:
        """How long a phone may take for all of it."""
        searches = len(self.models) * len(self.threads)
        cases = searches * len(self.batches)
        search = searches * SEARCH_SECONDS if self.memory is not None else 0.0
        return START_SECONDS + cases * (CASE_SECONDS + 2 * self.seconds) + search

    def spec(self, phones: Sequence[str]) -> ComputeSpec:
        cases = product(self.models, self.batches, self.threads)
        return ComputeSpec(
            tuple(phones),
            tuple(
                ComputeCase(model, self.input, batch, threads) for model, batch, threads in cases
            ),
            OPTIMIZER,
            self.seconds,
            self.device,
            self.memory,
        )


async def measure(session: Session, wish: ComputeWish) -> ComputeBench:
    """All phones at the same time, each by itself: as hot, and as loaded, as in a job."""
    found: Sequence[Computed] = ()
    try:
        found = await session.measure("compute", "compute", wish.spec, Computed)
    except (BenchError, Stopped) as error:
        session.problems.append(str(error))
    missing = [words for each in found for words in each.missing]
    problems = (*session.problems, *missing)
    bench = ComputeBench(session.known(), tuple(found), problems)
    session.keep(bench)
    return bench


def measure_here(
    wish: ComputeWish, python: str, provenance: Provenance, folder: Path, limit_seconds: float
) -> ComputeBench:
    """The same on this machine, by a Python that has torch. Raises BenchError."""
    project = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as temporary:
        spec = Path(temporary) / "measure.json"
        wish.spec((HERE,)).write(spec)
        command = [python, "-m", "trainer.measure", "compute", str(spec), "--out", temporary]
        try:
            done = subprocess.run(
                command,
                cwd=project,
                capture_output=True,
                text=True,
                check=False,
                timeout=limit_seconds,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(late(limit_seconds)) from None
        except OSError as error:
            raise BenchError(f"{python}: {error.strerror}; name a Python with --python") from None
        if done.returncode:
            words = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            cure = "; name a Python that has torch with --python" if "torch" in words else ""
            raise BenchError(f"{python}: {words.removeprefix('measure: ')}{cure}")
        found = Computed.read(Path(temporary) / measured_name(0))
    bench = ComputeBench(provenance, (found,), found.missing)
    bench.write(folder / BENCH_FILE)
    return bench
