"""Augmentation and normalisation of images: (samples, channels, height, width), float32.

What happens to a sample follows from seed, epoch and the sample's number alone, on whichever
phone it is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from trainer.data import epoch_shifts, shifted
from trainer.formats import DataSpec

_FLIPS, _CROPS = 3, 4  # streams of random numbers, beside those of trainer.data


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Mean and deviation of each channel: (channels, 1, 1)."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of_sums(cls, sums: np.ndarray) -> Self:
        """Of `channel_sums`, perhaps added up over several phones' samples."""
        values, squares, counts = sums
        mean = values / counts
        deviation = np.sqrt(np.maximum(squares / counts - mean**2, 0))
        # A channel that is equal everywhere stays as it is.
        deviation[deviation < 1e-6] = 1
        return cls(*(each.astype(np.float32)[:, None, None] for each in (mean, deviation)))

    def apply(self, images: np.ndarray) -> np.ndarray:
        normalised: np.ndarray = (images - self.mean) / self.deviation
        return normalised


def channel_sums(images: np.ndarray) -> np.ndarray:
    """Sums of values, squares and counts of each channel, float64: (3, channels)."""
    values = images.sum((0, 2, 3), np.float64)
    squares = np.einsum("nchw,nchw->c", images, images, dtype=np.float64)
    return np.stack([values, squares, np.full_like(values, images[:, 0].size)])


class Augmentation:
    """What the plan asks for, in one epoch."""

    def __init__(
        self, spec: DataSpec, samples: int, sides: tuple[int, ...], seed: int, epoch: int
    ) -> None:
        """`samples` in the training set; `sides`: height and width of an image."""
        self._spec = spec
        self._shifts = epoch_shifts(samples, seed, epoch, spec.shift_pixels)
        self._flips = np.random.default_rng((seed, epoch, _FLIPS)).random(samples) < 0.5
        room = np.maximum(np.array(sides) - spec.crop_pixels, 0)
        crops = np.random.default_rng((seed, epoch, _CROPS))
        self._corners = crops.integers(0, room, size=(samples, 2), endpoint=True)

    def apply(self, images: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """The images of these samples, augmented."""
        images = shifted(images, self._shifts[samples])
        if self._spec.crop_pixels:
            images = cropped(images, self._corners[samples], self._spec.crop_pixels)
        if self._spec.flip:
            mirrored = self._flips[samples][:, None, None, None]
            images = np.where(mirrored, images[..., ::-1], images)
        return images


def cropped(images: np.ndarray, corners: np.ndarray, pixels: int) -> np.ndarray:
    """A square of each image from its corner (row, column) on."""
    count, channels = images.shape[:2]
    rows = (corners[:, :1] + np.arange(pixels))[:, None, :, None]
    columns = (corners[:, 1:] + np.arange(pixels))[:, None, None, :]
    which = np.arange(count)[:, None, None, None]
    cut: np.ndarray = images[which, np.arange(channels)[None, :, None, None], rows, columns]
    return cut


def centre(images: np.ndarray, pixels: int) -> np.ndarray:
    """The square in the middle of each image; 0: the whole image."""
    if not pixels:
        return images
    row, column = ((side - pixels) // 2 for side in images.shape[2:])
    return images[:, :, row : row + pixels, column : column + pixels]
