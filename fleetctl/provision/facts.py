"""Keep what site.yml learnt of the phones.

`python -m fleetctl.provision.facts STATE_DB BEGAN` reads JSON on stdin: facts as module
`phone_facts` gives them, by phone. BEGAN is when the phones were asked, in seconds since the epoch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from fleetctl.checks.facts import with_offset
from fleetctl.errors import ExitCode, FleetError
from fleetctl.state import State


def main() -> int:
    database, began = Path(sys.argv[1]), float(sys.argv[2])
    said, ended = json.load(sys.stdin), time.time()
    facts = {name: with_offset(one, began, ended) for name, one in said.items() if one}
    try:
        with State(database) as state:
            state.record_facts(facts, now=ended)
    except FleetError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
