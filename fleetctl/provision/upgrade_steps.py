"""The steps of playbooks/upgrade.yml that are done on the controller.

`python -m fleetctl.provision.upgrade_steps STEP --rack FILE` reads one JSON document from standard
input and prints one. `plan` asks the phones and holds those that will move, `prove` looks at phones
that have moved, `settle` lets them go and says how it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fleetctl.checks import packages as package_checks
from fleetctl.checks import phone as phone_checks
from fleetctl.checks.packages import Snapshot
from fleetctl.errors import ExitCode, FleetError
from fleetctl.provision import hello, playbook_lock
from fleetctl.provision.upgrade import (
    HOLDER,
    Ending,
    Plan,
    broken_off,
    health,
    judge_wave,
    make_plan,
    partners,
)
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX
from fleetctl.remote import Fleet
from fleetctl.state import State

LOCK = "upgrade.lock"

STARTS = (
    f"{TERMUX_PREFIX}/bin/sshd -t && PYTHONPATH={TERMUX_HOME}/phonerack/current/python "
    f"{TERMUX_PREFIX}/bin/python -c 'import exporters.phone'"
)
"""What runs was started from the former packages; whether the new ones would start it as well."""

STARTS_LIMIT_SECONDS = 60.0


class UpgradeHeld(FleetError):
    """Another upgrade of the rack is going on."""

    exit_code = ExitCode.HELD


def snapshot_of(document: Mapping[str, Any]) -> Snapshot:
    versions = {(name, arch): version for name, version, arch in document["packages"]}
    return Snapshot(document["target"], versions)


async def plan(rack: Rack, paths: RackPaths, document: Mapping[str, Any]) -> dict[str, Any]:
    """Ask all phones where they stand, sort them, and hold those that will move."""
    names: list[str] = document["phones"]
    if document["hold"]:
        hold(paths)
    async with Fleet(rack, paths) as fleet:
        found = await package_checks.gather(fleet, names, snapshot_of(document))
    with State(paths.state_db) as state:
        package_checks.keep_contact(state, found)
        canaries = rack.select(document["canaries"], state.groups()) if document["canaries"] else ()

        # Of an upgrade that was cut off, or that they did not survive.
        held = {
            name
            for name, each in state.phones().items()
            if any(drain.who == HOLDER for drain in each.drains)
        }

        def make() -> Plan:
            facts = {
                # That drain is no reason to spare the phone.
                name: replace(each, drains=tuple(d for d in each.drains if d.who != HOLDER))
                for name, each in state.phones().items()
            }
            return make_plan(
                rack,
                found,
                facts,
                time.time(),
                target=document["target"],
                former=document["former"],
                canaries=canaries,
                unproven=held,
            )

        made = make()
        if document["hold"] and not made.untried:
            state.drain(made.moving, HOLDER, f"upgrade to {document['target']}", origin="check")
            # A job may have taken some of them a moment ago.
            again = make()
            state.undrain([name for name in made.moving if name not in again.moving], HOLDER)
            made = again
    return made.document([*change_lines(document), *made.lines()])


def change_lines(document: Mapping[str, Any]) -> list[str]:
    """What the target has and the rack's snapshot has not, for people."""
    if document["target"] == document["former"]:
        return []
    rows = [
        f"  {row['name']} {row['before'] or 'absent'} -> {row['after'] or 'gone'}"
        for row in document["changes"]
    ]
    return [f"from {document['former']} to {document['target'] or 'a new snapshot'}", *rows]


async def prove(rack: Rack, paths: RackPaths, document: Mapping[str, Any]) -> dict[str, Any]:
    """Whether phones that have moved are well: Python, Open MPI, versions, and MPI hello."""
    said: dict[str, Any] = document["said"]
    names = [name for name in rack.ring(said) if name not in broken_off(said)]
    wrong = await trouble(rack, paths, names, document) if names else {}
    return judge_wave(said, wrong, document["bearable_percentage"]).document()


async def trouble(
    rack: Rack, paths: RackPaths, names: Sequence[str], document: Mapping[str, Any]
) -> dict[str, str]:
    """Phone -> what is wrong with it."""
    old: str | None = document["reference"] or None
    asked = [*names, *([old] if old else [])]
    async with Fleet(rack, paths) as fleet:
        probes, packages = await asyncio.gather(
            phone_checks.gather(fleet, rack, asked),
            package_checks.gather(fleet, names, snapshot_of(document)),
        )
        # What most have is no measure here: the old one may have another Open MPI.
        among = phone_checks.with_common_versions({name: probes[name] for name in names})
        wrong = health(rack, among, packages)
        released = [n for n in names if n not in wrong and probes[n].release is not None]
        wrong |= await unstartable(fleet, released)
        ring = partners(probes, [name for name in names if name not in wrong], old)
        # The old one comes first: it is known to work, so it is not to blame.
        first = [old] if old in ring else []
        blamed = await hello.silent(fleet, rack, [*first, *(n for n in ring if n not in first)])
    return wrong | {name: why for name, why in blamed.items() if name in names}


async def unstartable(fleet: Fleet, names: Sequence[str]) -> dict[str, str]:
    """Phone -> why its sshd or exporter would not come up the next time. Without sshd it would be
    lost, and only then."""
    answers = await asyncio.gather(
        *(fleet.run_on(name, STARTS, timeout_seconds=STARTS_LIMIT_SECONDS) for name in names)
    )
    return {
        name: "its services would not start: " + answer.failure(name).removeprefix(f"{name}: ")
        for name, answer in zip(names, answers, strict=True)
        if answer.error is not None or not answer.ok
    }


async def settle(_: Rack, paths: RackPaths, document: Mapping[str, Any]) -> dict[str, Any]:
    """Let phones go, keep those that need somebody, and say how it ended."""
    ending = Ending(**{key: document[key] for key in Ending.__dataclass_fields__})
    kept = ending.kept
    free = [*ending.outcomes, *document["standing"]]
    with State(paths.state_db) as state:
        state.undrain([name for name in free if name not in kept], HOLDER)
        for name, why in kept.items():
            state.drain([name], HOLDER, f"upgrade to {ending.target}: {why}", origin="check")
    playbook_lock.drop(paths.dir / LOCK, own_playbook())
    return {
        "lines": ending.lines(),
        "failed": ending.failed,
        # A part of the rack moves without the rack.
        "moves_the_rack": document["whole"] and ending.proven(document["standing"]),
    }


def hold(paths: RackPaths) -> None:
    """One upgrade of a rack at a time. Raises UpgradeHeld."""
    holder = playbook_lock.take(paths.dir / LOCK, own_playbook())
    if holder is not None:
        raise UpgradeHeld(
            f"another upgrade of this rack is going on (process {holder.pid}): wait for its end, "
            "then rerun. No phone was touched"
        )


def own_playbook() -> playbook_lock.Process:
    found = playbook_lock.this_playbook()
    if found is None:
        raise FleetError("this is a step of playbooks/upgrade.yml: run that by ansible-playbook")
    return found


STEPS = {"plan": plan, "prove": prove, "settle": settle}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.upgrade_steps")
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--rack", required=True, type=Path, help="the rack file")
    options = parser.parse_args(arguments)
    try:
        rack = load_rack(options.rack)
        paths = RackPaths(rack.name)
        document = json.load(sys.stdin)
        print(json.dumps(asyncio.run(STEPS[options.step](rack, paths, document))))
    except FleetError as problem:
        print(f"upgrade: {problem}", file=sys.stderr)
        return problem.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
