"""The process list, as anybody on this machine sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def watching_processes() -> Iterator[set[str]]:
    """Arguments of every process of this machine while it lasts, each with what it had before an
    exec and without them once it is a zombie."""
    seen: set[str] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            for place in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.add(place.read_bytes().decode(errors="replace"))
                except OSError:
                    continue
            stop.wait(0.02)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
