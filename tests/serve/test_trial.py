"""`launch --dry-run` where the rack is served: what the queue would do with the job."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from fleetctl.cli import launch as command
from fleetctl.jobs import launch
from fleetctl.jobs.choose import NotEnoughPhones, Wish
from fleetctl.jobs.jobfile import Job
from fleetctl.jobs.launch import Request
from fleetctl.jobs.room import Chosen, Room
from fleetctl.serve.enqueue import enqueue, entry_of, wish_of
from fleetctl.serve.service import Service
from fleetctl.serve.trial import trial


def asked(wish: Wish, priority: int = 0) -> Request:
    return Request(Job(name="digits", command=["true"], priority=priority), wish)


def tried(paper: Any, request: Request) -> Wish | str:
    return trial(paper.rack, paper.paths, paper.state, request, "ada", time.time())


def take(paper: Any, *phones: str) -> None:
    """A run of a terminal holds them."""
    run = paper.run("old-1")
    run.path.mkdir()
    run.record("created", phones=phones)
    paper.state.allocate(run.name, phones)


@pytest.fixture
def crowded(paper: Any) -> Any:
    """Two phones are free, and kept for a job that wants all eight."""
    take(paper, *(f"phone00{n}" for n in range(1, 7)))
    paper.enqueue("8", name="large-1")
    return paper


@pytest.mark.parametrize(
    "wish",
    [
        Wish(count=4),
        Wish(count=3, spares=2),
        Wish(count=7, minimum=2),
        Wish(named=("phone002", "phone003", "phone006"), spares=1),
        Wish(),
    ],
)
def test_a_job_gets_the_phones_that_a_trial_has_named(
    paper: Any, wish: Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "_start_supervisor", lambda *_: None)
    take(paper, "phone001", "phone005")
    found = tried(paper, asked(wish))
    assert isinstance(found, Wish)

    name = enqueue(paper.rack, paper.paths, paper.queue, asked(wish), "ada").name
    Service(paper.rack_file, paper.paths, paper.state, paper.queue, print).turn()
    assert found.offered == paper.queue.get(name).phones


def test_free_phones_that_are_kept_for_another_job_are_not_promised(crowded: Any) -> None:
    before = crowded.queue.jobs()
    assert tried(crowded, asked(Wish(count=2))) == (
        "2 wanted; free phones are kept for large-1, which is first"
    )
    first = tried(crowded, asked(Wish(count=2), priority=1))
    assert isinstance(first, Wish)
    assert first.first == ("phone007", "phone008")
    assert crowded.queue.jobs() == before


def would_get(paper: Any, request: Request, *, queued: bool = True) -> tuple[Chosen, str | None]:
    fleet: Any = None
    room = Room(fleet, paper.rack, paper.state, paper.paths, print)
    return asyncio.run(command._would_get(room, request, queued=queued))


@pytest.fixture
def wishes(monkeypatch: pytest.MonkeyPatch) -> list[Wish]:
    """What preflight was asked for; it finds two phones at most."""
    found: list[Wish] = []

    async def choose_phones(_: Room, wish: Wish, *, dry: bool) -> Chosen:
        assert dry
        found.append(wish)
        if wish.least > 2:
            raise NotEnoughPhones("too few")
        return Chosen(wish.first, {}, 0.0)

    monkeypatch.setattr(launch, "choose_phones", choose_phones)
    return found


def test_a_dry_run_looks_at_those_that_the_queue_would_give(
    crowded: Any, wishes: list[Wish]
) -> None:
    request = asked(Wish(count=2), priority=1)
    chosen, waits = would_get(crowded, request)
    assert (chosen.phones, waits) == (("phone007", "phone008"), None)
    would_get(crowded, request, queued=False)
    assert wishes[1] == request.wish


def test_a_dry_run_of_a_job_that_would_wait_says_so(crowded: Any, wishes: list[Wish]) -> None:
    _, waits = would_get(crowded, asked(Wish(count=2)))
    assert "kept for large-1" in str(waits)
    with pytest.raises(
        NotEnoughPhones, match="too few; it would wait in the queue: 5 wanted, 2 free"
    ):
        would_get(crowded, asked(Wish(count=5)))


def test_a_job_that_takes_what_there_is_asks_for_no_number() -> None:
    given = ("phone001", "phone002", "phone003")
    entry = entry_of("a-1", asked(Wish(spares=1)), "ada")
    assert wish_of(entry, given, 2, 1) == Wish(offered=given, first=given[:2], minimum=1, spares=1)
    entry = entry_of("a-1", asked(Wish(count=2, spares=1)), "ada")
    assert wish_of(entry, given, 2, 1) == Wish(
        offered=given, first=given[:2], count=2, minimum=2, spares=1
    )
