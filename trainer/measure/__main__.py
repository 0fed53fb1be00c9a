"""`python -m trainer.measure WHAT SPEC`: measures and leaves rank-R.measured.json beside it.

Started by `fleetctl bench` on phones, one rank each, or by hand. `collectives` needs no torch.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from trainer.errors import TrainerError
from trainer.formats import (
    CollectivesSpec,
    ComputeSpec,
    Document,
    FormatError,
    TrainingSpec,
    measured_name,
)

SPECS: dict[str, type[Document]] = {
    "collectives": CollectivesSpec,
    "compute": ComputeSpec,
    "training": TrainingSpec,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.measure", description=__doc__)
    parser.add_argument("what", choices=SPECS)
    parser.add_argument("spec", type=Path, help="what to measure, a JSON file")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of the answer")
    options = parser.parse_args()
    try:
        spec = SPECS[options.what].read(options.spec)
        # Here, since NumPy or torch may be what is missing.
        measured: Document = import_module(f"trainer.measure.{options.what}").measure(spec)
    except (TrainerError, FormatError, ModuleNotFoundError, OSError) as error:
        print(f"measure: {error}", file=sys.stderr)
        return 1
    measured.write(options.out / measured_name(own_rank()))
    return 0


def own_rank() -> int:
    """This process's place among the phones, as mpirun tells it; 0 without mpirun."""
    return int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A communication thread that waits for a lost phone must not hold up the end.
    os._exit(status)
