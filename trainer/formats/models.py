"""What is known of the models by name, without torch: fleetctl checks a job against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

SCRIPT = "script"
"""Means: the job's own program passes its model to trainer.fit."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model of trainer.models by name, with the arguments of its constructor."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One model as it is without arguments: 1000 classes, images of 3 channels."""

    parameters: int
    tensors: int
    """Parameter tensors: so many messages has a chunk-wise exchange."""
    batch_norm: bool
    pixels: int
    """Smallest height and width of an image, in training."""
    args: tuple[str, ...] = ("num_classes", "in_channels")
    """Arguments that its constructor takes."""
    large_pixels: tuple[str, int] | None = None
    """An argument that asks for larger images when it is true, and the smallest side then."""


_CLASSES = ("num_classes", "in_channels")
_RESNET = (*_CLASSES, "stem", "zero_init_residual")
_MOBILE = (*_CLASSES, "stem", "dropout")

KNOWN: Mapping[str, KnownModel] = MappingProxyType(
    {
        "digits-cnn": KnownModel(
            60_522, 8, False, 2, ("channels", "hidden", "num_classes", "in_channels", "pixels")
        ),
        "alexnet": KnownModel(61_100_840, 16, False, 63, (*_CLASSES, "dropout")),
        "googlenet": KnownModel(
            6_998_552, 116, False, 31, (*_CLASSES, "aux_logits", "dropout", "dropout_aux")
        ),
        "googlenet-bn": KnownModel(
            6_624_904, 173, True, 15, (*_CLASSES, "aux_logits", "dropout", "dropout_aux")
        ),
        "inception-v3": KnownModel(
            23_834_568, 284, True, 75, (*_CLASSES, "aux_logits", "dropout"), ("aux_logits", 251)
        ),
        "resnet-18": KnownModel(11_689_512, 62, True, 1, _RESNET),
        "resnet-50": KnownModel(25_557_032, 161, True, 1, _RESNET),
        "resnet-152": KnownModel(60_192_808, 467, True, 1, _RESNET),
        "squeezenet": KnownModel(1_235_496, 52, False, 17, (*_CLASSES, "dropout")),
        "mobilenet-v1": KnownModel(4_231_976, 83, True, 1, _MOBILE),
        "mobilenet-v2": KnownModel(3_504_872, 158, True, 1, _MOBILE),
        "mnasnet": KnownModel(4_383_312, 158, True, 1, _MOBILE),
    }
)
"""The paper's models (as torchvision builds them, but for GoogLeNet, which here is that of 2014
and `googlenet-bn` torchvision's, and MobileNet-v1, which torchvision lacks) and small ones."""

MODELS = (*KNOWN, SCRIPT)


def fitted_to(model: ModelSpec, shape: Sequence[int], classes: int) -> ModelSpec:
    """`model` with the arguments that follow from the data set, where it takes them and none
    were given. `shape`: channels, height, width of an image as the model sees it."""
    known = KNOWN.get(model.name)
    if known is None:
        return model
    follows = {"num_classes": classes, "in_channels": shape[0], "pixels": shape[1]}
    taken = {name: value for name, value in follows.items() if name in known.args}
    return ModelSpec(model.name, {**taken, **model.args})


def misfit(model: ModelSpec, shape: Sequence[int], classes: int) -> str | None:
    """Why images of `shape` in so many classes do not fit the model; None if they do."""
    known = KNOWN.get(model.name)
    if known is None:
        return None
    channels, *sides = shape
    args = fitted_to(model, shape, classes).args
    pixels = known.pixels
    if known.large_pixels is not None and args.get(known.large_pixels[0]) is True:
        pixels = known.large_pixels[1]
    size = "x".join(map(str, shape))
    if min(sides) < pixels:
        return (
            f"model {model.name} needs images of at least {pixels}x{pixels} pixels, those of the "
            f"data set are {size}"
        )
    if args.get("in_channels", channels) != channels:
        return (
            f"model {model.name} has in_channels {args['in_channels']}, the images of the data "
            f"set are {size}: {channels} channels"
        )
    if "pixels" in args and (args["pixels"], args["pixels"]) != tuple(sides):
        return (
            f"model {model.name} has images of {args['pixels']}x{args['pixels']} pixels, those "
            f"of the data set are {size}"
        )
    if args.get("num_classes", classes) < classes:
        return f"model {model.name} has num_classes {args['num_classes']}, the data set {classes}"
    return None


def unknown_args(model: ModelSpec) -> list[str]:
    """Arguments that the model's constructor does not take."""
    known = KNOWN.get(model.name)
    return [] if known is None else [name for name in model.args if name not in known.args]
