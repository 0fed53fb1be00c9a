"""Whether a compiled sum would be faster than NumPy's, for one segment of the ring.

    python benchmarks/native/run.py [-o json]

Each is the best of many repeats, since nothing but other work on the machine makes one slower.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trainer.formats import Exchange

SOURCE = Path(__file__).with_name("sums.c")
REPEATS, CALLS = 30, 100


def compiled(processor: str) -> ctypes.CDLL:
    """The sums for this machine's kind of processor, by the zig that releases are built with."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "sums.so"
        options = (f"-mcpu={processor}", "-O3", "-shared", "-nostdlib", "-ffreestanding")
        zig = [sys.executable, "-m", "ziglang", "cc"]
        subprocess.run([*zig, *options, "-o", library, SOURCE], check=True)
        return ctypes.CDLL(str(library))


def call(function: ctypes._NamedFuncPointer, total: np.ndarray, part: np.ndarray) -> None:
    function(ctypes.c_void_p(total.ctypes.data), ctypes.c_void_p(part.ctypes.data), len(total))


def microseconds(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()

    length = Exchange().segment_bytes // 4
    total = np.ones(length, np.float32)
    parts = {"add": np.ones(length, np.float32), "add_half": np.ones(length, np.float16)}
    results = []
    for name, part in parts.items():
        part *= 0  # so that the sum stays what it is
        results.append((name, "NumPy", microseconds(lambda p=part: np.add(total, p, out=total))))
        for processor in ("baseline", "native"):
            function = getattr(compiled(processor), name)
            took = microseconds(lambda f=function, p=part: call(f, total, p))
            results.append((name, f"compiled, {processor}", took))
    if total.min() != 1 or total.max() != 1:
        raise SystemExit("a sum is wrong")
    if options.output == "json":
        rows = [dict(zip(("sum", "by", "microseconds"), row, strict=True)) for row in results]
        print(json.dumps({"floats": length, "results": rows}, indent=2))
        return
    for name, by, took in results:
        print(f"{name:9} {by:20} {took:8.1f} µs")


if __name__ == "__main__":
    main()
