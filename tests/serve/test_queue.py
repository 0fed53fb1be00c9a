"""The queue's database: nothing in it is lost, whoever is killed, and two at once are two in it."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleetctl.rack import InputError
from fleetctl.serve.queue import (
    _SCHEMA_1,
    _SCHEMA_2,
    SCHEMA_VERSION,
    Entry,
    NotWaiting,
    Queue,
    QueueError,
)


def entry(name: str, **options: object) -> Entry:
    return Entry(0, name, 1000.0, "ada", **options)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.db"


def test_what_is_queued_is_there_for_the_next_process(path: Path) -> None:
    asked = entry(
        "digits-1", priority=2, least=3, most=4, spares=1, among=("phone001",), limit_seconds=60.0
    )
    with Queue(path) as queue:
        number = queue.add(asked)

    with Queue(path) as queue:
        (found,) = queue.jobs()
        assert found == Entry(number, **{f: getattr(asked, f) for f in FIELDS})
        assert found.waits
        assert queue.get("digits-1") == found
        assert queue.get("digits-2") is None


FIELDS = (
    *("name", "arrived", "who", "priority", "least", "most", "spares", "among", "limit_seconds"),
    *("resume", "tries", "not_before", "trouble", "phones", "given"),
)


def test_a_name_is_queued_once(path: Path) -> None:
    with Queue(path) as queue:
        queue.add(entry("digits-1"))
        with pytest.raises(InputError, match="digits-1 is in the queue already"):
            queue.add(entry("digits-1"))


def test_a_job_is_given_phones_or_taken_out_never_both(path: Path) -> None:
    with Queue(path) as queue, Queue(path) as other:
        queue.add(entry("taken-1"))
        other.take_out("taken-1")
        assert not queue.give("taken-1", ["phone001"])

        queue.add(entry("given-1"))
        assert queue.give("given-1", ["phone001"], now=5.0)
        with pytest.raises(NotWaiting, match="given-1 does not wait"):
            other.take_out("given-1")
        assert not other.give("given-1", ["phone002"])
        (found,) = queue.jobs()
        assert (found.phones, found.ranks, found.given) == (("phone001",), 1, 5.0)


def test_who_of_its_phones_is_a_spare_is_kept(path: Path) -> None:
    with Queue(path) as queue:
        queue.add(entry("digits-1"))
        queue.give("digits-1", ["phone002", "phone003"], spares=["phone001"])

        (found,) = queue.jobs()
        assert (found.phones, found.ranks) == (("phone002", "phone003", "phone001"), 2)

        queue.take_back("digits-1", "phone003 does not answer", not_before=0.0)
        assert queue.jobs()[0].ranks is None


def test_a_queue_of_an_older_version_loses_nothing(path: Path) -> None:
    with sqlite3.connect(path) as older:
        older.executescript(f"{_SCHEMA_1};{_SCHEMA_2};PRAGMA user_version = 2")
        older.execute(
            "INSERT INTO jobs (name, arrived, who, priority, least, spares, among, phones, given) "
            """VALUES ('digits-1', 1.0, 'ada', 0, 2, 0, '[]', '["phone001", "phone002"]', 5.0)"""
        )

    with Queue(path) as queue:
        (found,) = queue.jobs()
    assert (found.phones, found.ranks) == (("phone001", "phone002"), None)


def test_a_start_that_failed_waits_again_at_its_old_place(path: Path) -> None:
    with Queue(path) as queue:
        queue.add(entry("first-1"))
        queue.add(entry("second-1"))
        queue.give("first-1", ["phone001"])

        queue.take_back("first-1", "phone001 does not answer", not_before=2000.0)

        found = queue.jobs()[0]
        assert (found.name, found.waits, found.phones, found.tries) == ("first-1", True, (), 1)
        assert found.waiting().not_before == 2000.0
        assert found.waiting().trouble == "phone001 does not answer"
        queue.remove("first-1")
        assert [each.name for each in queue.jobs()] == ["second-1"]


def test_several_people_queue_at_once(path: Path) -> None:
    def add(person: int) -> None:
        with Queue(path) as queue:
            for number in range(20):
                queue.add(entry(f"of{person}-{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))

    with Queue(path) as queue:
        found = queue.jobs()
    assert len({each.name for each in found}) == 80
    assert [each.number for each in found] == sorted({each.number for each in found})


WRITER = """
import sys
from pathlib import Path
from fleetctl.serve.queue import Entry, Queue
with Queue(Path(sys.argv[1])) as queue:
    for number in range(100000):
        queue.add(Entry(0, f"job-{number}", 0.0, "ada"))
        print(f"job-{number}", flush=True)
"""


def test_what_a_killed_process_had_queued_is_there(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        told = [writer.stdout.readline().strip() for _ in range(30)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.read().split()

    with Queue(path) as queue:
        found = [each.name for each in queue.jobs()]
    assert found[: len(told)] == told
    assert len(found) <= len(told) + 1


def test_a_queue_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    before = path.read_bytes()

    with pytest.raises(QueueError, match=r"newer than .*update phonerack"):
        Queue(path)
    assert path.read_bytes() == before


def test_a_damaged_queue_says_so(path: Path) -> None:
    path.write_bytes(b"no database" * 100)

    with pytest.raises(QueueError, match=r"queue.db: file is not a database; it is damaged"):
        Queue(path)


def fill(queue: Queue) -> None:
    for number in range(1000):
        queue.add(entry(f"more-{number}"))


def test_a_full_disk_queues_nothing_and_loses_nothing(path: Path) -> None:
    with Queue(path) as queue:
        queue.add(entry("before-1"))
        queue._database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(QueueError, match="full"):
            fill(queue)
        held = {each.name for each in queue.jobs()}

    with Queue(path) as queue:
        assert {each.name for each in queue.jobs()} == held
        assert "before-1" in held
        queue.add(entry("after-1"))
