"""Our compiled kernels (trainer/native/depthwise.c), by ctypes: no torch, no NumPy.

Arrays are given by their addresses; they are float32, contiguous, NCHW. ctypes lets go of the
interpreter's lock meanwhile.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from trainer.errors import TrainerError

LIBRARY = "libphonerack_kernels.so"
VARIANTS = ("plain", "vectors", "avx2")
"""Plain C; vectors of 128 bits, which every processor of the bundle's target has; of 256."""

Operation = Literal["forward", "input_gradient", "weight_gradient"]
_OPERATIONS: tuple[Operation, ...] = ("forward", "input_gradient", "weight_gradient")
_PARTS_PER_THREAD = 8
"""A task is cut finer than by threads, since cores differ and other work comes between."""
_OPENMP = ("libgomp.so.1", "libomp.so")


class KernelError(TrainerError):
    """The library is missing or cannot be loaded, or is asked for what it cannot do."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A depthwise convolution: of `images` x `channels` planes of `height` x `width`, by a square
    kernel, `pad_y` and `pad_x` zeros on either side."""

    images: int
    channels: int
    height: int
    width: int
    kernel: int
    stride: int = 1
    pad_y: int = 0
    pad_x: int = 0

    @property
    def out_height(self) -> int:
        return (self.height + 2 * self.pad_y - self.kernel) // self.stride + 1

    @property
    def out_width(self) -> int:
        return (self.width + 2 * self.pad_x - self.kernel) // self.stride + 1

    def check(self) -> None:
        """Raises KernelError for a shape that has no result."""
        sizes = (self.images, self.channels, self.height, self.width, self.kernel, self.stride)
        if min(sizes) < 1 or min(self.pad_y, self.pad_x) < 0:
            raise KernelError(f"{self}: sizes must be positive")
        if min(self.out_height, self.out_width) < 1:
            raise KernelError(f"{self}: the kernel is larger than the padded plane")


class _Task(ctypes.Structure):
    """`struct task` of depthwise.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("source", "weights", "bias", "result")),
        *((name, ctypes.c_long) for name in ("images", "channels", "height", "width")),
        *((name, ctypes.c_long) for name in ("out_height", "out_width", "kernel", "stride")),
        *((name, ctypes.c_long) for name in ("pad_y", "pad_x", "operation", "variant")),
        *((name, ctypes.c_long) for name in ("part", "issued")),
    )


class Kernels:
    """The loaded library. Raises KernelError where it cannot be loaded."""

    def __init__(self, path: Path) -> None:
        try:
            library = ctypes.CDLL(str(path))
            self._work = library.phonerack_depthwise
            self._work.argtypes, self._work.restype = (ctypes.c_void_p,), None
            best = library.phonerack_best_variant
        except (OSError, AttributeError) as error:
            raise KernelError(f"the compiled kernels cannot be loaded: {error}") from None
        best.restype = ctypes.c_long
        self.variants = VARIANTS[: best() + 1]
        """Those that this processor can run, the fastest last."""

    def depthwise(
        self, operation: Operation, shape: Shape, source: int, weights: int, result: int,
        *, bias: int = 0, threads: int = 1, variant: str | None = None,
    ) -> None:  # fmt: skip
        """Fill `result` with one of
        - forward: the output, of the input (`source`), the weights and the bias;
        - input_gradient: that of the input, of the output's (`source`) and the weights;
        - weight_gradient: that of the weights, of the input (`source`) and the output's (given
          as `weights`).
        """
        shape.check()
        planes = shape.channels
        if operation != "weight_gradient":
            planes *= shape.images
        parts = threads * _PARTS_PER_THREAD if threads > 1 else 1
        chosen = self.variants.index(variant or self.variants[-1])
        task = _Task(
            *(source, weights, bias, result),
            *(shape.images, shape.channels, shape.height, shape.width),
            *(shape.out_height, shape.out_width, shape.kernel, shape.stride),
            *(shape.pad_y, shape.pad_x, _OPERATIONS.index(operation), chosen),
            *(-(-planes // parts), 0),
        )
        address = ctypes.addressof(task)
        if threads == 1:
            self._work(address)
        elif (parallel := _openmp()) is not None:
            parallel(self._work, address, threads, 0)
        else:
            others = [_pool(threads).submit(self._work, address) for _ in range(threads - 1)]
            self._work(address)
            for each in others:
                each.result()


def shipped() -> Path:
    """Where the library lies in the bundle that this module is in."""
    return Path(__file__).resolve().parents[2] / "lib" / LIBRARY


@cache
def load(path: Path) -> Kernels:
    """The library at `path`, loaded once. Raises KernelError."""
    if not path.exists():
        raise KernelError(f"{path} is missing; it comes with a release, not with the sources")
    return Kernels(path)


@cache
def _openmp() -> ctypes._NamedFuncPointer | None:
    """The call by which compiled code starts OpenMP's threads, if torch has loaded OpenMP: its
    threads are there already, and while they wait for torch they would keep ours from the cores."""
    for name in _OPENMP:
        try:
            parallel = ctypes.CDLL(name, mode=os.RTLD_NOLOAD).GOMP_parallel
        except (OSError, AttributeError):
            continue
        parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        parallel.restype = None
        return parallel
    return None


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, "depthwise")
