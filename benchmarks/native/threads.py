"""A training step by who has the threads: torch, OpenBLAS, or each of torch's OpenBLAS again.

    python benchmarks/native/threads.py [--threads 2] [--batch 8] [--side 64] [-o json]

Starts threads_lab.py in the lab image, without oneDNN as on phones. A step is forward and backward;
each way is the best of its turns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

import lab


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--side", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()
    sizes = (options.threads, options.batch, options.side, options.rounds)
    found = lab.run("threads_lab.py", *map(str, sizes), env={})
    if options.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    print(f"torch {found['torch']} without oneDNN, batch {found['batch']} at {found['side']}²")
    for row in found["steps"]:
        print(
            f"{row['model']:13} torch {row['torch']} x OpenBLAS {row['openblas']}: "
            f"{row['ms']:7.0f} ms, {row['cpu_ms']:7.0f} ms of processors"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
