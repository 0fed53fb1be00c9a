"""Ask switches where phones are plugged in, and how. Runs on the controller, inside Ansible.

An action and no module, for the reason that `switch_config` is one: passwords are looked up here,
and are never the arguments of anything.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

# Ansible loads this file by its path; fleetctl stands two folders above it in every clone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fleetctl.errors import FleetError
from fleetctl.rack import RackPaths, load_rack
from fleetctl.switches.cabling import compare
from fleetctl.switches.fleet import Switches
from fleetctl.switches.ports import PortControl
from fleetctl.switches.secrets import environment, variables
from fleetctl.switches.wiring import look

DOCUMENTATION = r"""
name: switch_cables
short_description: Compare where phones are plugged in with the rack file, and read their links
description:
  - Reads MAC tables and LLDP neighbours of every managed switch of the rack, and changes nothing.
  - Returns C(notes), one sentence for each thing that is not as the rack file says or not known,
    and C(links), speed in Mb/s and duplex of each phone's link as far as switches tell.
options:
  rack_file:
    description: The rack file.
    type: path
    required: true
  phones:
    description: Phones of interest.
    type: list
    elements: str
    required: true
  port:
    description: Where the ssh servers of the switches listen.
    type: int
    default: 22
"""


class ActionModule(ActionBase):
    """Looks only, so check mode makes no difference."""

    _supports_check_mode = True
    _requires_connection = False
    TRANSFERS_FILES = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, arguments = self.validate_argument_spec(
            argument_spec={
                "rack_file": {"type": "path", "required": True},
                "phones": {"type": "list", "elements": "str", "required": True},
                "port": {"type": "int", "default": 22},
            }
        )
        sources = (variables(task_vars or {}, self._templar.template), environment)
        try:
            rack = load_rack(arguments["rack_file"])
            fleet = Switches(rack, RackPaths(rack.name), sources, port=arguments["port"])
            notes = _notes(fleet, arguments["phones"]) if fleet.managed() else []
            # Who could not be asked stands in the notes already.
            links, _ = PortControl(fleet).links(arguments["phones"])
        except FleetError as problem:
            raise AnsibleActionFail(str(problem)) from None
        return result | {
            "changed": False,
            "notes": notes,
            "links": {
                name: {"speed_mbits": state.speed_mbits, "full_duplex": state.full_duplex}
                for name, state in links.items()
            },
        }


def _notes(fleet: Switches, phones: list[str]) -> list[str]:
    views, problems = look(fleet)
    found = compare(fleet.rack, views).findings
    notes = [f"cabling is not known: {problem}" for problem in problems.values()]
    return notes + [
        item.message
        for item in found
        if item.phone in (None, *phones) and not (problems and item.kind == "unknown")
    ]
