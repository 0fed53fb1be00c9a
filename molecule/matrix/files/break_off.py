"""break_off.py N COMMAND...: runs an ansible-playbook and breaks it off as its N-th task begins.

A person's Ctrl-C reaches the whole foreground group at once, so the signal goes to the group. A
person presses again when nothing happens: after the first, ansible-core may wait for its own
threads for ever. Ends with 0 if the run was broken off by it, with 3 if it had fewer tasks.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

PATIENCE_SECONDS = 20
PRESSES = 5


def break_off(process: subprocess.Popen[str]) -> None:
    for _ in range(PRESSES):
        os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=PATIENCE_SECONDS)
            return
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def main() -> int:
    number, command = int(sys.argv[1]), sys.argv[2:]
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
    seen = 0
    for line in process.stdout:
        seen += line.startswith("TASK [")
        if seen == number:
            break_off(process)
            print(f"broken off at {line.strip()} with status {process.returncode}")
            return 0 if process.returncode else 1
    process.wait()
    print(f"ended by itself with status {process.returncode} after {seen} tasks")
    return 3


if __name__ == "__main__":
    sys.exit(main())
