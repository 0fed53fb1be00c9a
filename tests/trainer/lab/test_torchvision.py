"""What `fleetctl data add` made of published formats is what torchvision reads there."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi import SHARED
from torchvision.datasets import ImageFolder
from torchvision.datasets.mnist import read_image_file, read_label_file

from trainer import load_data


def as_set(images: Any, labels: Any) -> list[tuple[bytes, int]]:
    pixels = np.rint(np.asarray(images)).astype(np.uint8)
    return sorted((i.tobytes(), int(n)) for i, n in zip(pixels, labels, strict=True))


@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_idx_files(split: str, prefix: str) -> None:
    folder = SHARED / "sources/mnist"
    images = read_image_file(str(folder / f"{prefix}-images-idx3-ubyte"))
    labels = read_label_file(str(folder / f"{prefix}-labels-idx1-ubyte"))
    ours = getattr(load_data("mnist"), split)
    assert as_set(ours.images[:] * 255, ours.labels) == as_set(images[:, None], labels)


@pytest.mark.parametrize("split", ["train", "test"])
def test_image_folders(split: str) -> None:
    train = ImageFolder(str(SHARED / "sources/images/train"))
    theirs: Any = ImageFolder(str(SHARED / "sources/images" / split))
    names = [theirs.classes[label] for _, label in theirs]
    images = [np.asarray(image).transpose(2, 0, 1) for image, _ in theirs]
    ours = getattr(load_data("images"), split)
    labels = [train.class_to_idx[name] for name in names]
    assert as_set(ours.images[:] * 255, ours.labels) == as_set(np.array(images), labels)
    assert Path(theirs.root).name == split


def test_moments_are_those_that_torch_finds() -> None:
    import torch

    data = load_data("images")
    images = torch.from_numpy(data.train.images[:])
    torch.testing.assert_close(torch.tensor(data.mean), images.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(torch.tensor(data.std), images.std(dim=(0, 2, 3), correction=0))
