#!/usr/bin/python
"""Bring the Android of phones that adb reaches to what the rack wants. Runs on the controller."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: android_setting
short_description: Make and verify Android settings by adb
description:
  - Runs on the controller, once for all phones, in one session of adb; phones that adb does not
    reach are left alone and told.
  - What is wanted is the table of C(fleetctl.provision.android), by API level and manufacturer, or
    O(settings). Each setting is read, made where it differs, and read back.
options:
  rack_dir:
    description: The rack's folder on the controller.
    type: path
    required: true
  phones:
    description: Serials of the phones, by name; one without is not enrolled, and left alone.
    type: dict
    required: true
  wired:
    description: Phones of which ssh has answered over Ethernet, so that Wi-Fi is switched off.
    type: list
    elements: str
    default: []
  services:
    description: Address of the rack's services host.
    type: str
  serves_time:
    description: Whether the services host serves time, so that phones ask it.
    type: bool
    default: false
  settings:
    description:
      - Values by name instead of the table, such as C(global/stay_on_while_plugged_in).
    type: dict
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Bring Android to what the rack wants
  android_setting:
    rack_dir: "{{ rack_dir }}"
    phones: {phone001: R58M123}
    services: "{{ rack_services_address }}"
    serves_time: true
  delegate_to: controller
  run_once: true
"""

RETURN = r"""
phones:
  description: What was changed and what failed, by name, of the phones that adb reached.
  returned: success
  type: dict
unreached:
  description: Why adb did not reach phones, and what to do, by name.
  returned: success
  type: dict
unusable:
  description: The same for what adb sees and cannot tell who it is, by adb's name for it.
  returned: success
  type: dict
problems:
  description: What is not as it is wanted, by name.
  returned: success
  type: dict
"""

NOT_SEEN = (
    "adb does not see it: plug it into this machine by USB, if its Android shall be looked at"
)


async def bring(options: dict[str, Any], check: bool) -> dict[str, Any]:
    """All phones that adb reaches, side by side."""
    from fleetctl.provision import android, enrol_facts, enrol_look
    from fleetctl.rack import RackPaths
    from fleetctl.remote.adb import AdbLost, session

    folder = Path(options["rack_dir"])
    names = {str(serial): name for name, serial in options["phones"].items() if serial}
    outcomes: dict[str, android.Outcome] = {}
    problems: dict[str, str] = {}
    unusable: dict[str, str] = {}

    async def one(link: str) -> None:
        phone = adb.phone(link)
        try:
            found = await enrol_facts.ask(phone)
        except AdbLost as problem:
            unusable[link] = str(problem)
            return
        name = names.get(found.serial)
        if name is None or name in outcomes:
            return
        try:
            wishes = [
                android.Wish(key, str(value), "the playbook wants it")
                for key, value in (options["settings"] or {}).items()
            ] or android.wishes(
                android.Profile(
                    api_level=found.api_level,
                    manufacturer=found.manufacturer,
                    services=options["services"],
                    serves_time=options["serves_time"],
                    wired=name in options["wired"],
                )
            )
            outcomes[name] = outcome = await android.ensure(phone, wishes, check)
        except AdbLost as problem:
            problems[name] = str(problem)
            return
        if outcome.problems:
            problems[name] = "; ".join(outcome.problems.values())

    async with session(RackPaths(folder.name, folder.parent)) as adb:
        links = await enrol_look.settled(adb, 0, lambda _: None)
        unusable |= {
            link.name: f"{link.state}: {enrol_look.LINK_CURES[link.state]}"
            for link in links
            if link.state != "device"
        }
        await asyncio.gather(*(one(link.name) for link in links if link.state == "device"))
    met = {*outcomes, *problems}
    # Of a phone on USB that lets nobody in, adb knows the serial all the same.
    known = {names[link]: why for link, why in unusable.items() if link in names}
    return {
        "changed": any(outcome.changed for outcome in outcomes.values()),
        "phones": {name: outcome.changed for name, outcome in outcomes.items()},
        "unreached": {
            name: known.get(name, NOT_SEEN) for name in options["phones"] if name not in met
        },
        "unusable": {link: why for link, why in unusable.items() if link not in names},
        "problems": problems,
        "diff": {
            "before": describe({name: one.before for name, one in outcomes.items()}),
            "after": describe({name: one.after for name, one in outcomes.items()}),
        },
    }


def describe(values: dict[str, Any]) -> str:
    """Settings of all phones, a line each, in a steady order."""
    return "".join(
        f"{name}: {key} = {'unreadable' if value is None else value}\n"
        for name, settings in sorted(values.items())
        for key, value in settings.items()
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "rack_dir": {"type": "path", "required": True},
            "phones": {"type": "dict", "required": True},
            "wired": {"type": "list", "elements": "str", "default": []},
            "services": {"type": "str"},
            "serves_time": {"type": "bool", "default": False},
            "settings": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    try:
        from fleetctl.errors import FleetError
    except ImportError:
        module.fail_json(
            msg=f"android_setting runs on the controller only: {sys.executable} has no fleetctl"
        )
    try:
        module.exit_json(**asyncio.run(bring(module.params, module.check_mode)))
    except FleetError as problem:
        module.fail_json(msg=str(problem))


if __name__ == "__main__":
    main()
