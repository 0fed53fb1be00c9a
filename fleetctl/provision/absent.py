"""Why phones did not answer Ansible, which knows only `unreachable`.

`python -m fleetctl.provision.absent RACK_FILE PHONE...` asks each once over ssh and prints one line
for each reason: throttled, refused, host key changed, hung, no route, each with its cure. A phone
that answers by now is told too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.rack.nodesets import fold
from fleetctl.remote import Fleet, Result

CONNECT_AND_RUN_SECONDS = 10.0


async def ask(rack: Rack, names: list[str]) -> dict[str, Result]:
    async with Fleet(rack, RackPaths(rack.name)) as fleet:
        return await fleet.run(names, "true", timeout_seconds=CONNECT_AND_RUN_SECONDS)


def lines(rack: Rack, answers: Mapping[str, Result]) -> list[str]:
    """One line a reason, with all the phones that it holds for."""
    owners: dict[str, list[str]] = {}
    for name, result in answers.items():
        said = "answers now: run site.yml for it again" if result.ok else result.failure(name)
        said = said.replace(f"{name} ({rack.phones[name].address})", "").replace(name, "")
        owners.setdefault(said.strip(" :"), []).append(name)
    return [f"{fold(names)}: {said}" for said, names in owners.items()]


def main() -> int:
    try:
        rack = load_rack(sys.argv[1])
        names = [name for name in sys.argv[2:] if name in rack.phones]
        answers = asyncio.run(ask(rack, names))
    except FleetError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    print("\n".join(lines(rack, answers)))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
