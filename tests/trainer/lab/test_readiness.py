"""A rank says that it is ready before it waits for the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainer import api
from trainer.formats import DataSpec, ModelSpec, OptimizerSpec, Plan, ready_name
from trainer.report import Reporter

PLAN = Plan(
    run="digits-1",
    phones=("phone001",),
    samples_per_rank=(8,),
    model=ModelSpec("digits-cnn"),
    data=DataSpec("digits", "digits"),
    epochs=1,
    optimizer=OptimizerSpec("sgd", {"lr": 0.1}),
    threads=1,
)


def test_it_has_said_so_when_it_meets_the_others_and_not_before_it_has_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, seen = tmp_path / ready_name(0), dict[str, bool]()

    def meet(_: Plan) -> Any:
        seen["meets"] = place.exists()
        raise ConnectionError("nobody is there")

    def load(*_: Any) -> Any:
        seen["loads"] = place.exists()

    monkeypatch.setattr(api.Engine, "of", meet)
    monkeypatch.setattr(api, "load", load)
    with pytest.raises(ConnectionError):
        api.run(PLAN, tmp_path, Reporter(tmp_path, PLAN), torch.nn.Linear(1, 1))
    assert seen == {"loads": False, "meets": True}
