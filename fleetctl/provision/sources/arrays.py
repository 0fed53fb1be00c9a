"""NumPy archives: `.npz` with x_train, y_train, x_test, y_test, or with x and y."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from fleetctl.provision.sources.model import (
    Images,
    Samples,
    Source,
    SourceError,
    copy_exactly,
    from_array,
    require_room,
)

_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = ("x", "y")
_CHANNELS = (1, 3, 4)


def read(path: Path, scratch: Path) -> Source:
    """The arrays, unpacked into `scratch`, so that they need not fit in memory."""
    names = _keys(path)
    arrays = {name: _array(path, name, scratch) for name in names}
    train = _samples(path, arrays, names[0], names[1])
    test = _samples(path, arrays, names[2], names[3]) if len(names) > len(_WHOLE) else None
    first, dtype = _first(train)
    if test is not None and _first(test) != (first, dtype):
        raise SourceError(
            f"{path}: x_train has images {first} of {dtype}, x_test {_first(test)[0]} of "
            f"{_first(test)[1]}"
        )
    return Source("npz", train, test, first, "uint8" if dtype == "uint8" else "float32")


def _keys(path: Path) -> tuple[str, ...]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    except zipfile.BadZipFile as error:
        raise SourceError(f"{path}: no .npz, or truncated ({error})") from None
    if len(set(members)) < len(members):
        raise SourceError(f"{path}: holds an array twice: {', '.join(sorted(members))}")
    found = {name.removesuffix(".npy") for name in members}
    for names in (_SPLIT, _WHOLE):
        if set(names) <= found:
            return names
    raise SourceError(
        f"{path}: holds {', '.join(sorted(found)) or 'nothing'}; expected the arrays "
        f"{', '.join(_SPLIT)}, or x and y"
    )


def _array(path: Path, name: str, scratch: Path) -> np.ndarray:
    unpacked = scratch / f"{name}.npy"
    try:
        with zipfile.ZipFile(path) as archive:
            size_bytes = archive.getinfo(f"{name}.npy").file_size
            require_room(scratch, size_bytes, str(path))
            with archive.open(f"{name}.npy") as content:
                copy_exactly(content, unpacked, size_bytes, f"{path}: {name}")
        array: np.ndarray = np.load(unpacked, mmap_mode="r", allow_pickle=False)
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{path}: {name} is damaged ({error})") from None
    except ValueError as error:
        raise SourceError(f"{path}: {name} is no plain array: {error}") from None
    return array


def _samples(path: Path, arrays: dict[str, np.ndarray], x: str, y: str) -> Samples:
    images, labels = _as_images(f"{path}: {x}", arrays[x]), arrays[y]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise SourceError(
            f"{path}: {y} has shape {labels.shape} of {labels.dtype}; expected one whole number "
            "a sample, its class"
        )
    if len(images) != len(labels):
        raise SourceError(f"{path}: {x} has {len(images)} samples, {y} {len(labels)}")
    if not images.size:
        raise SourceError(f"{path}: {x} has no samples")
    if labels.max() > np.iinfo(np.int64).max:
        raise SourceError(f"{path}: {y} holds {labels.max()}, which is no class")
    samples = from_array(np.asarray(labels), [images], [f"{path}: {x}"])
    return Samples(samples.labels, lambda numbers: _plain(samples, numbers), samples.where)


def _as_images(name: str, array: np.ndarray) -> np.ndarray:
    """As (samples, channels, height, width), by where a number of channels stands."""
    if array.dtype.kind not in "uif":
        raise SourceError(f"{name} holds {array.dtype}; expected uint8 in 0..255, or floats")
    if array.ndim == 3:
        return array[:, np.newaxis]
    if array.ndim == 4:
        first, last = array.shape[1] in _CHANNELS, array.shape[3] in _CHANNELS
        if first != last:
            return array if first else array.transpose(0, 3, 1, 2)
    raise SourceError(
        f"{name} has shape {array.shape}; expected (samples, height, width), or one with 1, 3 or 4 "
        "channels, either second or last"
    )


def _plain(samples: Samples, numbers: np.ndarray) -> Images:
    """Pixels as uint8 or float32."""
    found = samples.read(numbers)
    pixels = found.pixels
    if pixels.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what does not fit is found not to be finite
            return Images(pixels.astype(np.float32), numbers)
    outside = (pixels < 0) | (pixels > 255)
    if outside.any():
        at = int(np.flatnonzero(outside.any(axis=(1, 2, 3)))[0])
        raise SourceError(
            f"{samples.where(int(numbers[at]))} has the value {pixels[at][outside[at]][0]}, which "
            "is not in 0..255; whole numbers are 8-bit pixels, so scale them, or use floats"
        )
    return Images(pixels.astype(np.uint8), numbers)


def _first(samples: Samples) -> tuple[tuple[int, int, int], str]:
    channels, height, width = samples.read(np.arange(1)).pixels.shape[1:]
    return (channels, height, width), str(samples.read(np.arange(1)).pixels.dtype)
