"""What a person has noted of new switches: their host keys and the password that they came with."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path

from fleetctl.rack import InputError, Rack, RackPaths
from fleetctl.rack.files import write_atomic
from standin.commands import run
from standin.fabric import interface_name
from standin.openvswitch.wires import SPEECH

PASSWORD = "standin"  # noqa: S105  all stand-in switches come with it, and nobody else can reach them
KNOWN = "known_switches"


def host_key(folder: Path) -> Path:
    """The key of the switch whose belongings lie in `folder`."""
    return folder / "ssh_host_rsa_key"


def require_addresses(rack: Rack) -> None:
    """A switch is reached by the rack's own wires, there is nothing else. Raises InputError."""
    for name, switch in rack.switches.items():
        if switch.platform in SPEECH and IPv4Address(switch.address or 0) not in rack.network.cidr:
            raise InputError(
                f"switch {name} has the address {switch.address}: a stand-in's is in the rack's "
                f"network {rack.network.cidr}"
            )


def enrol_switches(rack: Rack, paths: RackPaths, root: Path) -> None:
    """Make the keys that are missing, and have them known."""
    lines = {}
    for name, switch in rack.switches.items():
        if switch.platform not in SPEECH:
            continue
        folder = root / interface_name(name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = host_key(folder)
        public = key.with_name(f"{key.name}.pub")
        if not public.exists():
            key.unlink(missing_ok=True)
            run(("ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", str(key)))
        lines[str(switch.address)] = " ".join(public.read_text().split()[:2])
    if lines:
        known = paths.ssh / KNOWN
        present = known.read_text().splitlines() if known.exists() else []
        kept = [line for line in present if line.split(" ", 1)[0] not in lines]
        new = [f"{address} {key}" for address, key in lines.items()]
        write_atomic(known, "\n".join([*kept, *new, ""]), mode=0o600)


def switch_logins(rack: Rack) -> dict[str, str]:
    """How to log in on each switch that has a command line, by its name."""
    return {
        name: f"switch {name}: ssh {switch.login.user}@{switch.address}, password {PASSWORD}"
        for name, switch in rack.switches.items()
        if switch.platform in SPEECH
    }
