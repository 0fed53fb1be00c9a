"""One rank of the MPI program of test_arm64: sums over all ranks by the trainer's exchange."""

import ctypes

import numpy as np

from trainer.exchange.engine import Engine
from trainer.exchange.transport import MpiTransport
from trainer.formats import Exchange


def processor_name() -> str:
    """What Open MPI thinks that this phone is called."""
    name, length = ctypes.create_string_buffer(256), ctypes.c_int()
    ctypes.CDLL("libmpi.so.40").MPI_Get_processor_name(name, ctypes.byref(length))
    return name.value.decode()


engine = Engine(MpiTransport, Exchange(segment_bytes=64 * 1024))
data = np.arange(100_000, dtype=np.float32) % 97 + engine.rank
engine.all_reduce(data)
expected = 2 * (np.arange(100_000, dtype=np.float32) % 97) + 1
print(f"rank {engine.rank} of {engine.size} on {processor_name()}: {(data == expected).all()}")
engine.close()
