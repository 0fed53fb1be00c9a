"""How much memory a rank needs, as a rehearsal on a phone has found out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from trainer.strictjson import Document


@dataclass(frozen=True, slots=True)
class MemoryNeed(Document):
    """Bytes of one rank: in the step, and when its state is sent or saved, without samples."""

    runtime_bytes: int
    """Python, torch and MPI, before there is a model."""
    model_bytes: int
    """Parameters, gradients, the optimiser's state."""
    copies_bytes: int
    """Copies of parameters and state while a checkpoint is written or taken over."""
    sample_bytes: int
    """Of each sample of a step: what is kept for the backward pass, and its workspace. Evaluation
    has no more samples at a time than a step, and keeps nothing for a backward pass."""
    version: Literal[1] = 1

    def bytes_for(self, samples: int) -> int:
        """At the worst moment of a run with so many samples at a time."""
        worst = max(self.copies_bytes, samples * self.sample_bytes)
        return self.runtime_bytes + self.model_bytes + worst

    def samples_that_fit(self, free_bytes: int) -> int:
        """How many samples at a time so much memory is enough for; 0: not even the model."""
        left = free_bytes - self.runtime_bytes - self.model_bytes
        if left < self.copies_bytes:
            return 0
        return max(left, 0) // self.sample_bytes if self.sample_bytes else 0


def least_parts(samples: int, fit: int) -> int:
    """Into how many parts `samples` must be cut so that each is at most `fit`."""
    return math.ceil(samples / fit)
