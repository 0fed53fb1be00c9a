"""Image folders: one folder a class, perhaps below train/ and test/ or val/."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from fleetctl.provision.sources.model import (
    Fit,
    Images,
    Options,
    Samples,
    Source,
    SourceError,
)

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"})
"""What is taken for an image; other files are passed over."""

TRAIN, _TESTS = "train", ("test", "val")
# Pillow's warning is ours to raise: images are decoded side by side, and a filter of warnings holds
# for all threads, whichever sets it.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)

_DEEP = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")


def is_image_folder(folder: Path) -> bool:
    """Whether a folder in it, which then is a class, holds an image."""
    top = folder / TRAIN if (folder / TRAIN).is_dir() else folder
    return any(
        file.suffix.lower() in SUFFIXES
        for each in top.iterdir()
        if each.is_dir()
        for file in each.rglob("*")
    )


def read(folder: Path, options: Options) -> Source:
    """The images, decoded when they are read: RGB, `options.size` pixels a side."""
    if options.size is None:
        raise SourceError(f"{folder}: say how large its images shall be, such as --size 64")
    split = (folder / TRAIN).is_dir()
    root = folder.resolve()
    train = _classes(folder / TRAIN if split else folder, root)
    names = tuple(train)
    test_folder = _test_folder(folder) if split else None
    test = _classes(test_folder, root) if test_folder else None
    if test is not None and (other := sorted(set(test) - set(train))):
        raise SourceError(
            f"{test_folder}: class {other[0]!r} is not in {folder / TRAIN}, which has "
            f"{', '.join(names)}"
        )
    broken: list[str] = []
    decoder = _Decoder(options.size, options.fit or "crop", broken)
    return Source(
        "images",
        decoder.samples(train, names),
        decoder.samples(test, names) if test is not None else None,
        (3, options.size, options.size),
        "uint8",
        names,
        broken,
    )


def _test_folder(folder: Path) -> Path | None:
    found = [folder / name for name in _TESTS if (folder / name).is_dir()]
    if len(found) > 1:
        raise SourceError(
            f"{folder}: test and val are both there; move one of them away, since only one "
            "measures the accuracy"
        )
    return found[0] if found else None


def _classes(folder: Path, root: Path) -> dict[str, list[Path]]:
    """Class name -> its files, both in the order of their names."""
    classes: dict[str, list[Path]] = {}
    folded: dict[str, str] = {}
    for entry in sorted(folder.iterdir(), key=lambda path: path.name):
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        _require_inside(entry, root)
        twin = folded.setdefault(entry.name.strip().casefold(), entry.name)
        if twin != entry.name:
            raise SourceError(f"{folder}: {twin!r} and {entry.name!r} name one class twice")
        classes[entry.name] = _files(entry, root)
        if not classes[entry.name]:
            raise SourceError(f"{entry}: no images; remove this class, or fill it")
    if not classes:
        raise SourceError(f"{folder}: no class folders; expected one folder of images a class")
    return classes


def _files(folder: Path, root: Path) -> list[Path]:
    found = []
    for place, folders, files in os.walk(folder):
        for name in folders:
            if (Path(place) / name).is_symlink():
                raise SourceError(f"{Path(place) / name}: a link to a folder; put the files there")
        for name in files:
            path = Path(place) / name
            if path.suffix.lower() in SUFFIXES and not name.startswith("."):
                _require_inside(path, root)
                found.append(path)
    return sorted(found)


def _require_inside(path: Path, root: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(root):
        raise SourceError(
            f"{path}: a link to {path.resolve()}, outside of {root}; copy what it points to"
        )


class _Decoder:
    """Decodes on all processors: Pillow lets go of the interpreter's lock meanwhile."""

    def __init__(self, size: int, fit: Fit, broken: list[str]) -> None:
        self._size, self._fit, self._broken = size, fit, broken
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1)

    def samples(self, classes: dict[str, list[Path]], names: tuple[str, ...]) -> Samples:
        files = [file for found in classes.values() for file in found]
        labels = np.repeat(
            [names.index(name) for name in classes], [len(found) for found in classes.values()]
        )

        def read(numbers: np.ndarray) -> Images:
            found = self._threads.map(self._decode, [files[number] for number in numbers])
            decoded = [(number, image) for number, image in zip(numbers, found, strict=True)]
            kept = [(number, image) for number, image in decoded if isinstance(image, np.ndarray)]
            self._broken += [image for _, image in decoded if isinstance(image, str)]
            pixels = np.empty((len(kept), 3, self._size, self._size), np.uint8)
            for place, (_, image) in enumerate(kept):
                pixels[place] = image
            return Images(pixels, np.array([number for number, _ in kept], np.int64))

        return Samples(labels.astype(np.int64), read, lambda number: str(files[number]))

    def _decode(self, path: Path) -> np.ndarray | str:
        """(3, size, size), or what is wrong with the file."""
        try:
            return decode(path, self._size, self._fit)
        # Pillow's decoders raise nearly anything for a damaged file.
        except Exception as error:
            return f"{path}: {error or type(error).__name__}"


def decode(path: Path, size: int, fit: Fit) -> np.ndarray:
    """An image as uint8 (3, size, size), upright as its camera was held."""
    with Image.open(path) as opened:
        pixels, most = opened.width * opened.height, Image.MAX_IMAGE_PIXELS
        if most and pixels > most:
            raise ValueError(f"{pixels} pixels, above {most}: it could be a decompression bomb")
        if opened.mode in _DEEP:
            raise ValueError(f"mode {opened.mode}: more than 8 bits a channel; convert it first")
        image = ImageOps.exif_transpose(opened).convert("RGB")
    square = (size, size)
    if image.size != square:
        method = Image.Resampling.LANCZOS
        image = (
            ImageOps.fit(image, square, method) if fit == "crop" else image.resize(square, method)
        )
    return np.asarray(image).transpose(2, 0, 1)
