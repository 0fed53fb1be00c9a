"""`python -m trainer.measure.trial BYTES`: training steps that may take so much memory.

Reads a ComputeSpec of one case on the first line of its input, then one batch a line. Answers each
with one line of JSON: `peak_bytes`, what the step added at its highest, null when it did not fit,
or `problem`. torch is imported once; each batch is tried in a child of its own, which alone is
limited. See trainer.measure.memory for why.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from dataclasses import replace
from pathlib import Path

import torch

from trainer.errors import TrainerError
from trainer.formats import ComputeSpec
from trainer.measure.compute import Trainee
from trainer.threads import compute_with

_STATUS = Path("/proc/self/status")


def main() -> None:
    limit_bytes = int(sys.argv[1])
    spec = ComputeSpec.from_json(sys.stdin.readline(), "spec")
    while line := sys.stdin.readline():
        # This process has called nothing of torch yet, so it has no threads that a fork would lose.
        child = os.fork()
        if child == 0:
            try:
                answer = _answer(spec, int(line), limit_bytes)
                # Past Python's buffers: even a few bytes may be too many now.
                os.write(1, answer)
                os._exit(0)
            finally:
                # Threads of torch must not be asked to end in order where no memory is left.
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            os.write(1, _TOO_MUCH)


_TOO_MUCH = b'{"peak_bytes": null}\n'


def _answer(spec: ComputeSpec, batch: int, limit_bytes: int) -> bytes:
    """The line that tells how the step went."""
    try:
        peak = _peak_bytes(spec, batch, limit_bytes)
    except TrainerError as error:
        return json.dumps({"problem": str(error)}).encode() + b"\n"
    except Exception:
        # Libraries have many words for a malloc that failed, and some just end the process.
        return _TOO_MUCH
    return _TOO_MUCH if peak > limit_bytes else b'{"peak_bytes": %d}\n' % peak


def _peak_bytes(spec: ComputeSpec, batch: int, limit_bytes: int) -> int:
    """What two steps needed at their highest. Raises MemoryError or RuntimeError."""
    case, device = spec.cases[0], torch.device(spec.device)
    compute_with(case.threads)
    # torch's own threads and tables come first: they are no part of what a step needs.
    ((torch.ones(256, 256, requires_grad=True) @ torch.ones(256, 256)).sum()).backward()
    before = _own_bytes("VmRSS")
    if device.type == "cpu":
        limit = _status_bytes("VmSize") + limit_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    trainee = Trainee(replace(case, batch=batch), spec.optimizer, device)
    # The second step has all gradients and the optimiser's state.
    trainee.step()
    trainee.step()
    if device.type == "cpu":
        return _own_bytes("VmHWM") - before
    return int(getattr(torch, device.type).max_memory_allocated(device))


def _own_bytes(key: str) -> int:
    """Memory without the pages of libraries, which come in as they are first used and are the
    kernel's to take back."""
    return _status_bytes(key) - _status_bytes("RssFile")


def _status_bytes(key: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    if not found:
        raise RuntimeError(f"no {key} in {_STATUS}")
    return int(found[1]) * 1024


if __name__ == "__main__":
    main()
