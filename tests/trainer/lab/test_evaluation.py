"""What one rank says of its evaluations."""

import json
import math
from pathlib import Path

import mpi
import numpy as np
import pytest
import torch
from torch import nn

from trainer.data import Data, Split
from trainer.formats import EvaluatingEvent, EvaluationEvent, Exchange, Plan, event_from_json
from trainer.loop import Training, TrainingError
from trainer.report import EVENTS, Reporter


def some_data(train: int, test: int) -> Data:
    def split(samples: int) -> Split:
        images = np.random.default_rng(samples).random((samples, 1, 4, 4), np.float32)
        return Split(images, np.arange(samples) % 3)

    return Data(split(train), split(test), 3)


PLAN = mpi.a_plan(4, exchange=Exchange(enabled=False), epochs=2, warmup_iterations=0)


def trained(folder: Path, model: nn.Module, plan: Plan = PLAN) -> list[dict]:
    """The events of a rank that trains alone."""
    data = some_data(8, 10)
    reporter = Reporter(folder, plan)
    Training(plan, folder, reporter, None, model, data, nn.functional.cross_entropy).run()
    return [json.loads(line) for line in (folder / EVENTS).read_text().splitlines()]


class UnsureOfTests(nn.Module):
    """A model whose scores are infinite, but not while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores = self.inner(images)
        return scores if self.training else scores * math.inf


def test_a_test_loss_that_is_not_finite_is_told_as_unknown_and_the_run_goes_on(tmp_path) -> None:
    events = trained(tmp_path, UnsureOfTests())
    told = [event_from_json(json.dumps(e)) for e in events if e["kind"] == "evaluation"]
    assert [e.test_loss for e in told if isinstance(e, EvaluationEvent)] == [None, None]
    assert events[-1]["kind"] == "checkpoint"


class Worn(nn.Module):
    """A model whose running value is spoilt, which only evaluation looks at."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
        self.register_buffer("running", torch.tensor(math.nan))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores = self.inner(images)
        return scores if self.training else scores * self.running


def test_parameters_that_are_not_finite_are_the_reason_not_the_test_loss(tmp_path) -> None:
    with pytest.raises(TrainingError, match="parameters are not finite after iteration 4"):
        trained(tmp_path, Worn())


def test_it_tells_when_an_evaluation_begins_and_of_how_many_samples(tmp_path) -> None:
    events = trained(tmp_path, nn.Sequential(nn.Flatten(), nn.Linear(16, 3)))
    kinds = [event["kind"] for event in events]
    whole = ["iteration", "iteration", "evaluating", "evaluation"]
    assert kinds == ["start", *whole, *whole, "checkpoint"]
    begins = [event_from_json(json.dumps(e)) for e in events if e["kind"] == "evaluating"]
    assert [e.samples for e in begins if isinstance(e, EvaluatingEvent)] == [10, 10]
