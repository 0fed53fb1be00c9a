"""An exchange over 138 ranks without torch, in the lab image: it runs to its end and is right.

    python benchmarks/exchange/many.py [--ranks 138] [--series 5]

All ranks share one container and this machine's cores, and talk over TCP. So this is no measure
of speed: it shows that ring and hierarchical (46 ranks on each of three switches) carry so many.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from standin import images
from standin.engine import runtime_options

PROJECT = Path(__file__).resolve().parents[2]
SWITCHES = 3
REDUCES = ("ring", "hierarchical")


def exchange(image: str, series: str, reduce: str, ranks: int, length: int) -> dict[str, object]:
    """What rank 0 says of one exchange, every rank of which has compared its sum."""
    switches = ",".join(f"sw{rank * SWITCHES // ranks}" for rank in range(ranks))
    with tempfile.TemporaryDirectory() as folder:
        lengths = Path(folder) / "lengths.json"
        lengths.write_text(json.dumps([length]))
        done = subprocess.run(
            [
                *("podman", *runtime_options(), "run", "--rm", "--network=none"),
                *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
                *(f"--volume={PROJECT}:/src:ro", f"--volume={folder}:/lengths:ro"),
                *("--env=PYTHONPATH=/src", "--env=PYTHONDONTWRITEBYTECODE=1"),
                # A thread pool a rank would be as many threads as cores times ranks.
                "--env=OPENBLAS_NUM_THREADS=1",
                *(image, "with-mpi", series, "mpirun", "-n", str(ranks)),
                *("--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo", "python3"),
                "/src/benchmarks/exchange/on_phone.py",
                *(json.dumps({"reduce": reduce}), "/lengths/lengths.json"),
                *("--switches", switches),
            ],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=138)
    parser.add_argument("--series", choices=("5", "4"), default="5")
    parser.add_argument("--megabytes", type=float, default=1.0)
    options = parser.parse_args()
    image = images.ensure(lambda text: print(text, file=sys.stderr)).lab
    length = int(options.megabytes * 1e6) // 4
    for reduce in REDUCES:
        answer = exchange(image, options.series, reduce, options.ranks, length)
        seconds, cpu = answer["seconds"][0], answer["cpu_seconds"][0]  # type: ignore[index]
        print(f"{reduce}: {answer['ranks']} ranks, {seconds:.1f} s, {cpu:.2f} CPU s a rank")
    return 0


if __name__ == "__main__":
    sys.exit(main())
