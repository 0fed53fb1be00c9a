"""PyTorch's own collectives over gloo: the reference from outside.

Waiting, gloo sleeps in the kernel. Each message costs a system call or two more than ours.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from torch import distributed

from trainer.exchange.transport import TransportError

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class GlooWorld:
    """The default process group. `fleetctl launch` sets the variables that it needs, from the
    rack file: every phone's host name is localhost, and would lead each to itself."""

    def __init__(self) -> None:
        """Raises TransportError if a variable is missing or the ranks do not meet."""
        missing = [name for name in _VARIABLES if name not in os.environ]
        if missing:
            raise TransportError(
                f"reduce gloo: {', '.join(missing)} not set; start the run with `fleetctl launch`"
            )
        try:
            distributed.init_process_group("gloo")
        except (RuntimeError, ValueError) as error:
            meeting = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise TransportError(f"gloo, meeting at {meeting}: {error}") from error
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def all_reduce(self, data: np.ndarray) -> None:
        """The sum over all ranks, in place; returns when it is there."""
        try:
            distributed.all_reduce(torch.from_numpy(data))
        except RuntimeError as error:
            raise TransportError(f"gloo: {error}") from error

    def progress(self) -> bool:
        """Nothing is under way between two calls."""
        return True

    def close(self) -> None:
        """Leave the group, when all ranks have come so far.

        It goes with the process. destroy_process_group joins gloo's threads while it holds
        Python's lock, which one of them may want, to let go of a tensor: for ever (torch 2.6).
        """
        distributed.barrier()
