"""What the switch exporter on the services host is made of.

`python -m fleetctl.provision.switch_exporter --rack FILE --out FOLDER` writes the program, one
file that any Python from 3.11 on runs, and prints one JSON line: where it lies, the settings for
it, and the name of the secret that it needs. Equal sources give equal bytes. `--check` writes
nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import Rack, Switch, load_rack
from fleetctl.rack.files import write_atomic
from fleetctl.rack.variables import watched_switches
from fleetctl.switches.intent import intend
from fleetctl.switches.platforms import platform

PORT = 9866
"""Where the exporter listens, on the services host's address in the rack."""

_ROOT = Path(__file__).resolve().parents[2]
_OWN = ("exporters/__init__.py", "exporters/metrics.py", "exporters/collector.py")
_VENDORED = ("pysnmp", "pyasn1", "prometheus-client")
_START = "from exporters.switches.__main__ import main\n\nmain()\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Exporter:
    """`secret` names the community; without one, or without a managed switch, there is nothing
    to watch and `settings` is None."""

    program: Path
    changed: bool
    settings: dict[str, Any] | None
    secret: str | None


def settings(rack: Rack, community_file: str) -> dict[str, Any] | None:
    """The exporter's settings document, or None where no switch of `rack` can be asked."""
    switches = [_settings_of(rack, rack.switches[name]) for name in watched_switches(rack)]
    if not switches:
        return None
    return {
        "version": 1,
        "address": rack.network.services or rack.network.controller,
        "port": PORT,
        "community_file": community_file,
        "switches": switches,
    }


def _settings_of(rack: Rack, switch: Switch) -> dict[str, Any]:
    """Which ports are cut off on purpose comes and goes: their descriptions tell that."""
    found = platform(switch.platform)
    intent = intend(rack, switch, switch.interfaces or found.interfaces(switch.ports))
    ports = [
        {
            "number": port.number,
            "interface": port.interface,
            "role": port.role,
            "label": port.label,
            "phone": port.label if port.role == "phone" else "",
            "vlan": intent.vlan if port.role == "phone" else None,
            "enabled": port.role != "unused",
        }
        for port in intent.ports
    ]
    return {
        "name": switch.name,
        "address": switch.address,
        "platform": switch.platform,
        "hostname": intent.hostname,
        "vlan": intent.vlan,
        "ports": ports,
    }


def pack() -> bytes:
    """The program: our modules and three packages of pure Python, in a file without times."""
    files = {"__main__.py": _START.encode()}
    own = [_ROOT / name for name in _OWN] + sorted((_ROOT / "exporters/switches").glob("*.py"))
    files |= {str(path.relative_to(_ROOT)): path.read_bytes() for path in own}
    for package in _VENDORED:
        for entry in metadata.files(package) or ():
            if entry.suffix == ".py" and ".." not in entry.parts:
                files[str(entry)] = entry.read_binary()
            elif "LICENSE" in entry.name.upper():
                files[f"licences/{package}/{entry.name}"] = entry.read_binary()
    # A package without __init__ is found in an archive only if its folder has an entry.
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if parent.name}
    files |= dict.fromkeys(folders, b"")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def build(rack: Rack, folder: Path, community_file: str, check: bool = False) -> Exporter:
    """Write the program into `folder` unless it is there already."""
    content = pack()
    digest = hashlib.sha256(content).hexdigest()[:8]
    path = folder / f"switch-exporter-{digest}.pyz"
    changed = not path.is_file() or path.read_bytes() != content
    if changed and not check:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, content, mode=0o644)
    wanted = settings(rack, community_file)
    return Exporter(path, changed, wanted, rack.network.snmp_community if wanted else None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.switch_exporter")
    parser.add_argument("--rack", required=True, type=Path, help="the rack file")
    parser.add_argument("--out", required=True, type=Path, help="folder of the program")
    parser.add_argument("--community-file", required=True, help="where it finds the community")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    try:
        rack = load_rack(options.rack)
        found = build(rack, options.out, options.community_file, options.check)
    except FleetError as problem:
        print(f"switch exporter: {problem}", file=sys.stderr)
        return problem.exit_code
    except OSError as problem:
        print(f"switch exporter: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return ExitCode.FAILED
    print(
        json.dumps(
            {
                "program": str(found.program),
                "changed": found.changed,
                "settings": found.settings,
                "secret": found.secret,
            }
        )
    )
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
