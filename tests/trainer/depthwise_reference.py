"""Depthwise convolution and its gradients by NumPy in float64, and our kernels held against it.

Without torch and pytest: tests/arm64 runs this on an emulated processor too.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np

from trainer.kernels import KernelError, Kernels, Operation, Shape

TOLERANCE = 2e-6
"""Of the largest value of a result, which are sums of float32 products."""


def views(padded: np.ndarray, shape: Shape) -> Any:
    """For each tap of the kernel, its place and what of the padded planes it meets."""
    height, width = shape.out_height, shape.out_width
    for ky in range(shape.kernel):
        rows = slice(ky, ky + (height - 1) * shape.stride + 1, shape.stride)
        for kx in range(shape.kernel):
            columns = slice(kx, kx + (width - 1) * shape.stride + 1, shape.stride)
            yield ky, kx, padded[:, :, rows, columns]


def expected(
    shape: Shape, images: np.ndarray, weights: np.ndarray, bias: np.ndarray, slope: np.ndarray
) -> dict[Operation, np.ndarray]:
    pads = ((0, 0), (0, 0), (shape.pad_y,) * 2, (shape.pad_x,) * 2)
    padded = np.pad(images.astype(np.float64), pads)
    of_padded = np.zeros_like(padded)
    forward = np.zeros(slope.shape) + bias.astype(np.float64)[:, None, None]
    of_weights = np.zeros(weights.shape)
    for ky, kx, part in views(padded, shape):
        forward += weights[:, ky, kx, None, None].astype(np.float64) * part
        of_weights[:, ky, kx] = (part * slope).sum((0, 2, 3))
    for ky, kx, part in views(of_padded, shape):
        part += weights[:, ky, kx, None, None].astype(np.float64) * slope
    inner_rows = slice(shape.pad_y, shape.pad_y + shape.height)
    inner_columns = slice(shape.pad_x, shape.pad_x + shape.width)
    return {
        "forward": forward,
        "input_gradient": of_padded[:, :, inner_rows, inner_columns],
        "weight_gradient": of_weights,
    }


def framed(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """An array, and the buffer that holds it amid NaN."""
    size = int(np.prod(shape))
    buffer = np.full(size + 64, np.nan, np.float32)
    return buffer[32 : 32 + size].reshape(shape), buffer


def at_the_edge(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """An array behind whose last byte nothing may be read nor written."""
    size = int(np.prod(shape)) * 4
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    last = ctypes.c_void_p(whole.ctypes.data + pages * mmap.PAGESIZE)
    if libc.mprotect(last, ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    end = pages * mmap.PAGESIZE
    return whole[end - size : end].view(np.float32).reshape(shape), np.full(64, np.nan)


def check(
    kernels: Kernels, shape: Shape, variant: str, threads: int, seed: int = 0, make: Any = framed
) -> None:
    """Each operation gives what float64 gives, and writes nothing beside its result."""
    random = np.random.default_rng(seed)
    planes = (shape.images, shape.channels)
    sizes = {
        "images": (*planes, shape.height, shape.width),
        "weights": (shape.channels, shape.kernel, shape.kernel),
        "bias": (shape.channels,),
        "slope": (*planes, shape.out_height, shape.out_width),
    }
    given = {name: make(size)[0] for name, size in sizes.items()}
    for array in given.values():
        array[...] = random.standard_normal(array.shape)
    address = {name: array.ctypes.data for name, array in given.items()}
    operands: dict[Operation, tuple[int, int, int]] = {
        "forward": (address["images"], address["weights"], address["bias"]),
        "input_gradient": (address["slope"], address["weights"], 0),
        "weight_gradient": (address["images"], address["slope"], 0),
    }
    for operation, right in expected(shape, **given).items():
        result, buffer = make(right.shape)
        source, weights, bias = operands[operation]
        kernels.depthwise(
            *(operation, shape, source, weights, result.ctypes.data),
            **{"bias": bias, "threads": threads, "variant": variant},
        )
        what = f"{operation} of {shape} by {variant}, {threads} threads"
        error = np.abs(result - right).max() / max(1.0, np.abs(right).max())
        assert error < TOLERANCE, f"{what}: wrong by {error:.2g}"
        frame = np.concatenate((buffer[:32], buffer[-32:]))
        assert np.isnan(frame).all(), f"{what}: writes beside its result"


def random_shape(random: np.random.Generator) -> Shape:
    """One of those for which there are vectors, or near them; small ones are more likely."""
    largest = int(random.choice([4, 9, 20, 70, 300], p=[0.3, 0.3, 0.2, 0.15, 0.05]))
    while True:
        height, width = random.integers(1, largest + 1, 2)
        shape = Shape(
            *(int(random.integers(1, 4)), int(random.integers(1, 4)), int(height), int(width)),
            *(int(random.choice([3, 3, 5, 5, 2, 7])), int(random.choice([1, 1, 2, 2, 3]))),
            *(int(each) for each in random.integers(0, 4, 2)),
        )
        try:
            shape.check()
        except KernelError:
            continue
        return shape


def main() -> None:
    """LIBRARY COUNT [edge]: so many random shapes, by each variant of this processor."""
    kernels, random = Kernels(Path(sys.argv[1])), np.random.default_rng(0)
    make = at_the_edge if sys.argv[3:] == ["edge"] else framed
    for seed in range(int(sys.argv[2])):
        shape = random_shape(random)
        for variant in kernels.variants:
            check(kernels, shape, variant, threads=1 + seed % 3, seed=seed, make=make)
    print(f"equal: {', '.join(kernels.variants)}")


if __name__ == "__main__":
    main()
