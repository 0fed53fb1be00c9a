"""Look at the controller and what it needs around it: read-only, each look within seconds."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import resource
import shutil
import socket
import sqlite3
import struct
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from fleetctl.checks.controller import ControllerFacts, Interface
from fleetctl.errors import FleetError
from fleetctl.rack import Rack, RackPaths
from fleetctl.rack.variables import watched_switches
from fleetctl.remote.services import ServicesHost, services_host
from fleetctl.state import State

LIMIT_SECONDS = 5.0
PROMETHEUS_PORT, ALERTMANAGER_PORT, MIRROR_PORT, NTP_PORT = 9090, 9093, 80, 123
TOOLS = ("ssh", "ssh-keygen", "ip")
LOCK = Path(__file__).resolve().parents[2] / "requirements.lock"

_NTP_EPOCH = 2_208_988_800
"""Seconds from 1900, where NTP counts from, to 1970."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The rack's own machines are never behind a proxy."""


async def look(rack: Rack, paths: RackPaths) -> ControllerFacts:
    """All looks at once."""
    here, services, mirror, (watching, calling), tools, ports = await asyncio.gather(
        asyncio.to_thread(_here, rack, paths),
        _services(rack, paths),
        asyncio.to_thread(_mirror, rack, paths),
        asyncio.gather(
            asyncio.to_thread(_prometheus, rack), asyncio.to_thread(_alertmanager, rack)
        ),
        _tools(),
        _interfaces(),
    )
    said = {**services, **mirror, **watching, **calling}
    return replace(here, interfaces=ports, tools=tools, **said)


def _here(rack: Rack, paths: RackPaths) -> ControllerFacts:
    """What this machine's own files say."""
    folders = dict.fromkeys([str(paths.home), tempfile.gettempdir()])
    known = _names(paths.known_hosts)
    server = rack.network.services or rack.network.controller
    offset = clock_offset_seconds(server) if server and rack.network.time == "ours" else None
    return ControllerFacts(
        free_bytes={folder: _free_bytes(folder) for folder in folders},
        ssh_problems=tuple(ssh_problems(paths)),
        unknown_phones=tuple(name for name in rack.enrolled if name not in known),
        state_problem=state_problem(paths.state_db),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        clock_synchronised=_synchronised(),
        clock_offset_seconds=offset,
        drift=drift(LOCK.read_text()) if LOCK.is_file() else {},
    )


def _free_bytes(folder: str) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _names(known_hosts: Path) -> set[str]:
    lines = known_hosts.read_text().splitlines() if known_hosts.is_file() else []
    return {name for line in lines for name in line.split(" ", 1)[0].split(",")}


def ssh_problems(paths: RackPaths) -> list[str]:
    """What is wrong with the rack's keys: missing, open to others, or not of one authority."""
    found = [
        f"{folder} has mode {mode:04o}, shall be 0700"
        for folder in (paths.dir, paths.ssh)
        if folder.is_dir() and (mode := folder.stat().st_mode & 0o777) & 0o077
    ]
    for key in (paths.ca, paths.operator):
        if not key.is_file():
            found.append(f"{key} is missing")
        elif (mode := key.stat().st_mode & 0o777) & 0o077:
            found.append(f"{key} has mode {mode:04o}, shall be 0600")
    if paths.ca_pub.is_file() and paths.operator_cert.is_file():
        found += _certificate_problems(paths)
    elif paths.ca.is_file():
        found.append("the operator has no certificate")
    return found


def _certificate_problems(paths: RackPaths) -> list[str]:
    """Whether the operator's certificate is of this authority and for this key."""
    import asyncssh

    try:
        certificate: Any = asyncssh.read_certificate(str(paths.operator_cert))
        authority = asyncssh.read_public_key(str(paths.ca_pub))
        operator = asyncssh.read_public_key(str(paths.operator_pub))
    except (OSError, ValueError) as problem:
        return [f"{paths.ssh}: a key cannot be read: {problem}"]
    found = []
    if certificate.signing_key.public_data != authority.public_data:
        found.append("the operator's certificate is of another authority")
    if certificate.key.public_data != operator.public_data:
        found.append("the operator's certificate is for another key")
    return found


def state_problem(path: Path) -> str:
    """Empty if the database is whole, or there is none yet."""
    if not path.is_file():
        return ""
    try:
        State(path).close()
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
        database.close()
    except FleetError as problem:
        return str(problem)
    except sqlite3.Error as problem:
        return f"{path}: {problem}"
    return "" if said == "ok" else f"{path}: {said}"


def _synchronised() -> bool | None:
    """By systemd's note that the clock was set; None where nobody writes one."""
    folder = Path("/run/systemd/timesync")
    return (folder / "synchronized").exists() if folder.is_dir() else None


def clock_offset_seconds(server: str, port: int = NTP_PORT) -> float | None:
    """How far the clock of an NTP server is ahead of this one; None where none answers."""
    request = b"\x23" + bytes(47)  # version 4, client
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(LIMIT_SECONDS)
        try:
            sock.connect((server, port))
            began = time.time()
            sock.send(request)
            answer = sock.recv(48)
        except OSError:
            return None
        ended = time.time()
    if len(answer) < 48:
        return None
    times = struct.unpack("!IIII", answer[32:48])
    received, sent = (times[at] + times[at + 1] / (1 << 32) for at in (0, 2))
    there = (received + sent) / 2 - _NTP_EPOCH
    return there - (began + ended) / 2


async def _interfaces() -> tuple[Interface, ...] | None:
    said = await _say("ip", "-json", "-4", "address", "show")
    try:
        return tuple(read_interfaces(json.loads(said or "")))
    except (ValueError, KeyError, TypeError):
        return None


def read_interfaces(links: Iterable[Mapping[str, Any]]) -> list[Interface]:
    """What `ip -json address` prints."""
    return [
        Interface(
            link["ifname"],
            address["local"],
            address["prefixlen"],
            link["mtu"],
            "UP" in link.get("flags", ()),
        )
        for link in links
        for address in link.get("addr_info", ())
        if address.get("family") == "inet"
    ]


async def _services(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    if not (rack.network.services or rack.network.controller):
        return {"units": {}}
    try:
        async with services_host(rack, paths) as host:
            return {"units": await _units(host, wanted_units(rack, paths))}
    except FleetError as problem:
        return {"services_problem": str(problem)}


def wanted_units(rack: Rack, paths: RackPaths) -> list[str]:
    """The services that site.yml leaves on the services host of this rack."""
    units = ["nginx"] if paths.mirror.is_file() else []
    units += ["dnsmasq"] if rack.network.dhcp == "ours" else []
    units += ["chrony"] if rack.network.time == "ours" else []
    return units + (["phonerack-switches"] if watched_switches(rack) else [])


async def _units(host: ServicesHost, units: list[str]) -> dict[str, str] | None:
    if not units:
        return {}
    said = await host.ask(f"systemctl is-active {' '.join(units)}")
    words = said.split()
    return dict(zip(units, words, strict=True)) if len(words) == len(units) else None


def _mirror(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    address = rack.network.services or rack.network.controller
    try:
        snapshot = str(json.loads(paths.mirror.read_text())["snapshot"])
    except (OSError, ValueError, LookupError, TypeError):
        return {"snapshot": None}
    url = f"http://{address}:{MIRROR_PORT}/{snapshot}/dists/stable/InRelease"
    said = _fetch(url)
    return {
        "snapshot": snapshot,
        "mirror_problem": "" if isinstance(said, bytes) else f"{url}: {said}",
    }


def _prometheus(rack: Rack) -> dict[str, Any]:
    base, problem = _watcher(rack, "Prometheus", PROMETHEUS_PORT)
    if problem:
        return {"prometheus_problem": problem}
    said = _fetch(f"{base}/api/v1/targets?state=active")
    try:
        targets = json.loads(said)["data"]["activeTargets"]
        names = {target["labels"].get("phone") for target in targets}
    except (ValueError, LookupError, TypeError):
        return {"prometheus_problem": f"Prometheus ({base}) does not tell its targets"}
    return {"watched": len(names & set(rack.phones))}


def _alertmanager(rack: Rack) -> dict[str, Any]:
    return {"alertmanager_problem": _watcher(rack, "Alertmanager", ALERTMANAGER_PORT)[1]}


def _watcher(rack: Rack, name: str, port: int) -> tuple[str, str | None]:
    """Where a program of the monitoring listens, and why it cannot be used."""
    address = rack.network.services or rack.network.controller
    if address is None:
        return "", "the rack file names no machine that watches"
    base = f"http://{address}:{port}"
    ready = _fetch(f"{base}/-/ready")
    return base, None if isinstance(ready, bytes) else f"{name} ({base}) is not ready: {ready}"


def _fetch(url: str) -> bytes | str:
    """What is there, or why nothing is."""
    try:
        with _DIRECT.open(url, timeout=LIMIT_SECONDS) as answer:
            content: bytes = answer.read(4 << 20)
            return content
    except urllib.error.HTTPError as problem:
        return f"HTTP {problem.code}"
    except (OSError, http.client.HTTPException, ValueError) as problem:
        return str(getattr(problem, "reason", None) or problem) or type(problem).__name__


async def _tools() -> dict[str, str | None]:
    """Version by program."""
    found: dict[str, str | None] = {"python": sys.version.split()[0]}
    found["ansible-core"] = _installed("ansible-core")
    for name in TOOLS:
        if shutil.which(name) is None:
            found[name] = None
            continue
        said = await _say(name, "-V") if name != "ssh-keygen" else None
        version = re.search(r"\d+(?:\.\d+)+\w*", said or "")
        found[name] = version[0] if version else "there"
    return found


async def _say(*command: str) -> str | None:
    """All that a program says; None where it cannot be run in time."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        async with asyncio.timeout(LIMIT_SECONDS):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        return None
    except OSError:
        return None
    return out.decode(errors="replace")


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def drift(lock: str) -> dict[str, tuple[str, str | None]]:
    """Packages whose version is not the lock's. Lines that only count elsewhere are left out."""
    found = {}
    for line in lock.splitlines():
        pinned = re.match(r"([A-Za-z0-9._-]+)==([^\s\\;]+)\s*(;.*)?", line)
        if pinned and not (pinned[3] or "").strip(" ;\\"):
            has = _installed(pinned[1])
            if has != pinned[2]:
                found[pinned[1]] = (pinned[2], has)
    return found
