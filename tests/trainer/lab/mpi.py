"""Runs on several ranks of this machine."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from trainer.formats import (
    CheckpointSpec,
    DataSpec,
    Event,
    Final,
    ModelSpec,
    OptimizerSpec,
    Plan,
    event_from_json,
    final_name,
)

PROJECT = Path(__file__).resolve().parents[3]
SHARED = Path("/shared")


AS_RANK = ("sh", "-c", 'RANK=$OMPI_COMM_WORLD_RANK exec "$@"', "rank")


def mpirun(ranks: int, *command: str | Path, folder: Path) -> subprocess.Popen[str]:
    """Ranks of a program, with the variables that `fleetctl launch` gives them."""
    with socket.socket() as free:
        free.bind(("", 0))
        meeting = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": socket.gethostbyname(socket.gethostname()),
            "MASTER_PORT": str(free.getsockname()[1]),
            "USE_LIBUV": "0",
        }
    program = (*AS_RANK, sys.executable, *command)
    return subprocess.Popen(
        ["mpirun", "-n", str(ranks), "--mca", "btl", "self,tcp", *program],
        cwd=folder,
        env={**os.environ, **meeting, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def a_plan(*samples: int, **changes: object) -> Plan:
    """A short run on as many phones as there are numbers of samples."""
    plan = Plan(
        run="test",
        phones=tuple(f"phone{rank + 1:03d}" for rank in range(len(samples))),
        samples_per_rank=samples,
        model=ModelSpec("digits-cnn"),
        data=DataSpec("digits", "digits", shift_pixels=1),
        epochs=1,
        optimizer=OptimizerSpec("sgd", {"lr": 0.05, "momentum": 0.9}),
        warmup_iterations=5,
        checkpoint=CheckpointSpec(every_iterations=10, keep=3, ranks=1),
    )
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    plan: Plan
    folder: Path
    status: int
    output: str

    @property
    def finals(self) -> list[Final]:
        ranks = range(len(self.plan.phones))
        return [Final.read(self.folder / final_name(rank)) for rank in ranks]

    @property
    def accuracies(self) -> list[float]:
        assert {final.status for final in self.finals} == {"done"}, self.output
        return [final.test_accuracy or 0.0 for final in self.finals]

    def events(self, kind: str) -> list[Event]:
        lines = (self.folder / "progress.jsonl").read_text().splitlines()
        return [event for event in map(event_from_json, lines) if event.kind == kind]

    @property
    def checkpoints(self) -> list[Path]:
        return sorted((self.folder / "checkpoints").iterdir())


def train(plan: Plan, folder: Path, *program: str | Path, ranks: int | None = None) -> Run:
    """Run the trainer, or `program`, on all ranks of the plan, or on `ranks`."""
    folder.mkdir(exist_ok=True)
    plan.write(folder / "plan.json")
    command = program or ("-m", "trainer", "plan.json")
    process = mpirun(ranks or len(plan.phones), *command, folder=folder)
    output, _ = process.communicate()
    return Run(plan, folder, process.returncode, output)
