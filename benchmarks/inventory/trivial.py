"""The least that an inventory plugin can do: it adds the hosts, groups and variables of a file.

The file is what `ansible-inventory --list --export` prints.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.plugins.inventory import BaseInventoryPlugin

DOCUMENTATION = r"""
name: trivial
short_description: Hosts, groups and variables of a JSON file
description:
  - For comparison with other plugins.
"""


class InventoryModule(BaseInventoryPlugin):
    """Reads one JSON file."""

    NAME = "trivial"
    trusted_by_default = True

    def verify_file(self, path: str) -> bool:
        return path.endswith(".json")

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        content = json.loads(Path(path).read_text())
        hosts = content.pop("_meta")["hostvars"]
        for name, variables in hosts.items():
            inventory.add_host(name)
            for key, value in variables.items():
                inventory.set_variable(name, key, value)
        for name, group in content.items():
            inventory.add_group(name)
            for host in group.get("hosts", ()):
                inventory.add_host(host, group=name)
            for key, value in group.get("vars", {}).items():
                inventory.set_variable(name, key, value)
