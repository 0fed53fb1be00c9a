"""The daemon's control socket: one line of JSON asks, one line answers.

`{"order": "status", …}` gets `{"answer": {…}}`, or `{"problem": "what went wrong"}`. The socket
lies in the rack's folder, which only its owner may enter.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fleetctl.errors import FleetError
from standin.daemon.desk import Desk, Document
from standin.errors import StandinError

SOCKET = "daemon.sock"
ANSWER_WAIT_SECONDS = 60.0
LINE_LIMIT_BYTES = 1 << 20

log = logging.getLogger(__name__)


class NoDaemon(StandinError):
    """Nobody answers on the control socket."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A rack's daemon seen from outside: no pid where it is down; services that fail, and why."""

    pid: int | None
    problems: dict[str, str]


def inspect(folder: Path) -> Inspected:
    """How the daemon of the rack whose stand-in folder is `folder` is."""
    try:
        found = ask(folder, "status")
    except NoDaemon:
        return Inspected(None, {})
    services = found["services"].items()
    problems = {name: how["problem"] for name, how in services if how["state"] == "failed"}
    return Inspected(found["pid"], problems)


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's path, by way of an open folder: a socket's own may have 107 characters only."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def ask(folder: Path, order: str, **arguments: Any) -> Document:
    """The answer of the daemon of the rack whose stand-in folder is `folder`.

    Raises NoDaemon where none answers, StandinError with what went wrong.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_WAIT_SECONDS)
            with _address(folder) as address:
                connection.connect(address)
            connection.sendall(json.dumps({"order": order, **arguments}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
    except (OSError, TimeoutError) as problem:
        raise NoDaemon(
            f"the stand-in's background process does not answer ({problem}): "
            f"`fleetctl standin up` starts it; its log is {folder / 'daemon.log'}"
        ) from None
    document = json.loads(line or b'{"problem": "the background process ended meanwhile"}')
    if "problem" in document:
        raise StandinError(document["problem"])
    answer: Document = document["answer"]
    return answer


def tell_of_change(folder: Path) -> None:
    """Say that containers have been started or faults set; a daemon that is down need not know."""
    with suppress(NoDaemon):
        ask(folder, "changed")


async def serve(desk: Desk) -> None:
    """Answer orders until cancelled."""
    folder = desk.rig.folders.root
    (folder / SOCKET).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with _address(folder) as address:
            listener.bind(address)
        (folder / SOCKET).chmod(0o600)
        server = await asyncio.start_unix_server(
            lambda reader, writer: _converse(desk, reader, writer),
            sock=listener,
            limit=LINE_LIMIT_BYTES,
        )
        async with server:
            await server.serve_forever()


async def _converse(desk: Desk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            document = await _answer(desk, line)
            writer.write(json.dumps(document).encode() + b"\n")
            await writer.drain()
    except (OSError, ValueError) as problem:
        log.info("control: %s", problem)
    finally:
        writer.close()


async def _answer(desk: Desk, line: bytes) -> Document:
    try:
        arguments = json.loads(line)
        order = arguments.pop("order")
    except (ValueError, KeyError, AttributeError, TypeError):
        return {"problem": "an order is one JSON object on one line, with `order`"}
    if order == "status":
        return {"answer": status(desk)}
    if order == "changed":
        for told in desk.on_change:
            told()
        return {"answer": {}}
    if order not in desk.orders:
        return {"problem": f"order `{order}` is not known, or its service is down: see the log"}
    try:
        return {"answer": await desk.orders[order](arguments)}
    except FleetError as problem:
        return {"problem": str(problem)}
    except Exception as problem:
        log.exception("order %s failed", order)
        return {"problem": f"{order}: {type(problem).__name__}: {problem}"}


def status(desk: Desk) -> Document:
    """Process and services, as `fleetctl standin list` shows them."""
    services = {name: asdict(condition) for name, condition in desk.services.items()}
    return {"pid": os.getpid(), "services": services}
