"""Models that torchvision lacks: small ones, MobileNet-v1, and GoogLeNet as it was published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from trainer.formats import PlanError

_STEMS = ("imagenet", "small")


def digits_cnn(
    channels: int = 24,
    hidden: int = 64,
    num_classes: int = 10,
    in_channels: int = 1,
    pixels: int = 8,
) -> nn.Module:
    """A small CNN for square images (61 thousand parameters for 1x8x8 in 10 classes)."""
    return nn.Sequential(
        nn.Conv2d(in_channels, channels, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(channels, 2 * channels, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * channels * (pixels // 2) ** 2, hidden),
        nn.ReLU(),
        nn.Linear(hidden, num_classes),
    )


def has_small_stem(stem: str) -> bool:
    """Whether the stem is the small one. Raises PlanError for a word that is none."""
    if stem not in _STEMS:
        raise PlanError(f"model.args: stem {stem!r} is not one of {', '.join(_STEMS)}")
    return stem == "small"


# Output channels and stride of each depthwise-separable block (Howard et al. 2017, table 1).
_MOBILENET_V1 = [
    *((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)),
    *[(512, 1)] * 5,
    *((1024, 2), (1024, 1)),
]


def mobilenet_v1(
    num_classes: int = 1000, in_channels: int = 3, stem: str = "imagenet", dropout: float = 0.001
) -> nn.Module:
    """MobileNet-v1 of width 1 (Howard et al. 2017, arXiv:1704.04861)."""

    def block(inputs: int, outputs: int, kernel: int, stride: int, groups: int = 1) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        )

    layers = [block(in_channels, 32, 3, 1 if has_small_stem(stem) else 2)]
    width = 32
    for outputs, stride in _MOBILENET_V1:
        layers += [block(width, width, 3, stride, groups=width), block(width, outputs, 1, 1)]
        width = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(width, num_classes))


class WithHeads(NamedTuple):
    """What GoogLeNet answers in training; named as torchvision names it."""

    logits: torch.Tensor
    aux_logits2: torch.Tensor
    aux_logits1: torch.Tensor


class _Inception(nn.Module):
    """Four branches side by side; widths as in the columns of the paper's table 1."""

    def __init__(self, inputs: int, widths: Sequence[int]) -> None:
        super().__init__()
        one, three_in, three, five_in, five, pooled = widths
        self.branches = nn.ModuleList(
            [
                _conv(inputs, one, 1),
                nn.Sequential(_conv(inputs, three_in, 1), _conv(three_in, three, 3)),
                nn.Sequential(_conv(inputs, five_in, 1), _conv(five_in, five, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, padding=1), _conv(inputs, pooled, 1)),
            ]
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([branch(images) for branch in self.branches], 1)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU(inplace=True)
    )


def _head(inputs: int, num_classes: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.AdaptiveAvgPool2d(4),
        _conv(inputs, 128, 1),
        nn.Flatten(),
        nn.Linear(2048, 1024),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
        nn.Linear(1024, num_classes),
    )


def _pool() -> nn.Module:
    return nn.MaxPool2d(3, 2, ceil_mode=True)


class GoogLeNet(nn.Module):
    """GoogLeNet without batch normalisation (Szegedy et al. 2014, arXiv:1409.4842, table 1)."""

    def __init__(
        self,
        num_classes: int = 1000,
        in_channels: int = 3,
        aux_logits: bool = False,
        dropout: float = 0.4,
        dropout_aux: float = 0.7,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(in_channels, 64, 7, 2),
            _pool(),
            nn.LocalResponseNorm(5),
            _conv(64, 64, 1),
            _conv(64, 192, 3),
            nn.LocalResponseNorm(5),
            _pool(),
            _Inception(192, (64, 96, 128, 16, 32, 32)),
            _Inception(256, (128, 128, 192, 32, 96, 64)),
            _pool(),
            _Inception(480, (192, 96, 208, 16, 48, 64)),
        )
        self.middle = nn.Sequential(
            _Inception(512, (160, 112, 224, 24, 64, 64)),
            _Inception(512, (128, 128, 256, 24, 64, 64)),
            _Inception(512, (112, 144, 288, 32, 64, 64)),
        )
        self.top = nn.Sequential(
            _Inception(528, (256, 160, 320, 32, 128, 128)),
            _pool(),
            _Inception(832, (256, 160, 320, 32, 128, 128)),
            _Inception(832, (384, 192, 384, 48, 128, 128)),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(1024, num_classes),
        )
        widths = (512, 528) if aux_logits else ()
        self.heads = nn.ModuleList(_head(width, num_classes, dropout_aux) for width in widths)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # Without normalisation, torch's own first weights let the signal die out.
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor | WithHeads:
        lower = self.stem(images)
        upper = self.middle(lower)
        logits: torch.Tensor = self.top(upper)
        if not (self.training and self.heads):
            return logits
        first, second = self.heads
        return WithHeads(logits, second(upper), first(lower))
