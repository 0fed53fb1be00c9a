"""Depthwise convolution by our kernels beside torch without oneDNN, and what a training step gains.

    python benchmarks/native/depthwise.py [--threads 1 2] [--batch 4] [--side 224] [-o json]

Starts depthwise_lab.py in the lab image, once for each number of threads. It takes turns, so that
other work on the machine meets all alike: each operator of the depthwise layers of MobileNet-v1
and -v2, by torch and by us; and the training step (forward, backward, SGD) with torch's depthwise
layers, with ours, and with such as cost nothing. Each is the best of its turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import lab

from fleetctl.provision import native

LEAST_TIMES, LEAST_SHARE = 8.0, 0.85


def measure(library: Path, threads: int, batch: int, side: int, rounds: int) -> dict[str, Any]:
    numbers = [str(each) for each in (threads, batch, side, rounds)]
    found: dict[str, Any] = lab.run(
        *("depthwise_lab.py", f"/library/{library.name}", *numbers),
        # More of OpenBLAS for each of torch's would make torch many times slower.
        env={"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
        folder=library.parent,
    )
    return found


def totals(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Of each operator over all depthwise layers of a model, and the layer that gains least."""
    rows: list[dict[str, Any]] = []
    keys = dict.fromkeys((each["model"], each["operator"]) for each in found["operators"])
    for model, operator in keys:
        of_it = [
            each
            for each in found["operators"]
            if (each["model"], each["operator"]) == (model, operator)
        ]
        torch_ms, own_ms = (
            sum(each[by] * each["layers"] for each in of_it) for by in ("torch_ms", "own_ms")
        )
        least = min(of_it, key=lambda each: each["torch_ms"] / each["own_ms"])
        rows.append(
            {
                **{"model": model, "operator": operator, "torch_ms": torch_ms, "own_ms": own_ms},
                **{"times": torch_ms / own_ms, "least": least["torch_ms"] / least["own_ms"]},
                "least_layer": least["layer"],
            }
        )
    return rows


def shares(found: dict[str, Any]) -> list[dict[str, Any]]:
    """What a step gains, what it would if depthwise layers cost nothing, one by the other."""
    return [
        {
            **step,
            "gain": step["torch_ms"] / step["own_ms"],
            "most": step["torch_ms"] / step["free_ms"],
            "share": step["free_ms"] / step["own_ms"],
        }
        for step in found["steps"]
    ]


def show(found: dict[str, Any]) -> bool:
    """Prints two tables; whether the targets are met."""
    good = True
    print(f"\n{found['threads']} threads, torch {found['torch']} without oneDNN")
    for row in totals(found):
        good &= row["times"] >= LEAST_TIMES
        print(
            f"{row['model']:13} {row['operator']:16} torch {row['torch_ms']:8.1f} ms, ours "
            f"{row['own_ms']:6.1f} ms: {row['times']:5.1f} times; least {row['least']:.1f} times "
            f"({row['least_layer']})"
        )
    for row in shares(found):
        good &= row["share"] >= LEAST_SHARE
        print(
            f"{row['model']:13} step of {row['batch']} x {row['side']}²: torch "
            f"{row['torch_ms']:.0f} ms, ours {row['own_ms']:.0f}, free {row['free_ms']:.0f}: "
            f"{row['gain']:.2f} of {row['most']:.2f} times, {row['share']:.0%}",
            flush=True,
        )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=6, help="turns of the steps")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / native.KERNEL_LIBRARY
        target = native.TARGETS["linux-x86_64"]
        library.write_bytes(native.compile_library(lab.PROJECT, native.KERNEL_LIBRARY, target))
        sizes = (options.batch, options.side, options.rounds)
        results, good = [], True
        for threads in options.threads:
            results.append(measure(library, threads, *sizes))
            good &= options.output == "json" or show(results[-1])
    if options.output == "json":
        rows = [{**each, "totals": totals(each), "shares": shares(each)} for each in results]
        print(json.dumps(rows, indent=2))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
