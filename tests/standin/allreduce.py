"""Runs on a phone under mpirun: sums (rank + 1) over the ranks, torch and MPI in one process."""

import ctypes

import torch

mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name: str) -> ctypes.c_void_p:
    """Open MPI's handles are the addresses of its predefined objects."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


mpi.MPI_Init(None, None)
world, rank = handle("ompi_mpi_comm_world"), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mine = torch.full((1000,), float(rank.value + 1))
total = torch.zeros(1000)
pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (mine, total))
mpi.MPI_Allreduce(*pointers, 1000, handle("ompi_mpi_float"), handle("ompi_mpi_op_sum"), world)
print(total.mean().item())
mpi.MPI_Finalize()
