"""Processes that are killed, disks that are full, two operators at once: the file stays whole."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetctl.state import State, StateError

PHONES = [f"phone{number:03}" for number in range(1, 21)]

WRITER = """
import sys
from pathlib import Path
from fleetctl.state import State
phones, who = sys.argv[3:], sys.argv[2]
with State(Path(sys.argv[1]), who=who) as state:
    for turn in range(100_000):
        state.drain(phones, who, f"turn {turn}")
        print(turn, flush=True)
"""


def writer(path: Path, who: str) -> subprocess.Popen[str]:
    """A process that drains all phones again and again, and says each time that it has."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), who, *PHONES], stdout=subprocess.PIPE, text=True
    )


def reasons(state: State, who: str) -> set[str]:
    return {
        drain.why for facts in state.phones().values() for drain in facts.drains if drain.who == who
    }


def test_a_process_that_is_killed_at_any_moment_leaves_all_of_a_change_or_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    with State(path) as state:
        state.drain(PHONES, "bob", "screen broken")

    for delay_seconds in (0.0, 0.002, 0.005, 0.011, 0.017):
        process = writer(path, "ann")
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay_seconds)
        process.send_signal(signal.SIGKILL)
        turns = process.stdout.read().split()
        process.wait()
        with State(path) as state:
            (left,) = reasons(state, "ann")
            # What it said it had done is there; at most the change after that, too.
            said = int(turns[-1]) if turns else 0
            assert left in (f"turn {said}", f"turn {said + 1}")
            assert reasons(state, "bob") == {"screen broken"}
            for phone in PHONES:
                told = [event.why for event in state.history(phone) if event.who == "ann"]
                assert told[-1] == left
        with sqlite3.connect(path) as database:
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        database.close()


def test_two_operators_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    both = [writer(path, "ann"), writer(path, "bob")]
    for process in both:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
    for process in both:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    with State(path) as state:
        assert len(reasons(state, "ann")) == len(reasons(state, "bob")) == 1
        assert {name for name, facts in state.phones().items() if len(facts.drains) == 2} == {
            *PHONES
        }


ON_A_SMALL_DISK = """
mount -t tmpfs -o size=300k tmpfs "$1"
exec "$2" -c "$3" "$1"
"""

FILLER = """
import json, sys
from pathlib import Path
from fleetctl.state import State, StateError
folder = Path(sys.argv[1])
said, done = None, 0
with State(folder / "state.db") as state:
    state.drain(["phone001"], "bob", "screen broken")
    try:
        for turn in range(10_000):
            state.drain([f"phone{turn:03}"], "ann", "x" * 500)
            done = turn + 1
    except StateError as problem:
        said = str(problem)
with State(folder / "state.db") as state:
    known = state.phones()
    first = state.history("phone001")[0].why
print(json.dumps({"said": said, "done": done, "ann": sum(
    drain.who == "ann" for facts in known.values() for drain in facts.drains),
    "bob": known["phone001"].drains[0].who, "first": first}))
"""


@pytest.mark.root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="a small disk takes a namespace")
def test_a_full_disk_is_said_and_what_was_done_before_is_still_there(tmp_path: Path) -> None:
    """A file system of 300 kB in a namespace of its own."""
    command = ["unshare", "--mount", "sh", "-ec", ON_A_SMALL_DISK, "sh"]
    done = subprocess.run(
        [*command, str(tmp_path), sys.executable, FILLER], text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "its disk is full: free some space and do it again" in found["said"]
    assert (found["ann"], found["bob"]) == (found["done"], "bob")
    assert found["first"] == "screen broken"


def test_a_file_of_a_newer_version_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE drains (phone TEXT)")
        database.execute("PRAGMA user_version = 6")
    database.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match=r"version 6 is newer than 5.*update phonerack"):
        State(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_nobody_waits_for_a_writer_to_open_the_state(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with State(path) as state:
        state.drain(["phone001"], "ann", "screen broken")
    with sqlite3.connect(path, isolation_level=None) as writing:
        writing.execute("BEGIN IMMEDIATE")
        with State(path) as state:
            assert state.phones().keys() == {"phone001"}
        writing.execute("ROLLBACK")
    writing.close()
