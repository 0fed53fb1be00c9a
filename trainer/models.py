"""Models by name. Without BatchNorm, so that N phones equal one process."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from trainer.formats import ModelSpec, PlanError


def digits_cnn(channels: int = 24, hidden: int = 64) -> nn.Module:
    """A small CNN for 1x8x8 images in 10 classes (61 thousand parameters)."""
    return nn.Sequential(
        nn.Conv2d(1, channels, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * 4 * 4, hidden),
        nn.ReLU(),
        nn.Linear(hidden, 10),
    )


_MODELS: dict[str, Callable[..., nn.Module]] = {"digits-cnn": digits_cnn}


def build(spec: ModelSpec) -> nn.Module:
    """The model that the plan names; torch's seed decides its first parameters."""
    if spec.name not in _MODELS:
        raise PlanError(f"model.name {spec.name!r}: the program must pass its model to trainer.fit")
    try:
        return _MODELS[spec.name](**spec.args)
    except TypeError as error:
        raise PlanError(f"model.args of {spec.name!r}: {error}") from None
