"""What all commands share that log in on switches: where their secrets are, and their ssh port."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fleetctl.cli.common import App
    from fleetctl.switches.fleet import Say, Switches


class SwitchOptions:
    """The options of one call; `switches` logs in with them."""

    def __init__(self, port: int, password_file: Path | None, ask: bool) -> None:
        self.port = port
        self.password_file = password_file
        self.ask = ask

    def switches(self, app: App, say: Say | None = None) -> Switches:
        from fleetctl.provision.vault import vault
        from fleetctl.switches.fleet import Switches
        from fleetctl.switches.secrets import environment

        sources = (vault(app.rack_file, self.password_file, self.ask), environment)
        more: dict[str, Any] = {"say": say} if say else {}
        return Switches(app.rack, app.paths, sources, port=self.port, **more)


def switch_options[R](
    port_option: str = "--port",
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds the options to a command, and hands them to it as `login`."""

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @click.option(
            "--vault-password-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Holds the vault's password.",
        )
        @click.option("--ask-vault-pass", "-J", is_flag=True, help="Ask for the vault's password.")
        @click.option(
            port_option,
            "ssh_port",
            type=int,
            default=22,
            show_default=True,
            help="Where the ssh servers of switches listen.",
        )
        @wraps(command)
        def with_login(
            *args: Any,
            ssh_port: int,
            vault_password_file: Path | None,
            ask_vault_pass: bool,
            **named: Any,
        ) -> R:
            login = SwitchOptions(ssh_port, vault_password_file, ask_vault_pass)
            return command(*args, login=login, **named)

        return with_login

    return decorate
