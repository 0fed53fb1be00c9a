"""Says once, at the end of a run, which phones were not reached, why, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

# Ansible loads this file by its path; fleetctl stands two folders above it in every clone.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

DOCUMENTATION = r"""
name: rack_report
type: aggregate
short_description: Phones that were not reached, folded, with the cure
description:
  - After the recap, one line for all phones that failed for the same reason.
  - Keeps in the rack's state since when they are silent, so that C(fleetctl status) knows them as
    lost, and later as phones that need hands.
requirements:
  - enabled in ansible.cfg
"""

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

    def v2_playbook_on_stats(self, _: Any) -> None:
        if not self._said:
            return
        facts = {name: self._facts(name) for name in self._said}
        phones = {name: said for name, said in self._said.items() if "phone_name" in facts[name]}
        if not phones:
            return
        addresses = {name: str(facts[name]["phone_address"]) for name in phones}
        lines, missed = explained(phones, addresses)
        self._display.banner("NOT REACHED")
        for line in lines:
            self._display.display(line)
        keep(str(next(iter(facts.values()))["rack_name"]), missed)

    def _facts(self, host: str) -> Any:
        inventory = self._variables._inventory
        return self._variables.get_vars(host=inventory.get_host(host), include_hostvars=False)


def explained(
    phones: dict[str, str], addresses: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """One line for each reason, and why those do not answer of which that can be said."""
    from fleetctl.rack.nodesets import fold
    from fleetctl.remote.openssh import explain

    owners: dict[str, list[str]] = {}
    missed = {}
    for name, said in phones.items():
        problem = explain(name, addresses[name], said)
        sentence = str(problem).replace(f"{name} ({addresses[name]})", _NAME).replace(name, _NAME)
        owners.setdefault(sentence, []).append(name)
        if problem.reached is False:
            missed[name] = str(problem)
    return [text.replace(_NAME, fold(names)) for text, names in owners.items()], missed


def keep(rack: str, missed: dict[str, str]) -> None:
    """Note in the state who did not answer."""
    from fleetctl.rack import RackPaths
    from fleetctl.state import State

    paths = RackPaths(rack)
    if missed and paths.dir.is_dir():
        with State(paths.state_db) as state:
            state.record_contact(dict.fromkeys(missed, False), why=missed)
