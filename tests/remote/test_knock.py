"""Knocking at phones without a login."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fleetctl.rack.model import PHONE_PORT
from fleetctl.remote import knock

NET = f"127.9.{os.getpid() % 250}"
GREETS, THROTTLES, HANGS, ABSENT = (f"{NET}.{place}" for place in (1, 2, 3, 4))
WORDS = {GREETS: b"SSH-2.0-OpenSSH_10.0\r\n", THROTTLES: b"Not allowed at this time\r\n"}


@pytest.fixture
def doors() -> Iterator[dict[str, socket.socket]]:
    """sshd's port of three phones; the third's is open, and nobody comes to it."""
    found = {at: socket.create_server((at, PHONE_PORT)) for at in (GREETS, THROTTLES, HANGS)}

    def welcome(door: socket.socket, words: bytes) -> None:
        with suppress(OSError):
            while True:
                visitor, _ = door.accept()
                with visitor:
                    visitor.sendall(words)

    for address, words in WORDS.items():
        threading.Thread(target=welcome, args=(found[address], words), daemon=True).start()
    yield found
    for door in found.values():
        with suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)
        door.close()


@pytest.mark.usefixtures("doors")
def test_a_phone_answers_when_its_sshd_says_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knock, "_LIMIT_SECONDS", 0.2)
    phones = {"greets": GREETS, "throttles": THROTTLES, "hangs": HANGS, "absent": ABSENT}
    assert knock.answering(phones) == {"greets", "throttles"}


def test_rousing_phones_bothers_no_sshd(doors: dict[str, socket.socket]) -> None:
    doors[HANGS].setblocking(False)
    knock.rouse([HANGS, ABSENT])
    with pytest.raises(BlockingIOError):
        doors[HANGS].accept()
