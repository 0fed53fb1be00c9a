"""Models of torchvision, for images of any channels, and with a stem for small images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torchvision
from torch import nn

from trainer.models.own import has_small_stem


def vision(name: str, **always: Any) -> Callable[..., nn.Module]:
    """A constructor of torchvision's model `name`, without weights from the network.

    It takes what torchvision's takes, and `in_channels` (3), and for ResNets and MobileNets
    `stem`: `small` keeps images of some 32 pixels from shrinking in the first layers (He et al.
    2016, section 4.2: a 3x3 convolution of stride 1 and no pooling).
    """
    constructor = getattr(torchvision.models, name)

    def build(in_channels: int = 3, stem: str = "imagenet", **args: Any) -> nn.Module:
        model: nn.Module = constructor(weights=None, **{**always, **args})
        small = has_small_stem(stem)
        if small and isinstance(model, torchvision.models.ResNet):
            model.maxpool = nn.Identity()
        if small or in_channels != 3:
            _renew_first(model, in_channels, small)
        return model

    return build


def _renew_first(model: nn.Module, in_channels: int, small: bool) -> None:
    """Replace the first convolution by one for `in_channels`, of stride 1 and 3x3 if `small`."""
    name, first = next(
        (name, module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d)
    )
    parent, _, own = name.rpartition(".")
    convolution = nn.Conv2d(
        in_channels,
        first.out_channels,
        3 if small else first.kernel_size,
        1 if small else first.stride,
        1 if small else first.padding,
        bias=first.bias is not None,
    )
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    setattr(model.get_submodule(parent), own, convolution)
