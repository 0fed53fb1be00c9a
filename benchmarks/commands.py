"""How long the commands take that people type all day, on a provisioned rack.

python benchmarks/commands.py --json docs/figures/commands.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from fleetctl.cli.output import print_table

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
COMMANDS = (("--help",), ("status",), ("jobs",))


def seconds(arguments: tuple[str, ...], turns: int) -> list[float]:
    times = []
    for _ in range(turns + 1):
        began = time.perf_counter()
        subprocess.run([FLEETCTL, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return times[1:]  # the first one warms the caches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    figures = {
        " ".join(("fleetctl", *arguments)): seconds(arguments, options.turns)
        for arguments in COMMANDS
    }
    print_table(
        ["COMMAND", "MEDIAN", "WORST"],
        (
            (command, f"{statistics.median(times):.3f} s", f"{max(times):.3f} s")
            for command, times in figures.items()
        ),
    )
    if options.json:
        options.json.write_text(json.dumps({"seconds": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
