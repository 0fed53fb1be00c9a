"""Says once, at the end of a run, which phones took no part, why, and what to do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.plugins.callback import CallbackBase

# Ansible loads this file by its path; fleetctl stands two folders above it in every clone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if TYPE_CHECKING:
    from fleetctl.remote import Result

DOCUMENTATION = r"""
name: rack_report
type: aggregate
short_description: Phones that were not ready or not reached, folded, with the cure
description:
  - After the recap, one line for all phones that failed for the same reason.
  - Those that did not answer are asked once more, over a connection that hears what ssh's client
    keeps to itself, such as that a phone is throttled.
  - What a play has put into the statistic C(not_ready), a reason by phones, is told too.
  - Keeps in the rack's state since when they are silent, so that C(fleetctl status) knows them as
    lost, and later as phones that need hands.
  - Phones that failed are the node set C(@last-failed) of C(fleetctl).
requirements:
  - enabled in ansible.cfg
"""

NOT_READY = "not_ready"
ASK_LIMIT_SECONDS = 10.0
_NAME = "\0"
"""Stands for the phone's name in a sentence that others may share."""


class CallbackModule(CallbackBase):
    """Collects what did not answer, and tells it once."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "rack_report"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._said: dict[str, str] = {}
        self._variables: Any = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._variables = play.get_variable_manager()

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._said.setdefault(result.host.get_name(), str(result.result.get("msg", "")))

    def v2_playbook_on_stats(self, stats: Any) -> None:
        not_ready = stats.custom.get("_run", {}).get(NOT_READY, {})
        self._tell("NOT READY", [f"{names} {why}" for names, why in not_ready.items()])
        self._keep_failed({*stats.failures, *stats.dark})
        facts = {name: self._facts(name) for name in self._said}
        phones = {name: said for name, said in self._said.items() if "phone_name" in facts[name]}
        if not phones:
            return
        common = facts[next(iter(phones))]
        addresses = {name: str(facts[name]["phone_address"]) for name in phones}
        lines, missed = explained(phones, addresses, ask(str(common["rack_file"]), list(phones)))
        self._tell("NOT REACHED", lines)
        keep(str(common["rack_name"]), missed)

    def _keep_failed(self, hosts: set[str]) -> None:
        """Have `@last-failed` be the phones among them."""
        facts = {name: self._facts(name) for name in sorted(hosts)}
        phones = [name for name, known in facts.items() if "phone_name" in known]
        if phones:
            keep_failed(str(facts[phones[0]]["rack_name"]), phones)

    def _tell(self, title: str, lines: list[str]) -> None:
        if lines:
            self._display.banner(title)
        for line in lines:
            self._display.display(line)

    def _facts(self, host: str) -> Any:
        inventory = self._variables._inventory
        return self._variables.get_vars(host=inventory.get_host(host), include_hostvars=False)


def ask(rack_file: str, phones: list[str]) -> dict[str, Result]:
    """What the phones say that the rack file still has; nothing where it cannot be read."""
    from fleetctl.errors import FleetError
    from fleetctl.rack import RackPaths, load_rack
    from fleetctl.remote import Fleet

    async def all_at_once() -> dict[str, Result]:
        async with Fleet(rack, RackPaths(rack.name)) as fleet:
            there = [name for name in phones if name in rack.phones]
            return await fleet.run(there, "true", timeout_seconds=ASK_LIMIT_SECONDS)

    try:
        rack = load_rack(Path(rack_file))
        return asyncio.run(all_at_once())
    except FleetError:
        return {}


def explained(
    phones: Mapping[str, str], addresses: Mapping[str, str], again: Mapping[str, Result]
) -> tuple[list[str], dict[str, str]]:
    """One line for each reason, and why those do not answer of which that can be said.

    `phones` maps names to what Ansible was told, `again` to what they said when asked once more.
    """
    from fleetctl.rack.nodesets import fold
    from fleetctl.remote.openssh import explain

    owners: dict[str, list[str]] = {}
    missed = {}
    for name, said in phones.items():
        answer = again.get(name)
        problem = (answer and answer.error) or explain(name, addresses[name], said)
        sentence = str(problem)
        if answer and answer.error is None:
            sentence += "; it answers by now: run this for it again"
        elif problem.reached is False:
            missed[name] = sentence
        folded = sentence.replace(f"{name} ({addresses[name]})", _NAME).replace(name, _NAME)
        owners.setdefault(folded, []).append(name)
    return [text.replace(_NAME, fold(names)) for text, names in owners.items()], missed


def keep(rack: str, missed: dict[str, str]) -> None:
    """Note in the state who did not answer."""
    from fleetctl.rack import RackPaths
    from fleetctl.state import State

    paths = RackPaths(rack)
    if missed and paths.dir.is_dir():
        with State(paths.state_db) as state:
            state.record_contact(dict.fromkeys(missed, False), why=missed)


def keep_failed(rack: str, phones: list[str]) -> None:
    """Note who failed, for the node set `@last-failed`."""
    from fleetctl.rack import RackPaths
    from fleetctl.state import last_failed

    paths = RackPaths(rack)
    if paths.dir.is_dir():
        last_failed.keep(paths.last_failed, "ansible-playbook", phones)
