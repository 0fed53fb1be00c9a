"""The trainer in a run folder of this rank's own, as on a phone."""

import os
import runpy
import shutil
import sys
from pathlib import Path

folder = Path(f"rank-{os.environ['OMPI_COMM_WORLD_RANK']}")
folder.mkdir(exist_ok=True)
shutil.copy("plan.json", folder)
os.chdir(folder)
sys.argv = ["trainer", "plan.json"]
runpy.run_module("trainer", run_name="__main__")
