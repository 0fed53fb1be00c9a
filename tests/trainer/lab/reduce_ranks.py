"""One rank of test_exchange: compares every reduce over MPI with mpi4py's sum, or NumPy's."""

import time

import numpy as np

from trainer.exchange.codec import CODECS, PLAIN
from trainer.exchange.reduce import build
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange

world = MpiTransport()
try:
    import mpi4py

    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI
except ImportError:  # Debian's is built for 5.0
    MPI = None

SWITCHES = [["a"], ["a", "b"], ["a", "a", "a", "b"]]


def part(rank: int, length: int, dtype: type) -> np.ndarray:
    """What a rank contributes; every rank can compute every other's."""
    generator = np.random.default_rng((rank, length))
    return generator.integers(0, 30, length).astype(dtype)


def expected_sum(length: int, dtype: type) -> np.ndarray:
    if MPI is None:
        return np.sum([part(r, length, dtype) for r in range(world.size)], axis=0, dtype=dtype)
    result = part(world.rank, length, dtype)
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, result)
    return result


exchanges = [
    *(Exchange(reduce=r, segment_bytes=32 * 1024) for r in ("ring", "hierarchical", "mpi")),
    *(Exchange(reduce=r, codec="half", segment_bytes=8192) for r in ("ring", "hierarchical")),
]
parts = [(length, np.float32) for length in (0, 1, world.size - 1, world.size + 1, 60_001)]
parts += [(999, dtype) for dtype in (np.float64, np.int64, np.uint8)]
for exchange in exchanges:
    for places in SWITCHES if exchange.reduce == "hierarchical" else SWITCHES[:1]:
        switches = (places * world.size)[: world.size]
        reduce = build(exchange, world, switches)
        for length, dtype in parts:
            data = part(world.rank, length, dtype)
            codec = CODECS[exchange.codec] if dtype is np.float32 else PLAIN
            for moved in reduce.all_reduce(data, codec):
                world.progress()
                if not moved:
                    time.sleep(1e-4)
            np.testing.assert_array_equal(data, expected_sum(length, dtype))
world.close()
print(f"rank {world.rank} of {world.size}: equal to {'mpi4py' if MPI else 'NumPy'}")
