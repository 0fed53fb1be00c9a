"""Bring the rack's switches to what the rack file says. Runs on the controller, inside Ansible.

It is an action and no module, so that passwords are never the arguments of anything: they are
looked up here, in Ansible's variables (the vault) and the environment, and go out by ssh only.
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
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import Switches
from fleetctl.switches.job import Report
from fleetctl.switches.secrets import environment, variables

DOCUMENTATION = r"""
name: switch_config
short_description: Configure the switches of a phone rack
description:
  - Logs in on every managed switch of the rack, side by side, and changes what is not as the rack
    file says. A change that is not confirmed is taken back by the switch itself.
options:
  rack_file:
    description: The rack file.
    type: path
    required: true
  switches:
    description: Names of switches; all managed ones without.
    type: list
    elements: str
    default: []
  port:
    description: Where the ssh servers of the switches listen.
    type: int
    default: 22
  restore:
    description: A backup that the one switch named shall return to.
    type: path
"""


class ActionModule(ActionBase):
    """Knows check mode and diff; secrets stand in neither."""

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
                "switches": {"type": "list", "elements": "str", "default": []},
                "port": {"type": "int", "default": 22},
                "restore": {"type": "path"},
            }
        )
        names, restore = arguments["switches"], arguments["restore"]
        if restore and len(names) != 1:
            raise AnsibleActionFail("name the one switch that shall return to the backup")
        try:
            rack = load_rack(arguments["rack_file"])
            fleet = Switches(
                rack,
                RackPaths(rack.name),
                sources=(variables(task_vars or {}, self._templar.template), environment),
                port=arguments["port"],
                say=lambda switch, text: self._display.display(f"{switch}: {text}", stderr=True),
            )
            answers = fleet.provision(
                names, dry=self._task.check_mode, restore=Path(restore) if restore else None
            )
        except FleetError as problem:
            raise AnsibleActionFail(str(problem)) from None
        return result | self._result(answers)

    def _result(self, answers: dict[str, Report | SwitchError]) -> dict[str, Any]:
        reports = [answer for answer in answers.values() if isinstance(answer, Report)]
        failures = [str(answer) for answer in answers.values() if isinstance(answer, SwitchError)]
        result: dict[str, Any] = {
            "changed": any(report.result != "unchanged" for report in reports),
            "switches": {
                report.switch: {
                    "result": report.result,
                    "commands": list(report.change.commands),
                    "notes": list(report.notes),
                    "seconds": round(report.seconds, 1),
                }
                for report in reports
            },
        }
        if self._task.diff:
            result["diff"] = [_diff(report) for report in reports if report.change]
        for report in reports:
            for note in report.notes:
                self._display.warning(f"{report.switch}: {note}")
        if failures:
            result |= {"failed": True, "msg": "\n".join(failures)}
        return result


def _diff(report: Report) -> dict[str, str]:
    before, after = report.change.diff_texts()
    return {
        "before": before,
        "after": after,
        "before_header": f"{report.switch} as it is",
        "after_header": f"{report.switch} as the rack file says",
    }
