"""One rank of test_exchange: compares the ring with NumPy's sum for many lengths."""

import numpy as np
import torch  # noqa: F401  as on a phone: torch and MPI in one process

from trainer.exchange.engine import Engine
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange


def part(rank: int, length: int) -> np.ndarray:
    """What a rank contributes; every rank can compute every other's."""
    generator = np.random.default_rng((rank, length))
    return generator.integers(-99, 99, length).astype(np.float32)


engine = Engine(MpiTransport, Exchange(segment_bytes=64 * 1024))
lengths = np.random.default_rng(0).integers(0, 300_000, 8).tolist()
for length in [0, 1, engine.size - 1, engine.size + 1, *lengths]:
    expected = sum(part(rank, length) for rank in range(engine.size))
    result = engine.all_reduce(part(engine.rank, length))
    np.testing.assert_array_equal(result, expected)
engine.close()
print(f"rank {engine.rank} of {engine.size}: equal")
