"""Augmentation and normalisation of images: (samples, channels, height, width), float32.

What happens to a sample follows from seed, epoch and the sample's number alone, on whichever
phone it is trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from trainer.data import Data, DataError, epoch_shifts, shifted
from trainer.formats import DataSpec

_FLIPS, _CROPS = 3, 4  # streams of random numbers, beside those of trainer.data


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Mean and deviation of each channel: (channels, 1, 1)."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of(cls, data: Data) -> Self:
        """Raises DataError for a data set whose mean nobody has measured."""
        if not data.mean:
            raise DataError(
                "normalise: the data set does not say mean and deviation of its images; make it "
                "anew with `fleetctl data add`, or give trainer.Data its mean and std"
            )
        mean, deviation = (
            np.asarray(each, np.float32)[:, None, None] for each in (data.mean, data.std)
        )
        # A channel that is equal everywhere is only shifted.
        return cls(mean, np.where(deviation > 0, deviation, np.float32(1)))

    def apply(self, images: np.ndarray) -> np.ndarray:
        normalised: np.ndarray = (images - self.mean) / self.deviation
        return normalised


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
