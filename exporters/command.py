"""Run a program of the phone that may hang, flood or die, and always come back."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO, cast

_groups: set[int] = set()
"""Process groups that are running, for `end_all`."""
_starting = threading.Lock()
"""Held from a program's start until its group is known; for good once `end_all` has begun."""


class CommandError(Exception):
    """The program gave no usable answer; the message says how."""


def output(argv: list[str], *, limit_seconds: float, max_bytes: int = 64 * 1024) -> bytes:
    """Standard output of `argv`.

    Raises CommandError if it cannot be started, does not end within `limit_seconds`, prints more
    than `max_bytes` or fails. Its whole process group is dead afterwards in each of these cases.
    """
    program = Path(argv[0]).name
    process = _start(argv)
    deadline = time.monotonic() + limit_seconds
    stdout = cast(IO[bytes], process.stdout)
    try:
        text = _read(stdout.fileno(), deadline, max_bytes)
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise CommandError(f"{program}: no answer within {limit_seconds:g} s") from None
    except _FloodError:
        raise CommandError(f"{program}: printed more than {max_bytes} bytes") from None
    finally:
        if process.returncode is None:
            _kill_group(process.pid)
            process.wait()
        _groups.discard(process.pid)
        stdout.close()
    if code:
        raise CommandError(f"{program}: ended with {code}")
    return text


def _start(argv: list[str]) -> subprocess.Popen[bytes]:
    """A program in a group of its own that `end_all` knows of."""
    with _starting:
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError(f"{Path(argv[0]).name}: {error.strerror}") from error
        _groups.add(process.pid)
    return process


class _FloodError(Exception):
    pass


def _read(descriptor: int, deadline: float, max_bytes: int) -> bytes:
    """Everything up to the end of file. Raises TimeoutError at `deadline` (monotonic)."""
    text = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            part = os.read(descriptor, 65536)
            if not part:
                return text
            text += part
            if len(text) > max_bytes:
                raise _FloodError
    raise TimeoutError


def end_all() -> None:
    """Kill whatever `output` still waits for, since it would outlive this process.

    For the end of the process: it waits for a program that is just being started by another
    thread, and none starts any more.
    """
    _starting.acquire()
    for group in list(_groups):
        _kill_group(group)


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
