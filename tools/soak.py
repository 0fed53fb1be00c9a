#!/usr/bin/env python
"""The tests marked `soak`: too long for `make test`, run in the background when there is time.

    tools/soak.py start [PYTEST ARGUMENTS]     in the background; a second start says that one runs
    tools/soak.py run [PYTEST ARGUMENTS]       in the foreground

docs/soak.md is both the table for people and the memory: a test that passed on this tree (all files
but the documentation) is not run again, so a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import date
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[1]
TABLE = PROJECT / "docs/soak.md"
LOG = PROJECT / ".soak.log"
LOCK = PROJECT / ".soak.lock"
HEAD = """\
# Long tests

What `make soak` found: tests that `make test` leaves out, since they take minutes each. Written by
`tools/soak.py`. A test that passed on a tree is not run again on it; the tree is the hash of all
files but the documentation.

| test | result | seconds | on | tree |
|---|---|---:|---|---|
"""
ROW = re.compile(r"\| `(.+)` \| (\w+) \| (\d+) \| (\S+) \| `(\w+)` \|$")


@dataclass(frozen=True)
class Result:
    test: str
    outcome: str
    seconds: int
    on: str
    tree: str


def parse(table: str) -> dict[str, Result]:
    rows = (ROW.match(line) for line in table.splitlines())
    results = (
        Result(row[1], row[2], int(row[3]), row[4], row[5]) for row in rows if row is not None
    )
    return {result.test: result for result in results}


def render(results: Iterable[Result]) -> str:
    rows = sorted(astuple(result) for result in results)
    return HEAD + "".join(f"| `{r[0]}` | {r[1]} | {r[2]} | {r[3]} | `{r[4]}` |\n" for r in rows)


def tree_hash() -> str:
    """Of all files that git would keep, committed or not, but for the documentation."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(PROJECT)]
        # The objects go with the folder: the user's repository stays as it is, whoever we are.
        environment = {
            **os.environ,
            "GIT_INDEX_FILE": f"{folder}/index",
            "GIT_OBJECT_DIRECTORY": folder,
        }
        chosen = ["--", ".", ":!docs", ":!*.md"]
        subprocess.run([*git, "add", "--all", *chosen], check=True, env=environment)
        write = subprocess.run(
            [*git, "write-tree"], check=True, env=environment, text=True, capture_output=True
        )
    return write.stdout.strip()[:12]


class Memory:
    """Lets pytest leave out what passed on this tree, and keeps each result as it comes."""

    def __init__(self, tree: str) -> None:
        self.tree = tree
        self.results = parse(TABLE.read_text()) if TABLE.exists() else {}

    def passed(self, test: str) -> bool:
        known = self.results.get(test)
        return known is not None and known.outcome == "passed" and known.tree == self.tree

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        done = [item for item in items if self.passed(item.nodeid)]
        if done:
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if item not in done]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called for set-up, call and teardown of a test: their times add up."""
        before = None if report.when == "setup" else self.results.get(report.nodeid)
        if before is None:
            outcome = "unfinished" if report.passed else report.outcome
        elif report.when == "call" or report.failed:
            outcome = report.outcome
        else:
            outcome = before.outcome
        seconds = round(report.duration) + (before.seconds if before else 0)
        today = date.today().isoformat()
        self.results[report.nodeid] = Result(report.nodeid, outcome, seconds, today, self.tree)
        TABLE.write_text(render(self.results.values()))
        owner = PROJECT.stat()
        os.chown(TABLE, owner.st_uid, owner.st_gid)


@contextmanager
def only_one() -> Iterator[None]:
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"soak: a run is under way; its output is in {LOG.name}")
        yield


def run(arguments: list[str]) -> int:
    os.chdir(PROJECT)
    with only_one():
        status = pytest.main(["-v", "-m", "soak", *arguments], plugins=[Memory(tree_hash())])
    # Nothing left to run is the good end of a run that was resumed.
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


def start(arguments: list[str]) -> int:
    with only_one(), LOG.open("w") as log:
        child = subprocess.Popen(
            [sys.executable, __file__, "run", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    print(
        f"The long tests run in the background: tail -f {LOG.name};"
        f" kill -INT {child.pid} ends them."
    )
    print(f"Results: {TABLE.relative_to(PROJECT)}. `make soak` goes on where an ended run was.")
    return 0


if __name__ == "__main__":
    commands = {"start": start, "run": run}
    if sys.argv[1:2] == [] or sys.argv[1] not in commands:
        sys.exit(f"soak: what is to be done: {' or '.join(commands)}?")
    sys.exit(commands[sys.argv[1]](sys.argv[2:]))
