"""Point-to-point messages over Open MPI 4.1 or 5.0, by ctypes: no wheel to build per Python.

Both series export the same library (libmpi.so.40) and the same handle symbols. Everything here,
initialisation included, must be called from one thread: MPI is initialised as FUNNELED.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from trainer.errors import TrainerError

# bionic's libtool builds libraries without a version in their name.
_LIBRARIES = ("libmpi.so.40", "libmpi.so")
_THREAD_FUNNELED = 1
_SUCCESS = 0
_ERROR_IN_STATUS = 18
_SLOTS = 32
"""Messages that may be under way before there is made room for more."""
_ERROR_STRING_BYTES = 512
_VERSION_BYTES = 512
_IN_PLACE = ctypes.c_void_p(1)
_TYPES = {"float32": "float", "float64": "double", "uint8": "unsigned_char", "int64": "int64_t"}


class TransportError(TrainerError):
    """A message could not be sent or received; names the call and the peer."""


class Pending(Protocol):
    """A message on its way."""


class Transport(Protocol):
    """What a reduction needs to reach the other ranks; all calls return at once.

    Messages between two ranks that bear the same tag keep their order. They move, and are seen to
    be done, only while `progress` is called.
    """

    rank: int
    size: int

    def send(self, data: np.ndarray, peer: int, tag: int = 0) -> Pending: ...

    def receive(self, data: np.ndarray, peer: int, tag: int = 0) -> Pending: ...

    def progress(self) -> bool: ...

    def done(self, pending: Any) -> bool: ...

    def close(self) -> None: ...


class _Message:
    """A request of MPI; holds the array, whose memory MPI uses until the message is done."""

    __slots__ = ("call", "data", "done", "peer")

    def __init__(self, call: str, data: np.ndarray, peer: int) -> None:
        self.call, self.data, self.peer = call, data, peer
        self.done = False


class _Status(ctypes.Structure):
    """MPI_Status of Open MPI 4.1 and 5.0."""

    _fields_ = (
        ("source", ctypes.c_int),
        ("tag", ctypes.c_int),
        ("error", ctypes.c_int),
        ("cancelled", ctypes.c_int),
        ("count", ctypes.c_size_t),
    )


class _Requests:
    """The messages under way, side by side in memory, so that one call asks for all of them."""

    def __init__(self, mpi: ctypes.CDLL) -> None:
        self._mpi = mpi
        self._null = _symbol(mpi, "ompi_request_null").value
        self._count = ctypes.c_int()
        self._messages: dict[int, _Message] = {}
        self._free: list[int] = []
        self._handles: Any = (ctypes.c_void_p * 0)()
        self._make_room(_SLOTS)

    def _make_room(self, slots: int) -> None:
        """Have so many slots; those that there are keep what they hold."""
        held = [*self._handles]
        self._free += range(len(held), slots)
        self._handles = (ctypes.c_void_p * slots)(*held, *[self._null] * (slots - len(held)))
        self._indices, self._statuses = (ctypes.c_int * slots)(), (_Status * slots)()
        count = ctypes.byref(self._count)
        self._arguments = slots, self._handles, count, self._indices, self._statuses

    def put(self, message: _Message) -> Any:
        """Where MPI is to write the message's handle."""
        if not self._free:
            self._make_room(2 * len(self._handles))
        slot = self._free.pop()
        self._messages[slot] = message
        return ctypes.byref(self._handles, slot * ctypes.sizeof(ctypes.c_void_p))

    def test(self) -> tuple[int, list[tuple[_Message, int]]]:
        """Let MPI move; its code, and the messages that are done now, each with its own code."""
        code = self._mpi.MPI_Testsome(*self._arguments)
        ended: list[tuple[_Message, int]] = []
        if code not in (_SUCCESS, _ERROR_IN_STATUS):
            return code, ended
        for number in range(self._count.value):  # below 0 if none was under way
            slot = self._indices[number]
            message = self._messages.pop(slot)
            message.done = True
            self._free.append(slot)
            ended.append((message, self._statuses[number].error if code else _SUCCESS))
        return _SUCCESS, ended


class MpiTransport:
    """MPI_COMM_WORLD. `names` are the phones by rank, for errors."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = names
        self._mpi = _load()
        self._world = _symbol(self._mpi, "ompi_mpi_comm_world")
        self._byte = _symbol(self._mpi, "ompi_mpi_byte")
        self._sum = _symbol(self._mpi, "ompi_mpi_op_sum")
        self._requests = _Requests(self._mpi)
        provided = ctypes.c_int()
        self._check(
            "MPI_Init_thread",
            self._mpi.MPI_Init_thread(None, None, _THREAD_FUNNELED, ctypes.byref(provided)),
        )
        returning = _symbol(self._mpi, "ompi_mpi_errors_return")
        self._check(
            "MPI_Comm_set_errhandler", self._mpi.MPI_Comm_set_errhandler(self._world, returning)
        )
        if provided.value < _THREAD_FUNNELED:
            raise TransportError("MPI_Init_thread: this Open MPI was built without threads")
        self.rank = self._number("MPI_Comm_rank")
        self.size = self._number("MPI_Comm_size")
        self._compare_with_mpirun()

    def _compare_with_mpirun(self) -> None:
        """Another MPI's mpirun, or another series', leaves each rank in a world of its own."""
        told = os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE")
        if told is None or int(told) == self.size:
            return
        text, length = ctypes.create_string_buffer(_VERSION_BYTES), ctypes.c_int()
        self._mpi.MPI_Get_library_version(text, ctypes.byref(length))
        version = text.value.decode(errors="replace").split(",")[0]
        raise TransportError(
            f"mpirun started {told} ranks, but {version} is alone in its world: they are not of "
            "one MPI; see `command -v mpirun` on this phone, then site.yml -t openmpi"
        )

    def send(self, data: np.ndarray, peer: int, tag: int = 0) -> _Message:
        """Start to send `data` (contiguous); it must not change until the message is done."""
        return self._start("MPI_Isend", data, peer, tag)

    def receive(self, data: np.ndarray, peer: int, tag: int = 0) -> _Message:
        """Start to receive exactly as much as `data` holds into it."""
        return self._start("MPI_Irecv", data, peer, tag)

    def progress(self) -> bool:
        """Let MPI move the messages under way, all of them by one call; whether any is done now."""
        code, ended = self._requests.test()
        self._check("MPI_Testsome", code)
        for message, code in ended:
            self._check(message.call, code, message.peer)
        return bool(ended)

    def done(self, message: _Message) -> bool:
        """Whether the message was complete when `progress` was called last."""
        return message.done

    def all_reduce(self, data: np.ndarray) -> None:
        """Open MPI's own sum over all ranks, in place; returns when it is there."""
        kind = _symbol(self._mpi, f"ompi_mpi_{_TYPES[data.dtype.name]}")
        code = self._mpi.MPI_Allreduce(
            _IN_PLACE, data.ctypes.data, data.size, kind, self._sum, self._world
        )
        self._check("MPI_Allreduce", code)

    def close(self) -> None:
        """Leave MPI; waits for the other ranks to do so."""
        self._check("MPI_Finalize", self._mpi.MPI_Finalize())

    def _start(self, call: str, data: np.ndarray, peer: int, tag: int) -> _Message:
        message = _Message(call, data, peer)
        code = getattr(self._mpi, call)(
            data.ctypes.data,
            data.nbytes,
            self._byte,
            peer,
            tag,
            self._world,
            self._requests.put(message),
        )
        self._check(call, code, peer)
        return message

    def _number(self, call: str) -> int:
        value = ctypes.c_int()
        self._check(call, getattr(self._mpi, call)(self._world, ctypes.byref(value)))
        return value.value

    def _check(self, call: str, code: int, peer: int | None = None) -> None:
        if code == _SUCCESS:
            return
        text = ctypes.create_string_buffer(_ERROR_STRING_BYTES)
        self._mpi.MPI_Error_string(code, text, ctypes.byref(ctypes.c_int()))
        whom = "" if peer is None else f" with {self._describe(peer)}"
        raise TransportError(f"{call}{whom}: {text.value.decode(errors='replace')}")

    def _describe(self, peer: int) -> str:
        name = f" ({self._names[peer]})" if peer < len(self._names) else ""
        return f"rank {peer}{name}"


def _load() -> ctypes.CDLL:
    reasons = []
    for name in _LIBRARIES:
        try:
            # Global: Open MPI's own plug-ins look its symbols up in the process.
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reasons.append(str(error))
        else:
            return _with_signatures(library)
    raise TransportError(f"no Open MPI library ({'; '.join(reasons)}): install package openmpi")


def _with_signatures(library: ctypes.CDLL) -> ctypes.CDLL:
    handle, number, out = ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
    message = [ctypes.c_void_p, number, handle, number, number, handle, out]
    signatures: dict[str, list[Any]] = {
        "MPI_Init_thread": [out, out, number, out],
        "MPI_Comm_set_errhandler": [handle, handle],
        "MPI_Comm_rank": [handle, out],
        "MPI_Comm_size": [handle, out],
        "MPI_Isend": message,
        "MPI_Irecv": message,
        "MPI_Testsome": [number, out, out, out, out],
        "MPI_Allreduce": [out, out, number, handle, handle, handle],
        "MPI_Get_library_version": [ctypes.c_char_p, out],
        "MPI_Error_string": [number, ctypes.c_char_p, out],
        "MPI_Finalize": [],
    }
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int
    return library


def _symbol(library: ctypes.CDLL, name: str) -> ctypes.c_void_p:
    """A predefined handle of Open MPI: the address of one of its global structures."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, name)))
