"""Compute threads: those of torch, and those of OpenBLAS, which multiplies matrices for it.

On phones torch has no oneDNN: convolutions too become products of matrices. OpenBLAS has a pool of
its own, as large as the machine, that knows nothing of torch's threads. If each of these calls it,
the pools wait for each other: on two cores ResNet-18 took 7 times as long with 2 x 2 threads as
with 1 x 2 or 2 x 1 (docs/figures.md). Between two products its threads spin, which heats a phone
for nothing. So one of the two has one thread.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

import torch

_LIBRARY = re.compile(r"/\S*/libopenblas\S*\.so\S*")


def compute_with(threads: int, blas_threads: int = 1) -> None:
    """Compute with so many threads of torch, each of which has so many of OpenBLAS."""
    torch.set_num_threads(threads)
    for library in _openblas():
        library.openblas_set_num_threads(blas_threads)


def blas_threads() -> int | None:
    """How many threads OpenBLAS has; None where there is none."""
    return next((int(library.openblas_get_num_threads()) for library in _openblas()), None)


@cache
def _openblas() -> list[ctypes.CDLL]:
    """The OpenBLAS that torch has loaded: Termux's `libopenblas.so`, Debian's `libopenblasp-….so`.

    One that bears other names (a wheel's, with suffixes) is the caller's own affair.
    """
    try:
        paths = dict.fromkeys(_LIBRARY.findall(Path("/proc/self/maps").read_text()))
    except OSError:
        return []
    libraries = (ctypes.CDLL(path) for path in paths)
    return [library for library in libraries if hasattr(library, "openblas_set_num_threads")]
