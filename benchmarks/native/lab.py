"""Programs of this folder in the lab image, which has torch with OpenBLAS as phones have it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from standin import images
from standin.engine import runtime_options

PROJECT = Path(__file__).resolve().parents[2]


def run(program: str, *arguments: str, env: Mapping[str, str], folder: Path | None = None) -> Any:
    """The JSON document that the program prints. It sees `folder` as /library."""
    limits = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096", "--network=none")
    mounts = [f"--volume={PROJECT}:/src:ro"]
    mounts += [f"--volume={folder}:/library:ro"] if folder else []
    environment = ("--env=PYTHONPATH=/src", *(f"--env={key}={env[key]}" for key in env))
    start = ("podman", *runtime_options(), "run", "--rm", *limits, *mounts, *environment)
    command = (images.ensure(_say).lab, "python3", f"/src/benchmarks/native/{program}")
    done = subprocess.run([*start, *command, *arguments], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
