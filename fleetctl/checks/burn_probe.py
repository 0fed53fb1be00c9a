"""A burn-in. Runs on a phone: `python - SECONDS MEMORY_BYTES DISK_BYTES FOLDER`, prints JSON.

All cores compute for so long; meanwhile memory and storage are filled with patterns and read back.
`sustained_ratio` is the speed of the last fifth against that of the first. `celsius`: the highest
temperature that the exporter wrote down meanwhile. `problem`: what was not as it was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

SNAPSHOT = Path("/data/data/com.termux/files/home/phonerack/exporter/snapshot.json")
_PIECE_BYTES = 1 << 20
_SLICE_SECONDS = 1.0


def compute(end: float, done: list[float]) -> None:
    """Hash until `end`; notes when each piece was through. hashlib lets other threads compute."""
    piece = bytes(_PIECE_BYTES)
    while time.monotonic() < end:
        hashlib.sha256(piece).digest()
        done.append(time.monotonic())


def sustained_ratio(began: float, end: float, done: list[list[float]]) -> float | None:
    """Of all cores together."""
    fifth = (end - began) / 5
    stamps = [moment for core in done for moment in core]
    first = sum(moment < began + fifth for moment in stamps)
    last = sum(end - fifth <= moment < end for moment in stamps)
    return last / first if first else None


def watch(end: float, seen: list[float]) -> None:
    """Notes the temperature until `end`."""
    while True:
        if (now := celsius()) is not None:
            seen.append(now)
        if (left := end - time.monotonic()) <= 0:
            return
        time.sleep(min(_SLICE_SECONDS, left))


def celsius() -> float | None:
    try:
        metrics = json.loads(SNAPSHOT.read_text())["metrics"]
        return float(metrics["phonerack_battery_temperature_celsius"][0]["value"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def pieces(size_bytes: int, seed: int) -> list[bytes]:
    """Patterns of which no two are alike, and that no compression makes small."""
    return [
        hashlib.shake_128(f"{seed} {n}".encode()).digest(_PIECE_BYTES)
        for n in range(max(1, size_bytes // _PIECE_BYTES))
    ]


def memory_problem(size_bytes: int, end: float) -> str:
    """Holds patterns in memory and reads them again and again; empty if all is well."""
    held = pieces(size_bytes, 1)
    sums = [hashlib.sha256(piece).digest() for piece in held]
    while time.monotonic() < end:
        for number, piece in enumerate(held):
            if hashlib.sha256(piece).digest() != sums[number]:
                return f"memory gives back other bytes than were written (piece {number})"
            if time.monotonic() >= end:
                break
        time.sleep(_SLICE_SECONDS / 10)
    return ""


def disk_problem(size_bytes: int, folder: Path) -> str:
    """Writes patterns into a file, past the cache as far as an app can, and reads them."""
    path = folder / f"burn-in.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for piece in pieces(size_bytes, 2):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with path.open("rb") as file:
            for number, piece in enumerate(pieces(size_bytes, 2)):
                if file.read(len(piece)) != piece:
                    return f"storage gives back other bytes than were written (piece {number})"
    except OSError as problem:
        return f"storage cannot be written and read: {problem.strerror}"
    finally:
        with suppress(OSError):
            path.unlink()
    return ""


def main(seconds: float, memory_bytes: int, disk_bytes: int, folder: str) -> None:
    began = time.monotonic()
    end = began + seconds
    done: list[list[float]] = [[] for _ in range(os.cpu_count() or 1)]
    seen: list[float] = []
    threads = [threading.Thread(target=compute, args=(end, each)) for each in done]
    threads.append(threading.Thread(target=watch, args=(end, seen)))
    for thread in threads:
        thread.start()
    problem = disk_problem(disk_bytes, Path(folder)) or memory_problem(memory_bytes, end)
    for thread in threads:
        thread.join()
    ratio = sustained_ratio(began, end, done)
    answer = {"sustained_ratio": ratio, "celsius": max(seen, default=None), "problem": problem}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
