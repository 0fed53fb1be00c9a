"""The trainer, after leaving its process id in the run folder."""

import os
import runpy
import sys
from pathlib import Path

rank = os.environ["OMPI_COMM_WORLD_RANK"]
Path(f"rank-{rank}.pid").write_text(str(os.getpid()))
sys.argv = ["trainer", "plan.json"]
runpy.run_module("trainer", run_name="__main__")
