"""Runs on a phone: `python - ADDRESS PINGS`. Looks that take seconds, as one JSON object.

`loss_ratio`: the part of so many pings to the address that nobody answered; `wake_lock`: whether
Termux holds its own. Null where Android does not let an app look.
"""

from __future__ import annotations

import json
import re
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress

_ECHO, _ECHO_REPLY = 8, 0
_PAUSE_SECONDS = 0.02
_WAIT_SECONDS = 1.0
_LIMIT_SECONDS = 5.0


def loss_ratio(address: str, pings: int) -> float | None:
    """By a ping socket, which Android gives to every app; None where there is none."""
    try:
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    except OSError:
        return None
    answered: set[int] = set()
    with sock:
        sock.setblocking(False)
        try:
            sock.connect((address, 0))
        except OSError:
            return 1.0

        def listen(seconds: float) -> None:
            until = time.monotonic() + seconds
            while (left := until - time.monotonic()) > 0 and len(answered) < pings:
                if not select.select([sock], [], [], left)[0]:
                    return
                try:
                    answer = sock.recv(64)
                except OSError:
                    continue
                if len(answer) >= 8 and answer[0] == _ECHO_REPLY:
                    answered.add(struct.unpack("!H", answer[6:8])[0])

        for number in range(pings):
            with suppress(OSError):  # it counts as lost
                # The kernel fills in checksum and identifier.
                sock.send(struct.pack("!BBHHH", _ECHO, 0, 0, 0, number) + bytes(56))
            listen(_PAUSE_SECONDS)
        listen(_WAIT_SECONDS)
    return 1 - len(answered) / pings


def wake_lock() -> bool | None:
    """By Android's own list of wake locks; enrolment has granted Termux the right to read it."""
    try:
        done = subprocess.run(
            ["/system/bin/dumpsys", "power"], capture_output=True, timeout=_LIMIT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode(errors="replace")
    found = re.search(r"^Wake Locks: size=\d+$(.*?)(?:^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    if done.returncode or found is None:
        return None
    return "termux" in found[1]


def main(address: str, pings: int) -> None:
    loss = loss_ratio(address, pings) if address else None
    print(json.dumps({"loss_ratio": loss, "wake_lock": wake_lock()}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
