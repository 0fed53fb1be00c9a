"""One all-reduce, timed: our ring, or MPI_Allreduce as the MCA parameters of mpirun have it.

Run by mpirun, one process a phone; NumPy only. Rank 0 prints one JSON object: seconds of each
repeat on the slowest rank, and the CPU seconds that it took an average rank.

    mpirun … python ring_bench.py ring --megabytes 37.5 --repeats 5
    mpirun … --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4 \
        python ring_bench.py allreduce
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time

import numpy as np

from trainer.exchange.engine import Engine
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange


class OurRing:
    """The trainer's exchange, with its thread, as a run uses it."""

    def __init__(self, segment_bytes: int) -> None:
        self._engine = Engine(MpiTransport, Exchange(segment_bytes=segment_bytes))
        self.rank, self.size = self._engine.rank, self._engine.size
        self.sum, self.close = self._engine.all_reduce, self._engine.close


class MpiAllReduce:
    """MPI_Allreduce, called from this thread."""

    def __init__(self) -> None:
        transport = MpiTransport()
        self.rank, self.size, self.close = transport.rank, transport.size, transport.close
        self._mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self._world, self._float, self._add = (
            ctypes.byref(ctypes.c_char.in_dll(self._mpi, f"ompi_mpi_{name}"))
            for name in ("comm_world", "float", "op_sum")
        )

    def sum(self, data: np.ndarray) -> None:
        in_place, target = ctypes.c_void_p(1), ctypes.c_void_p(data.ctypes.data)
        code = self._mpi.MPI_Allreduce(
            in_place, target, data.size, self._float, self._add, self._world
        )
        if code:
            raise RuntimeError(f"MPI_Allreduce returned {code}")


def measure(collective: OurRing | MpiAllReduce, length: int) -> tuple[float, float]:
    """Seconds that one all-reduce took on the slowest rank, and CPU seconds of an average rank
    meanwhile."""
    data = np.full(length, collective.rank + 1, np.float32)
    collective.sum(np.zeros(1, np.float32))  # so that all start together
    began, cpu_began = time.perf_counter(), time.process_time()
    collective.sum(data)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    expected = collective.size * (collective.size + 1) / 2
    if data.min() != expected or data.max() != expected:
        raise RuntimeError(f"rank {collective.rank}: the sum is wrong")
    times = np.zeros(collective.size, np.float32)
    times[collective.rank] = seconds
    collective.sum(times)
    cpu_times = np.full(1, cpu_seconds, np.float32)
    collective.sum(cpu_times)
    return float(times.max()), float(cpu_times[0]) / collective.size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ring", "allreduce"))
    parser.add_argument("--megabytes", type=float, default=37.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--segment-bytes", type=int, default=Exchange().segment_bytes)
    options = parser.parse_args()

    collective = OurRing(options.segment_bytes) if options.what == "ring" else MpiAllReduce()
    length = int(options.megabytes * 1e6) // 4
    results = [measure(collective, length) for _ in range(options.repeats)]
    if collective.rank == 0:
        seconds, cpu_seconds = zip(*results, strict=True)
        print(
            json.dumps({"ranks": collective.size, "seconds": seconds, "cpu_seconds": cpu_seconds})
        )
    collective.close()


if __name__ == "__main__":
    main()
