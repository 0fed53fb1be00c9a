"""The rack as Ansible variables. Pure, and plain values: nothing of the rack file is a template."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from functools import cache
from typing import Any

from fleetctl.rack import dhcp
from fleetctl.rack.model import PHONE_PORT, Phone, Rack
from fleetctl.rack.packages import ARCHITECTURES, Upstream, wanted
from fleetctl.rack.paths import RackPaths

TERMUX_PREFIX = "/data/data/com.termux/files/usr"
TERMUX_HOME = "/data/data/com.termux/files/home"

REVOCATIONS_FILE = f"{TERMUX_PREFIX}/etc/ssh/phonerack_krl"
"""The keys that a phone no longer accepts, as OpenSSH's KRL."""

SERVICES = "services"
"""Name of the services host, in Ansible and as ssh alias."""

LOOPBACK = "127.0.0.1"

FLEET_EXPORTER_PORT = 9867

CONTROLLER = "controller"
"""Name of this machine in Ansible."""


def rack_variables(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    """Variables that all hosts of the rack see."""
    network = rack.network
    return {
        "rack_name": rack.name,
        "rack_dir": str(paths.dir),
        "rack_cidr": str(network.cidr),
        "rack_medium": network.medium,
        "rack_mtu": network.mtu,
        "rack_dhcp": network.dhcp,
        "rack_dhcp_reservations": dhcp.reservations(rack),
        "rack_dhcp_guests": asdict(guests) if (guests := dhcp.guest_range(rack)) else None,
        "rack_time": network.time,
        "rack_controller_address": network.controller,
        "rack_services_address": network.services or network.controller,
        "rack_openmpi_series": rack.versions.openmpi,
        "rack_upstream": _upstream(rack.packages.upstream),
        "rack_phone_packages": phone_packages(rack),
        "rack_architectures": sorted({ARCHITECTURES[p.target] for p in rack.phones.values()}),
        "rack_thresholds": asdict(rack.thresholds),
        # Not `call`: its words may be a secret.
        "rack_guard": {name: value for name, value in asdict(rack.guard).items() if name != "call"},
        "rack_watched_switches": watched_switches(rack),
        "rack_fleet_exporter": f"{fleet_exporter_host(rack)}:{FLEET_EXPORTER_PORT}",
    }


def fleet_exporter_host(rack: Rack) -> str:
    """Where `fleetctl serve` lets Prometheus in: on this machine alone, unless Prometheus is on
    another."""
    network = rack.network
    elsewhere = network.services is not None and network.services != network.controller
    return network.controller if elsewhere and network.controller else LOOPBACK


def watched_switches(rack: Rack) -> list[str]:
    """Switches that are asked by SNMP."""
    if not rack.network.snmp_community:
        return []
    switches = rack.switches.values()
    return [item.name for item in switches if item.platform != "unmanaged" and item.address]


def phone_packages(rack: Rack) -> list[str]:
    """What is installed on the rack's phones, as apt names it."""
    versions = rack.versions
    return wanted(versions.openmpi, versions.torch != "none", rack.packages.also)


def roster_variables(rack: Rack) -> dict[str, Any]:
    """The lists that grow with the rack.

    Only host CONTROLLER has them; all others refer to it (`roster_references`): as a variable of
    every phone they would grow with the square of the rack, to gigabytes at 5,000 phones.
    """
    return {
        "rack_ring": [{"name": name, "address": rack.phones[name].address} for name in rack.ring()],
        "rack_phones": [
            {"name": phone.name, "address": phone.address, "mac": phone.mac}
            for phone in rack.phones.values()
            if phone.enrolled
        ],
    }


def roster_references() -> dict[str, str]:
    """The only templates in here."""
    names = ("rack_ring", "rack_phones")
    return {name: f"{{{{ hostvars['{CONTROLLER}'].{name} }}}}" for name in names}


def phones_variables(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    """Variables of the group `phones`: what is equal for all of them.

    Paths are absolute because Termux's home in passwd is not writable.
    """
    return {
        "ansible_port": PHONE_PORT,
        "ansible_user": "phone",
        "ansible_remote_tmp": f"{TERMUX_HOME}/.ansible/tmp",
        "ansible_python_interpreter": f"{TERMUX_PREFIX}/bin/python",
        "ansible_shell_executable": f"{TERMUX_PREFIX}/bin/sh",
        "termux_prefix": TERMUX_PREFIX,
        "termux_home": TERMUX_HOME,
        "ssh_revocations_file": REVOCATIONS_FILE,
        **_ssh_variables(rack, paths),
    }


def phone_variables(phone: Phone, paths: RackPaths) -> dict[str, Any]:
    """Variables of one phone, beside those of its group."""
    return {
        "ansible_host": phone.address,
        "ansible_ssh_common_args": _ssh_arguments(phone.name, paths),
        "phone_name": phone.name,
        "phone_address": phone.address,
        "phone_mac": phone.mac,
        "phone_waits_for_wire": phone.waits_for_wire,
        "phone_serial": phone.serial,
        "phone_model": phone.model,
        "phone_api_level": phone.api_level,
        "phone_target": phone.target,
        "phone_switch": phone.switch,
        "phone_port": phone.port,
    }


def services_variables(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    """The services host; without an address of its own, it is the controller."""
    address = rack.network.services
    if address is None or address == rack.network.controller:
        return {"ansible_connection": "local"}
    return {
        "ansible_host": address,
        "ansible_port": 22,
        "ansible_user": "root",
        "ansible_ssh_common_args": _ssh_arguments(SERVICES, paths),
        **_ssh_variables(rack, paths),
    }


def _upstream(upstream: Upstream | None) -> dict[str, str] | None:
    if upstream is None:
        return None
    return {name: str(value) for name, value in asdict(upstream).items()}


def _ssh_variables(rack: Rack, paths: RackPaths) -> dict[str, Any]:
    return {
        "ansible_ssh_private_key_file": str(paths.operator),
        # Two racks may use the same addresses: they must not share connections.
        "ansible_control_path": f"%(directory)s/{rack.name}-%%C",
    }


def _ssh_arguments(alias: str, paths: RackPaths) -> str:
    """Host keys are known by name, not by address, and from the rack's own file only."""
    return f"{_common_ssh_arguments(paths)} -o HostKeyAlias={alias}"


@cache
def _common_ssh_arguments(paths: RackPaths) -> str:
    options = (
        "IdentitiesOnly=yes",
        f'UserKnownHostsFile="{paths.known_hosts}"',
        "StrictHostKeyChecking=yes",
    )
    return " ".join(f"-o {shlex.quote(option)}" for option in options)
