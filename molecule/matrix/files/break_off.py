"""break_off.py PHASE LOT COMMAND...: runs an ansible-playbook and breaks it off in one phase.

At which of the phase's tasks says LOT, any whole number; COMMAND's last word is the playbook. Tasks
that a run leaves out, such as those of files that it does not include, may end the phase before:
then it is broken off there.

A person's Ctrl-C reaches the whole foreground group at once, so the signal goes to the group. A
person presses again when nothing happens: after the first, ansible-core may wait for its own
threads for ever. Ends with 0 if the run was broken off by it, with 3 if it ended before.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress

PATIENCE_SECONDS = 20
PRESSES = 5

_PLAY = re.compile(r"  play #\d+ \(.*\): (.*)\tTAGS: ")
_TASK = re.compile(r"      \S.*\tTAGS: ")


def listed(text: str) -> dict[str, int]:
    """How many tasks each play has, of `ansible-playbook --list-tasks`."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        if play := _PLAY.match(line):
            found[play[1]] = 0
        elif found and _TASK.match(line):
            found[list(found)[-1]] += 1
    return found


def reaches(lines: Iterable[str], plays: Iterable[str], number: int) -> str | None:
    """The line at which the `number`-th task of `plays` begins, or the phase is over; None if the
    output ends before."""
    wanted, inside, seen = set(plays), False, 0
    for line in lines:
        if line.startswith("PLAY ["):
            entered = line[len("PLAY [") :].rpartition("]")[0] in wanted
            if inside and not entered:
                return line
            inside = entered
        elif inside and line.startswith("TASK ["):
            seen += 1
            if seen == number:
                return line
    return None


def break_off(process: subprocess.Popen[str]) -> None:
    for _ in range(PRESSES):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=PATIENCE_SECONDS)
            return
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def main() -> int:
    phase, lot, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    words = [*command[:-1], f"playbooks/{phase}.yml", "--list-tasks"]
    plays = listed(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    number = 1 + lot % sum(plays.values())
    # Ignored signals are inherited, and a shell's background jobs ignore this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    if process.stdout is None:
        return 1
    if (line := reaches(process.stdout, plays, number)) is not None:
        break_off(process)
        print(f"broken off at {line.strip()} with status {process.returncode}")
        return 0 if process.returncode else 1
    process.wait()
    print(f"ended by itself with status {process.returncode} before task {number} of {phase}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
