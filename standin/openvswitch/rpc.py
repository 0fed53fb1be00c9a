"""Open vSwitch's two sockets: its database's (RFC 7047) and its daemon's. Both take JSON-RPC."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from standin.errors import StandinError

ANSWER_WAIT_SECONDS = 30.0
"""The daemon answers between two rounds of forwarding, which a busy machine makes long."""

DATABASE, DAEMON = "db.sock", "vswitchd.ctl"


def call(folder: Path, name: str, method: str, *params: Any) -> Any:
    """What the socket `name` in `folder` answers. Raises StandinError."""
    question = {"method": method, "params": params, "id": 0}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_WAIT_SECONDS)
            _connect(connection, folder, name)
            connection.sendall(json.dumps(question).encode())
            answer = _one_document(connection)
    except (OSError, TimeoutError, ValueError) as problem:
        raise StandinError(
            f"the switch whose sockets lie in {folder} does not answer ({problem}): "
            "`fleetctl standin up` mends it"
        ) from None
    if answer.get("error"):
        raise StandinError(f"{method}: {answer['error']}")
    return answer["result"]


def _connect(connection: socket.socket, folder: Path, name: str) -> None:
    """By way of an open folder: a socket's own path may have 107 characters only."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)


def _one_document(connection: socket.socket) -> dict[str, Any]:
    """Neither socket marks the end of an answer, nor closes."""
    text = b""
    while data := connection.recv(1 << 16):
        text += data
        if text.rstrip().endswith(b"}"):
            try:
                found: dict[str, Any] = json.loads(text)
            except ValueError:
                continue
            return found
    raise ValueError("it closed the connection")
