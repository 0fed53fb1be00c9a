"""`fleetctl check --bundle FILE`: what others need to help, and nothing that they must not have."""

from __future__ import annotations

import io
import json
import os
import platform
import secrets
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl import __version__
from fleetctl.checks.redact import Redactor
from fleetctl.rack import InputError
from fleetctl.rack.files import write_atomic

if TYPE_CHECKING:
    from fleetctl.cli.common import App

MOST_RUNS, MOST_PROVISIONS = 5, 3
MOST_ATTEMPTS = 4
"""Of each run, beside the first."""

MOST_BYTES = 256 << 10
"""So much of the end of each file."""

_RUN_FILES = ("events.jsonl", "progress.jsonl", "versions.json", "job.yml", "plan.json")
_RUN_LOGS = ("mpirun.log",)

_README = """\
What `fleetctl check --bundle` found on a rack of phonerack, for whoever helps.

Keys, passwords, tokens and vaults are taken out. Serials and MACs are replaced by words that are
equal where the device is, within this bundle only. Names of people, phones, runs and addresses are
left: read it before you send it.

rack.yml, rack.lock.yml   the rack
versions.json             programs and packages of the controller
checks.json               what every check answered
state.json                drains, health, allocations, and the history of each phone
runs/                     the newest runs and attempts: events, progress, plan, the end of the log
provisions/               the ends of the newest logs of provisioning
logs/                     the ends of the rack's own logs
"""


def refuse_bundle(path: Path) -> None:
    """Raises InputError where the bundle could not be written, before anything is asked."""
    if path.exists():
        raise InputError(f"{path} exists already: give the bundle another name")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is no folder: make it first")


def write_bundle(app: App, path: Path, checks: Mapping[str, Any]) -> list[str]:
    """Write the bundle; `checks` is what they answered, by scope. Returns the names in it.

    Raises OSError.
    """
    from fleetctl.rack.loader import lock_file_of

    lock = lock_file_of(app.rack_file, app.paths)
    redactor = _redactor(app)
    texts = {
        "README.txt": _README,
        "rack.yml": redactor.text(_tail(app.rack_file)),
        "rack.lock.yml": redactor.text(_tail(lock)),
        "versions.json": _json(redactor.value(_versions())),
        "checks.json": _json(redactor.value(checks)),
        "state.json": _json(redactor.value(_state(app))),
        **{name: redactor.text(text) for name, text in _logs(app)},
        **dict(_runs(app, redactor)),
    }
    folder = f"phonerack-{app.rack.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    write_atomic(path, _packed(folder, texts), mode=0o600)
    return list(texts)


def _redactor(app: App) -> Redactor:
    rack = app.rack
    phones = [*rack.phones.values(), *rack.left.values()]
    logins = [switch.login for switch in rack.switches.values()]
    names = {name for login in logins for name in (login.password, login.enable) if name}
    names |= {rack.network.snmp_community} if rack.network.snmp_community else set()
    known = [os.environ.get(name.upper(), "") for name in names]
    serials = [phone.serial or "" for phone in phones]
    return Redactor(secrets.token_bytes(32), serials, known)


def _versions() -> dict[str, Any]:
    from importlib import metadata

    packages = {each.metadata["Name"]: each.version for each in metadata.distributions()}
    return {
        "fleetctl": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "packages": dict(sorted(packages.items())),
    }


def _state(app: App) -> dict[str, Any]:
    """By phone; a state that cannot be read is what others have to help with."""
    from fleetctl.state import StateError

    try:
        known = app.state.phones()
        return {
            name: {
                **asdict(known[name]),
                "history": [asdict(event) for event in app.state.history(name)],
            }
            for name in known
        }
    except StateError as problem:
        return {"problem": str(problem)}


def _runs(app: App, redactor: Redactor) -> Iterator[tuple[str, str]]:
    from fleetctl.jobs.runs import all_runs

    for run in all_runs(app.paths.runs)[:MOST_RUNS]:
        later = range(2, run.attempt + 1)[-MOST_ATTEMPTS:]
        for folder in (run.path, *map(run.folder_of, later)):
            place = f"runs/{run.name}/{folder.relative_to(run.path)}".removesuffix("/.")
            yield from _run_files(folder, place, redactor)


def _run_files(folder: Path, place: str, redactor: Redactor) -> Iterator[tuple[str, str]]:
    """What the run, or one attempt of it, has in its folder."""
    for name in _RUN_FILES:
        if text := _tail(folder / name):
            lines = name.endswith(".jsonl")
            yield (
                f"{place}/{name}",
                redactor.json_lines(text) if lines else _plain(redactor, name, text),
            )
    for name in _RUN_LOGS:
        if text := _tail(folder / name):
            yield f"{place}/{name}", redactor.text(text)


def _plain(redactor: Redactor, name: str, text: str) -> str:
    """A document as a whole, or the text of one that is none."""
    if name.endswith(".json"):
        try:
            return _json(redactor.value(json.loads(text)))
        except ValueError:
            pass
    return redactor.text(text)


def _logs(app: App) -> Iterator[tuple[str, str]]:
    """The rack's own logs lie in its folder; nothing below ssh/ is read."""
    from fleetctl.provision.history import LOG, list_runs

    for run in list_runs(app.paths.provisions)[-MOST_PROVISIONS:]:
        yield f"provisions/{run}.txt", _tail(app.paths.provisions / run / LOG)
    for folder in (app.paths.dir, app.paths.dir / "logs"):
        for path in sorted(folder.glob("*.log")) if folder.is_dir() else ():
            if path.is_file() and not path.is_symlink():
                yield f"logs/{path.name}", _tail(path)


def _tail(path: Path) -> str:
    """The end of a file from a whole line on; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            content = file.read()
    except OSError:
        return ""
    if size > MOST_BYTES:
        content = content.partition(b"\n")[2]
    return content.decode(errors="replace")


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, default=str) + "\n"


def _packed(folder: str, texts: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode, entry.mtime = len(content), 0o600, int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
