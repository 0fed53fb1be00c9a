"""Secrets out of Ansible's variables, vault included, for the commands that are no playbook.

They are looked up in this process, as Ansible itself would for host `controller`: in `group_vars`
and `host_vars` beside the rack file. No secret passes through an argument, a file or a log.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack.variables import CONTROLLER

_CONFIG = Path(__file__).resolve().parents[2] / "ansible.cfg"
_FOLDERS = ("group_vars", "host_vars")


class VaultError(FleetError):
    """Ansible's variables cannot be read."""

    exit_code = ExitCode.BAD_INPUT


def vault(
    rack_file: Path, password_file: Path | None = None, ask: bool = False
) -> Callable[[str], str | None]:
    """A source of secrets: the variable of that name, or None where there is no such variable.

    Without `password_file` and `ask`, the vault's password comes from where Ansible finds it:
    $ANSIBLE_VAULT_PASSWORD_FILE or ansible.cfg. Looking up raises VaultError.
    """

    @cache
    def variables() -> tuple[dict[str, Any], Any]:
        if not any((rack_file.parent / folder).is_dir() for folder in _FOLDERS):
            return {}, None
        return _load(rack_file, password_file, ask)

    def look_up(name: str) -> str | None:
        found, templar = variables()
        if name not in found:
            return None
        from ansible.errors import AnsibleError

        try:
            value = templar.template(found[name])
        except AnsibleError as problem:
            raise VaultError(f"the variable {name} cannot be read: {_gist(problem)}") from None
        return str(value) if value else None

    return look_up


def _load(rack_file: Path, password_file: Path | None, ask: bool) -> tuple[dict[str, Any], Any]:
    # Ansible ignores ansible.cfg in a world-writable folder unless it is named.
    os.environ.setdefault("ANSIBLE_CONFIG", str(_CONFIG))
    from ansible import constants
    from ansible.cli import CLI
    from ansible.errors import AnsibleError
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.plugins.loader import init_plugin_loader
    from ansible.template import Templar
    from ansible.vars.manager import VariableManager

    try:
        init_plugin_loader()
        loader = DataLoader()
        secrets = CLI.setup_vault_secrets(
            loader,
            vault_ids=list(constants.DEFAULT_VAULT_IDENTITY_LIST),
            vault_password_files=[str(password_file)] if password_file else None,
            ask_vault_pass=ask,
            auto_prompt=False,
        )
        loader.set_vault_secrets(secrets)
        inventory = InventoryManager(loader=loader, sources=[str(rack_file)])
        manager = VariableManager(loader=loader, inventory=inventory)
        host = inventory.get_host(CONTROLLER)
        if host is None:
            raise VaultError(f"{rack_file} gives Ansible no host `{CONTROLLER}`")
        found = manager.get_vars(host=host)
        return found, Templar(loader=loader, variables=found)
    except AnsibleError as problem:
        raise VaultError(
            f"the variables beside {rack_file} cannot be read: {_gist(problem)}; give the vault's "
            "password by --vault-password-file, --ask-vault-pass or $ANSIBLE_VAULT_PASSWORD_FILE"
        ) from None


def _gist(problem: Exception) -> str:
    """The first line: what follows may quote the file."""
    return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
