"""Ansible inventory straight from the rack file, its lock file and the state."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin

# Ansible loads this file by its path; fleetctl stands two folders above it in every clone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fleetctl.errors import FleetError
from fleetctl.rack import Rack, RackPaths, dhcp, load_rack
from fleetctl.rack import variables as rack_vars
from fleetctl.state import State

DOCUMENTATION = r"""
name: rack
short_description: Hosts, groups and variables of a phone rack
description:
  - Reads a rack file, the lock file that enrolment wrote for it, and the rack's state.
  - Gives one host a phone, the hosts C(services) and C(controller), the groups C(phones),
    C(monitoring), C(drained), C(busy) (phones that work for a run, named by their C(phone_run)),
    C(empty) (places without a phone), C(waiting) (phones that were not met on the wire yet) and
    C(left) (phones without a place), one group a switch, and one for each group of the rack file.
"""

EXAMPLES = r"""
# rack.yml; use it as: ansible-inventory -i rack.yml --graph
rack: home
network: {cidr: 192.168.1.0/24, medium: wifi}
phones: [192.168.1.20, 192.168.1.21]
"""


class InventoryModule(BaseInventoryPlugin):
    """Fills Ansible's inventory from one rack."""

    NAME = "rack"

    # Names, addresses and paths only: the rack file's schema lets no template through.
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        """A YAML file with `rack:` at its top level; lock files have one too, but are none."""
        file = Path(path)
        if file.suffix not in (".yml", ".yaml") or file.stem.endswith(".lock"):
            return False
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        return re.search(r"^rack\s*:", text, re.MULTILINE) is not None

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        try:
            rack = load_rack(path)
            paths = RackPaths(rack.name)
            drained, runs = _state(paths)
        except FleetError as problem:
            raise AnsibleParserError(str(problem)) from None
        for warning in rack.warnings:
            self.display.warning(str(warning))
        # Not `inventory_file`: of several inventories that is any.
        self._set("all", {"rack_file": str(Path(path).resolve())})
        self._set("all", rack_vars.rack_variables(rack, paths) | rack_vars.roster_references())
        self._add_machines(rack, paths)
        self._add_phones(rack, paths)
        self._add_group("drained", [name for name in rack.phones if name in drained])
        self._add_group("busy", [name for name in rack.phones if name in runs])
        for name in rack.phones.keys() & runs.keys():
            self._set(name, {"phone_run": runs[name]})
        # Filled by a check run of site.yml, and by playbooks/upgrade.yml.
        for group in ("bare", "upgrade_canary", "upgrade_rest"):
            self._add_group(group, [])

    def _add_machines(self, rack: Rack, paths: RackPaths) -> None:
        self.inventory.add_host(rack_vars.CONTROLLER)
        self._set(
            rack_vars.CONTROLLER,
            {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
            | rack_vars.roster_variables(rack),
        )
        self.inventory.add_host(rack_vars.SERVICES)
        self._set(rack_vars.SERVICES, rack_vars.services_variables(rack, paths))
        self._add_group("monitoring", [rack_vars.SERVICES])

    def _add_phones(self, rack: Rack, paths: RackPaths) -> None:
        for phone in rack.phones.values():
            self.inventory.add_host(phone.name)
            self._set(phone.name, rack_vars.phone_variables(phone, paths))
        for phone in rack.left.values():
            self.inventory.add_host(phone.name)
            self._set(phone.name, rack_vars.phone_variables(phone, paths))
        self._add_group("left", list(rack.left))
        self._add_group("waiting", dhcp.nowhere(rack))
        for group, members in rack.groups.items():
            self._add_group(group, members)
        self._set("phones", rack_vars.phones_variables(rack, paths))

    def _add_group(self, group: str, members: list[str]) -> None:
        self.inventory.add_group(group)
        for name in members:
            self.inventory.add_host(name, group=group)

    def _set(self, target: str, variables: dict[str, Any]) -> None:
        for name, value in variables.items():
            self.inventory.set_variable(target, name, value)


def _state(paths: RackPaths) -> tuple[list[str], dict[str, str]]:
    """Drained phones, and the run of each that works for one; reading an inventory leaves no
    database behind."""
    if not paths.state_db.is_file():
        return [], {}
    with State(paths.state_db) as state:
        runs = {name: facts.run for name, facts in state.phones().items() if facts.run}
        return state.groups()["drained"], runs
