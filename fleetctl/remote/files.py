"""Files and folders over sftp, whole or not at all: written beside, then renamed."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path, PurePosixPath

import asyncssh

from fleetctl.remote.faults import Fault, PhoneError

_FILES_AT_ONCE = 3

Move = Callable[[asyncssh.SFTPClient], Awaitable[None]]


async def put_each(sftp: asyncssh.SFTPClient, local: Iterable[Path], folder: str) -> None:
    """Copy files into a folder of the phone, in about their order; each appears there whole."""
    files = iter(local)

    async def work() -> None:
        for path in files:
            await put(sftp, path, f"{folder}/{path.name}")

    # Several at once: opening, closing and renaming one after another would leave the link idle.
    tasks = [asyncio.create_task(work()) for _ in range(_FILES_AT_ONCE)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def put(sftp: asyncssh.SFTPClient, local: Path, remote: str) -> None:
    """Copy `local` to the path `remote`; a folder that is there already is replaced."""
    target = PurePosixPath(remote)
    await sftp.makedirs(str(target.parent), exist_ok=True)
    beside = str(target.with_name(f".{target.name}.{secrets.token_hex(4)}.part"))
    try:
        await sftp.put(str(local), beside, recurse=local.is_dir())
        if local.is_dir() and await sftp.exists(remote):
            await sftp.rmtree(remote)
        await sftp.posix_rename(beside, remote)
    except BaseException:
        await _discard(sftp, beside)
        raise


async def get(sftp: asyncssh.SFTPClient, remote: str, local: Path) -> None:
    """Copy the path `remote` to `local`, which appears only when all of it is here."""
    local.parent.mkdir(parents=True, exist_ok=True)
    beside = local.with_name(f".{local.name}.{secrets.token_hex(4)}.part")
    folder = await sftp.isdir(remote)
    try:
        await sftp.get(remote, str(beside), recurse=folder)
        if folder:
            shutil.rmtree(local, ignore_errors=True)
        else:
            _flush(beside)
        beside.replace(local)
    finally:
        if beside.is_dir():
            shutil.rmtree(beside)
        beside.unlink(missing_ok=True)


def explain(phone: str, error: asyncssh.SFTPError) -> PhoneError:
    """sftp's own failures, with the cure; `Failure` without words is nearly always a full disk."""
    if isinstance(error, asyncssh.SFTPNoSuchFile):
        message = f"{phone} lacks a file that was asked for: {error.reason}"
    elif isinstance(error, asyncssh.SFTPPermissionDenied):
        message = f"{phone} denies access: {error.reason}; run site.yml -t termux"
    else:
        message = f"copying to or from {phone} failed: {error.reason}; check its free disk space"
    return PhoneError(phone, Fault.FAILED, message)


async def _discard(sftp: asyncssh.SFTPClient, path: str) -> None:
    """Best effort: the connection itself may be what failed."""
    try:
        if await sftp.isdir(path):
            await sftp.rmtree(path)
        elif await sftp.exists(path):
            await sftp.remove(path)
    except (asyncssh.Error, OSError):
        return


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
