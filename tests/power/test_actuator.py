"""Commands of outlets: no shell, a time limit, output kept."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from survivors import gone

from fleetctl.power.actuator import MOST_BYTES, Actuator, Ran
from fleetctl.rack import Outlet


def switch(*command: str, limit_seconds: float = 5.0, on: bool = False) -> Ran:
    outlet = Outlet("plug-1", ("phone003", "phone004"), command, limit_seconds)
    return asyncio.run(Actuator(Path("rack.yml")).switch(outlet, on))


def python(program: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", program)


def test_placeholders_are_filled_and_no_shell_sees_the_words() -> None:
    show = python("import sys; print(sys.argv[1:])")
    ran = switch(*show, "{state}", "{outlet}", "{phone}", "$HOME; exit 1", on=True)
    assert ran.ok
    assert ran.said.strip() == "['on', 'plug-1', 'phone003', '$HOME; exit 1']"


def test_what_a_failing_command_said_is_kept() -> None:
    ran = switch(*python("import sys; print('port 3?', file=sys.stderr); sys.exit(4)"))
    assert not ran.ok
    assert ran.sentence == "exit code 4: port 3?"


def test_a_command_that_hangs_ends_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "child"
    ran = switch("/bin/sh", "-c", f"sleep 60 & echo $! >{note}; wait", limit_seconds=1)
    assert not ran.ok
    assert ran.sentence == "sh did not end within 1 s"
    assert gone(int(note.read_text()))


def test_a_command_that_leaves_something_behind_is_done_when_it_is_done() -> None:
    ran = switch("/bin/sh", "-c", "echo done; sleep 60 &", limit_seconds=20)
    assert ran.ok
    assert ran.seconds < 10


def test_a_command_that_is_not_there_says_so() -> None:
    ran = switch("phonerack-no-such-hub", "{state}")
    assert ran.code is None
    assert ran.sentence == "phonerack-no-such-hub cannot be started: No such file or directory"


def test_of_a_flood_the_end_is_kept() -> None:
    ran = switch(*python("print('x' * 10_000_000); print('the end')"), limit_seconds=20)
    assert ran.ok
    assert len(ran.said) <= MOST_BYTES
    assert ran.sentence == "the end"


def test_it_knows_the_rack_file_and_this_fleetctl() -> None:
    ran = switch(*python("import os, shutil; print(os.environ['PHONERACK_RACK']); "
                         "print(shutil.which('python') or '')"))  # fmt: skip
    file, found = ran.said.split()
    assert file == str(Path("rack.yml").absolute())
    assert Path(found).parent == Path(sys.executable).parent
    assert os.environ.get("PHONERACK_RACK") != file
