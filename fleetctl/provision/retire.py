"""Take phones out of the rack: wiped, their keys revoked, their places free.

`python -m fleetctl.provision.retire --rack FILE NAME… [--check]` prints one JSON object; playbook
retire.yml runs it. A phone that works for a run is refused, and then nothing is done. One that does
not answer leaves all the same, but cannot be wiped, and that is said.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fleetctl.errors import FleetError
from fleetctl.provision.identity import Register
from fleetctl.rack import InputError, Rack, RackPaths, load_rack
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX
from fleetctl.remote import Fault, Fleet
from fleetctl.state import Held, State

WHO = "retire"
LEAVING = "leaves the rack"
WIPED = "leaves the rack, its data is wiped"
CLOSED = "leaves the rack, its data is wiped and its ssh is closed"
"""Why a phone is drained meanwhile; so a run that was cut off knows how far it came."""

WIPE_LIMIT_SECONDS = 120.0

# Whatever a file's name, nothing that the rack brought stays: data, runs, releases, keys, rules.
# What a running sshd reads at each login, or has its sessions preload, goes with the door: without
# its list of revoked keys it lets nobody in, and without a library nothing starts on Android.
WIPE = f"""
home={TERMUX_HOME} prefix={TERMUX_PREFIX}
for service in "$prefix"/var/service/phonerack-*; do
    [ -d "$service" ] || continue
    "$prefix/bin/sv" down "$service" >/dev/null 2>&1
    rm -rf "$service"
done
for environment in /proc/[0-9]*/environ; do
    if tr '\\0' '\\n' <"$environment" 2>/dev/null | grep -q '^PHONERACK_RUN='; then
        process=${{environment#/proc/}}
        kill -9 "${{process%/environ}}" 2>/dev/null
    fi
done
rm -rf "$home"/phonerack "$home"/.ansible "$home"/.termux/boot/phonerack* \\
    "$home"/.ssh/phonerack_* "$prefix"/etc/phonerack \\
    "$prefix"/etc/ssh/ssh_config.d/phonerack*.conf "$prefix"/etc/ssh/phonerack_rank \\
    "$prefix"/etc/ssh/phonerack_ca* "$prefix"/etc/ssh/phonerack_known* \\
    "$prefix"/etc/apt/keyrings/phonerack* "$prefix"/var/lib/apt/lists/phonerack* \\
    "$prefix"/var/log/sv/phonerack-* "$prefix"/var/service/*/phonerack-*.json \\
    "$prefix"/tmp/ompi.* "$prefix"/tmp/prte.* "$prefix"/tmp/phonerack*
left=$(ls -d "$home"/phonerack "$prefix"/etc/phonerack "$home"/.ssh/phonerack_* 2>/dev/null)
[ -z "$left" ] || {{ echo "cannot be removed: $left" >&2; exit 1; }}
sync
"""

# The session that runs it goes on until its end. First what lets somebody in, so that after a cut
# either nothing is done or the next is refused; last what the session's own programs preload.
CLOSE = f"""
home={TERMUX_HOME} prefix={TERMUX_PREFIX}
touch "$prefix"/var/service/sshd/down
rm -rf "$home"/.ssh "$prefix"/etc/ssh/ssh_host_* "$prefix"/etc/ssh/phonerack_* \\
    "$prefix"/etc/ssh/sshd_config.d/phonerack*.conf
sed -i '/^Include .*phonerack/d' "$prefix"/etc/ssh/sshd_config "$prefix"/etc/ssh/ssh_config
left=$(ls -d "$home"/.ssh "$prefix"/etc/ssh/ssh_host_* 2>/dev/null)
[ -z "$left" ] || {{ echo "cannot be removed: $left" >&2; exit 1; }}
"$prefix/bin/sv" down "$prefix"/var/service/sshd >/dev/null 2>&1
sync
rm -rf "$prefix"/lib/libphonerack_*
"""
CLOSE_TRIES = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the phones. `unwiped`: why the data of some is still on them. `unclosed`: why
    the ssh of some that are wiped was not seen to be closed."""

    retired: list[str]
    unwiped: dict[str, str]
    unclosed: dict[str, str]


async def retire(
    rack: Rack, rack_file: Path, names: Sequence[str], *, check: bool = False
) -> Outcome:
    """Retire the phones `names`; with `check` only say whether that could be done.

    Raises InputError for a phone that neither rack file nor lock file knows, Held where a run has
    one of them.
    """
    # Its address is known, or else it counts as one that does not answer.
    rack = replace(rack, phones={**rack.left, **rack.phones})
    if unknown := [name for name in names if name not in rack.phones]:
        raise InputError(f"no phone {', '.join(unknown)}: neither rack file nor lock file has it")
    paths = RackPaths(rack.name)
    with State(paths.state_db) as state:
        before = _reserve(state, names, check)
        if check:
            return Outcome(list(names), {}, {})
        async with Fleet(rack, paths) as fleet:
            unwiped = await _wipe(fleet, state, [n for n in names if n not in before])
            open_still = [n for n in names if n not in unwiped and before.get(n) != CLOSED]
            unclosed = await _close(fleet, state, open_still)
    Register(rack, rack_file).retire(names)
    return Outcome(list(names), unwiped, unclosed)


def _reserve(state: State, names: Sequence[str], check: bool) -> dict[str, str]:
    """Keep the phones out of new runs; returns how far an earlier try came: WIPED or CLOSED.

    The drain comes first, so that no run can take them between look and wipe.
    """
    done = {
        name: drain.why
        for name, facts in state.phones().items()
        for drain in facts.drains
        if name in names and drain.who == WHO and drain.why in (WIPED, CLOSED)
    }
    if not check:
        state.drain([name for name in names if name not in done], WHO, LEAVING, "check")
    facts = state.phones()
    held = {name: run for name in names if name in facts and (run := facts[name].run)}
    if held:
        if not check:
            state.undrain(names, check=WHO)
        raise Held(held)
    return done


async def _wipe(fleet: Fleet, state: State, names: Sequence[str]) -> dict[str, str]:
    """Wipe the phones; returns why some could not be."""
    results = await fleet.run(names, WIPE, timeout_seconds=WIPE_LIMIT_SECONDS)
    state.drain([name for name, result in results.items() if result.ok], WHO, WIPED, "check")
    return {name: result.failure(name) for name, result in results.items() if not result.ok}


async def _close(fleet: Fleet, state: State, names: Sequence[str]) -> dict[str, str]:
    """Shut the doors of wiped phones; returns why that was not seen of some.

    One that refuses the operator's key has shut its door, though its word did not arrive.
    """
    problems = dict.fromkeys(names, "")
    for _ in range(CLOSE_TRIES):
        results = await fleet.run(list(problems), CLOSE, timeout_seconds=WIPE_LIMIT_SECONDS)
        shut = [
            name
            for name, result in results.items()
            if result.ok or (result.error is not None and result.error.fault is Fault.AUTH)
        ]
        state.drain(shut, WHO, CLOSED, "check")
        problems = {n: result.failure(n) for n, result in results.items() if n not in shut}
    return problems


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.retire")
    parser.add_argument("--rack", type=Path, required=True, help="the rack file")
    parser.add_argument("--check", action="store_true", help="only say whether it can be done")
    parser.add_argument("names", nargs="+", metavar="PHONE")
    options = parser.parse_args(arguments)
    try:
        rack = load_rack(options.rack)
        outcome = asyncio.run(retire(rack, options.rack, options.names, check=options.check))
    except FleetError as problem:
        print(problem, file=sys.stderr)
        sys.exit(problem.exit_code)
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
