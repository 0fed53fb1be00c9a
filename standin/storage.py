"""A phone's own storage: a sparse file system of a phone's size, mounted as its /data.

It costs what is written, and no more; but it can be full. Podman mounts and unmounts it with the
container.
"""

from __future__ import annotations

import os
from pathlib import Path

from standin import engine
from standin.commands import run
from standin.errors import StandinError

SIZE = "32G"
INODES = 400_000
FILESYSTEM = "ext4"

# The kernel would fill unused inode tables with real zeros.
MOUNT_OPTIONS = "loop,noinit_itable,nosuid,nodev"

TEMPLATE = "template.img"
BALLAST = ".ballast"
"""Root's, in the storage's own root: out of sight and reach of the app."""

_LEAST_CHUNK_BYTES = 4096


def is_possible() -> bool:
    """Whether this machine can mount a file as a file system. Without it, no storage is full."""
    return Path("/dev/loop-control").exists()


def make_template(folder: Path, image: str) -> None:
    """A file system that holds what the phone image has under /data."""
    folder.mkdir(exist_ok=True)
    partial = folder / f".{TEMPLATE}"
    partial.unlink(missing_ok=True)
    with engine.mounted_image(image) as root:
        # Without a journal: nobody repairs it, and it would be the largest thing in it.
        options = ("-q", "-O", "^has_journal", "-m", "0", "-N", str(INODES), "-E", "nodiscard")
        source = root / "data"
        source.mkdir(exist_ok=True)
        run((f"mkfs.{FILESYSTEM}", *options, "-d", str(source), str(partial), SIZE))
    partial.rename(folder / TEMPLATE)


def renew(folder: Path, rack: str, name: str, volume: str) -> None:
    """Fresh storage for a phone that has neither container nor volume, as a volume of podman's."""
    disk = folder / f"{name}.img"
    run(("cp", "--sparse=always", str(folder / TEMPLATE), str(disk)))
    engine.make_volume(rack, volume, disk, FILESYSTEM, MOUNT_OPTIONS)


def fill(data: Path, free_bytes: int) -> None:
    """Take all of the storage mounted at `data` but `free_bytes`; raises StandinError."""
    ballast = data / BALLAST
    if not (data / "lost+found").exists():
        raise StandinError("this rack's phones have no storage of their own: `down` and `up` first")
    empty(data)
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        chunk = 1 << 40
        while chunk >= _LEAST_CHUNK_BYTES:
            size = os.fstat(descriptor).st_size
            status = os.statvfs(data)
            chunk = min(chunk, status.f_bavail * status.f_frsize - free_bytes)
            if chunk < _LEAST_CHUNK_BYTES:
                break
            try:
                os.posix_fallocate(descriptor, size, chunk)
            except OSError:
                # Its own bookkeeping takes room too.
                os.ftruncate(descriptor, size)
                chunk //= 2
    finally:
        os.close(descriptor)


def empty(data: Path) -> None:
    """Take the ballast away again."""
    (data / BALLAST).unlink(missing_ok=True)
