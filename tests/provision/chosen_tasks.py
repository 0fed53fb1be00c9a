"""What site.yml would run by tags: reads [[run, skip], …] as JSON on stdin, answers each by a list
of [play, role, task]. A process of its own, since Ansible reads its configuration once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

PROJECT = Path(__file__).resolve().parents[2]


def chosen(play: Play, run: list[str], skip: list[str]) -> Iterator[tuple[str, str, str]]:
    """A play without hosts runs nothing, whatever its tasks are."""
    play.only_tags, play.skip_tags = set(run), set(skip)
    known = {**play.vars, "ansible_run_tags": run, "ansible_skip_tags": skip}
    if "!all" in Templar(loader=play._loader, variables=known).template(play.hosts):
        return
    for block in play.compile():
        yield from tasks(block.filter_tagged_tasks(known), play.get_name())


def tasks(block: Block, play: str) -> Iterator[tuple[str, str, str]]:
    for each in (*block.block, *block.rescue, *block.always):
        if isinstance(each, Block):
            yield from tasks(each, play)
        elif each.name and not each.name.startswith("Validating arguments"):  # always run
            yield play, each._role.get_name() if each._role else "", each.name


def main() -> None:
    init_plugin_loader()
    loader = DataLoader()
    loader.set_basedir(str(PROJECT))
    variables = VariableManager(loader, InventoryManager(loader, sources="localhost,"))
    site = Playbook.load(str(PROJECT / "site.yml"), variables, loader)
    print(
        json.dumps(
            [
                [each for play in site.get_plays() for each in chosen(play, run, skip)]
                for run, skip in json.load(sys.stdin)
            ]
        )
    )


if __name__ == "__main__":
    main()
