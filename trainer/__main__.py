"""`python -m trainer PLAN`: what mpirun starts on every phone."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from trainer.errors import TrainerError
from trainer.formats import Plan
from trainer.report import Terminated, reporting


def main() -> int:
    """The exit status; success is told by the final records, not by this."""
    parser = argparse.ArgumentParser(prog="python -m trainer", description=__doc__)
    parser.add_argument("plan", type=Path, help="the plan, a JSON file")
    parser.add_argument("--run-dir", type=Path, default=Path(), help="where the run's files go")
    options = parser.parse_args()
    try:
        plan = Plan.read(options.plan)
        plan.check()
    except (TrainerError, OSError) as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 2
    try:
        with reporting(options.run_dir, plan) as reporter:
            # Here, since NumPy or torch may be what is missing.
            from trainer.api import run

            run(plan, options.run_dir, reporter)
    except (TrainerError, Terminated, ModuleNotFoundError):
        return 1  # explained by the last word
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A communication thread that waits for a lost phone must not hold up the end.
    os._exit(status)
