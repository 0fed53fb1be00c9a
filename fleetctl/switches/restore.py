"""Backups as what a switch shall return to. One that does not fit is refused by its name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fleetctl.rack import Switch
from fleetctl.switches.config import Config
from fleetctl.switches.errors import RefusedError, UnreadableError
from fleetctl.switches.intent import SwitchIntent
from fleetctl.switches.platforms import Platform
from fleetctl.switches.platforms.base import Running
from fleetctl.switches.secrets import Secrets

_ANOTHER = "take another; `fleetctl provision switches --backups` lists them"


def read_backup(
    file: Path,
    platform: Platform,
    intent: SwitchIntent,
    secrets: Secrets,
    others: Iterable[Switch] = (),
) -> Config:
    """The part of a backup that phonerack owns, in normal form, secrets concealed.

    `others` are the rack's other switches, whose backups this must not be; `secrets` know those
    that have a name, and none besides. Raises UnreadableError, RefusedError.
    """
    try:
        text = file.read_text()
        found = platform.read(text, intent)
    except UnreadableError as problem:
        what = problem.what.replace("its running configuration", f"the backup {file}")
        raise UnreadableError(intent.switch, what, _ANOTHER) from None
    except (OSError, UnicodeDecodeError) as problem:
        what = f"the backup {file} cannot be read: {problem}"
        raise UnreadableError(intent.switch, what, _ANOTHER) from None
    _refuse_another_switch(file, found, intent, others)
    _refuse_lost_secrets(file, found.config, intent, secrets)
    return platform.read(secrets.conceal(text), intent).config


def _refuse_another_switch(
    file: Path, found: Running, intent: SwitchIntent, others: Iterable[Switch]
) -> None:
    missing = [port for port in intent.ports if port.interface not in found.interfaces]
    if missing:
        what = f"the backup {file} is of a switch that has no port {missing[0].interface}"
        raise RefusedError(intent.switch, what, _ANOTHER)
    addresses = {str(address.ip) for address in found.own_addresses.values() if address}
    for other in others:
        named = found.hostname == other.hostname != intent.hostname
        if named or other.address in addresses or file.absolute().parent.name == other.name:
            raise RefusedError(
                intent.switch, f"the backup {file} is of the switch {other.name}", _ANOTHER
            )


def _refuse_lost_secrets(
    file: Path, config: Config, intent: SwitchIntent, secrets: Secrets
) -> None:
    for header, lines in config.items():
        for line in (header, *lines):
            lost = secrets.lost_in(line)
            if lost:
                said = " ".join([*line.split()[:2], lost])
                raise RefusedError(
                    intent.switch,
                    f"`{said}` in the backup {file} stands for a secret that is not known any more",
                    f"write `<{intent.snmp_community}>` for it there, or take the line out",
                )
