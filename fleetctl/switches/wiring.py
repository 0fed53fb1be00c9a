"""Ask the switches where phones are plugged in, and write down what a person adopts."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from fleetctl.rack import Rack, Switch
from fleetctl.rack.lock import Locked, read_lock, write_lock
from fleetctl.remote.knock import rouse
from fleetctl.switches.cabling import View
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import Switches
from fleetctl.switches.session import Session
from fleetctl.switches.tables import MAC_TABLE, NEIGHBOURS, read_view


def look(switches: Switches) -> tuple[dict[str, View | None], dict[str, SwitchError]]:
    """What every switch of the rack has heard, and why some could not be asked.

    All phones are roused first: a switch forgets who has been silent for five minutes.
    """
    rack = switches.rack
    rouse(phone.address for phone in rack.phones.values())
    managed = switches.managed()
    with ThreadPoolExecutor(max_workers=max(1, len(managed))) as workers:
        answers = dict(
            zip(
                (switch.name for switch in managed),
                workers.map(lambda switch: _one(switches, switch), managed),
                strict=True,
            )
        )
    problems = {name: item for name, item in answers.items() if isinstance(item, SwitchError)}
    views: dict[str, View | None] = dict.fromkeys(rack.switches)
    views |= {name: item for name, item in answers.items() if isinstance(item, View)}
    return views, problems


def _one(switches: Switches, switch: Switch) -> View | SwitchError:
    try:
        found, intent = switches.intent(switch)
        target, secrets = switches.target(switch), switches.secrets(switch)
        with Session(target, found, secrets, switches.patience) as session:
            texts = {command: session.ask(command) for command in (MAC_TABLE, NEIGHBOURS)}
        return read_view(found, intent, texts)
    except SwitchError as problem:
        return problem


def adopt(lock: Path, rack: Rack, macs: Mapping[str, str]) -> None:
    """Write MACs that were found into the lock file; all else that it holds stays."""
    entries: dict[str, Locked] = {}
    if lock.is_file():
        _, entries = read_lock(lock, rack.name)
    for phone, mac in macs.items():
        entries[phone] = replace(entries.get(phone, Locked()), mac=mac)
    write_lock(lock, rack.name, entries)
