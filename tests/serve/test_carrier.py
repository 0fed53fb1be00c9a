"""A job's supervisor before the job runs: what becomes of a start that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from fleetctl.errors import FleetError
from fleetctl.jobs import energy, launch, recover
from fleetctl.jobs.choose import NotEnoughPhones, pick
from fleetctl.jobs.jobfile import JobError
from fleetctl.jobs.launch import Request
from fleetctl.jobs.rehearsal import NotRehearsed, PlanRefused
from fleetctl.jobs.room import Room
from fleetctl.serve.carrier import BACKOFF_SECONDS, REHEARSED_TRIES, Carrier, backoff_seconds

PHONES = ("phone001", "phone002", "phone003")


@pytest.fixture
def started(paper: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Request]]:
    """Starts the job of the queue; the launch raises what it is given."""

    def start(name: str, failure: BaseException) -> list[Request]:
        asked = []

        async def fails(_room: Any, request: Request, *_: Any, **__: Any) -> None:
            asked.append(request)
            raise failure

        monkeypatch.setattr(launch, "launch", fails)
        fleet: Any = None
        room = Room(fleet, paper.rack, paper.state, paper.paths, paper.said.append)
        asyncio.run(Carrier(paper.queue, room, paper.run(name)).carry())
        return asked

    return start


def given(paper: Any, **job: object) -> str:
    name: str = paper.enqueue("2", spares=0, **job).name
    paper.queue.give(name, PHONES[:2])
    return name


def test_it_may_start_on_the_phones_that_it_was_given_alone(paper: Any, started: Any) -> None:
    entry = paper.enqueue("4", minimum=2)
    paper.queue.give(entry.name, PHONES)

    (request,) = started(entry.name, NotEnoughPhones("phone002 has no release"))

    wish = request.wish
    assert (wish.offered, wish.named) == (PHONES, ())
    assert (wish.least, wish.most) == (2, 3)


@pytest.mark.parametrize("phones", ["phone[002-004]", "4"])
def test_it_trains_on_the_phones_that_were_chosen_to_train_and_spares_stay_beside_them(
    paper: Any, started: Any, phones: str
) -> None:
    """The spare stands before them in ring order, and one of the four could not be given."""
    entry = paper.enqueue_training(phones, minimum=2, spares=1)
    paper.queue.give(entry.name, ["phone002", "phone003", "phone004"], spares=["phone001"])

    (request,) = started(entry.name, NotEnoughPhones("phone002 has no release"))

    ready = paper.rack.ring(request.wish.offered)
    trained = (("phone002", "phone003", "phone004"), ("phone001",))
    assert pick(ready, request.wish) == trained
    without = [phone for phone in ready if phone != "phone003"]
    assert pick(without, request.wish)[0] == ("phone002", "phone004", "phone001")


def test_a_start_without_enough_phones_waits_for_others_at_once_then_longer(
    paper: Any, started: Any
) -> None:
    name, pauses = given(paper), []
    for _ in range(3):
        started(name, NotEnoughPhones("phone002 has no release"))
        entry = paper.queue.get(name)
        assert entry.waits
        assert entry.trouble == "phone002 has no release"
        pauses.append(round(entry.not_before - time.time(), -1))
        paper.queue.give(name, PHONES[:2])

    assert pauses == [0, 30, 60]
    assert paper.run(name).events() == []


def test_other_failures_are_tried_again_after_a_pause(paper: Any, started: Any) -> None:
    name = given(paper)

    started(name, FleetError("the mirror is full"))

    assert round(paper.queue.get(name).not_before - time.time(), -1) == 30
    assert [backoff_seconds(tries) for tries in (0, 1, 2, 3, 99)] == [
        *(0.0, 30.0, 60.0, 120.0),
        BACKOFF_SECONDS[1],
    ]


def test_a_job_that_only_a_person_can_mend_is_over(paper: Any, started: Any) -> None:
    name = given(paper)

    started(name, JobError("`global_batch: 1` is too small for 2 phones"))

    assert paper.queue.get(name) is None
    summary = paper.run(name).summary()
    assert (summary.state, summary.reason) == (
        "failed",
        "`global_batch: 1` is too small for 2 phones",
    )


def test_a_job_that_torch_refuses_is_over(paper: Any, started: Any) -> None:
    name = given(paper)

    started(name, PlanRefused("alexnet cannot be trained so: images are too small"))

    assert paper.queue.get(name) is None
    assert paper.run(name).summary().state == "failed"


def test_a_job_that_does_not_fit_in_memory_is_tried_some_times_then_over(
    paper: Any, started: Any
) -> None:
    name, why = given(paper), "resnet-152 needs 2000 MiB; set `global_batch` to at most 8"
    for _ in range(REHEARSED_TRIES - 1):
        started(name, NotRehearsed(why))
        assert paper.queue.get(name).trouble == why
        paper.queue.give(name, PHONES[:2])

    started(name, NotRehearsed(why))

    assert paper.queue.get(name) is None
    summary = paper.run(name).summary()
    assert (summary.state, summary.reason) == ("failed", why)


def test_a_start_that_had_touched_phones_is_over_with_what_its_folder_says(
    paper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = given(paper)
    run = paper.run(name)

    async def breaks_off(*_: Any, **__: Any) -> None:
        run.record("created", phones=["phone001"])
        run.record("ended", state="failed", reason="mpirun did not start")
        raise FleetError("mpirun did not start")

    monkeypatch.setattr(launch, "launch", breaks_off)
    fleet: Any = None
    room = Room(fleet, paper.rack, paper.state, paper.paths, paper.said.append)
    asyncio.run(Carrier(paper.queue, room, run).carry())

    assert paper.queue.get(name) is None
    assert run.summary().reason == "mpirun did not start"


@pytest.fixture
def cut_off(paper: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Carrier]:
    """The supervisor of a job, after something `happens` to it in the midst of the start; whether
    that had come as far as phones is written down, as `launch` does."""

    def cut(name: str, happens: Callable[[Carrier], object], begun: bool) -> Carrier:
        run = paper.run(name)

        async def start(*_: Any, **__: Any) -> None:
            try:
                await asyncio.Future()
            finally:
                if begun:
                    run.record("created", phones=PHONES[:2])

        fleet: Any = None
        room = Room(fleet, paper.rack, paper.state, paper.paths, paper.said.append)
        carrier = Carrier(paper.queue, room, run)

        async def go() -> None:
            carrying = asyncio.create_task(carrier.carry())
            while carrier.starting is None:
                await asyncio.sleep(0)
            happens(carrier)
            await asyncio.wait({carrying})
            assert carrying.cancelled() or not carrying.exception()

        monkeypatch.setattr(launch, "launch", start)
        asyncio.run(go())
        return carrier

    return cut


@pytest.mark.parametrize("begun", [True, False])
def test_a_shutdown_in_the_midst_of_a_start_leaves_the_job_to_the_next_supervisor(
    paper: Any, cut_off: Any, begun: bool
) -> None:
    name = given(paper)

    cut_off(name, lambda carrier: carrier.starting.cancel(), begun)

    assert paper.queue.get(name).phones == PHONES[:2]
    assert not paper.run(name).summary().over


def test_a_stop_in_the_midst_of_a_start_ends_the_job(paper: Any, cut_off: Any) -> None:
    name = given(paper)

    cut_off(name, Carrier.interrupt, begun=False)

    assert paper.queue.get(name) is None
    assert paper.run(name).summary().state == "stopped"


def test_a_stop_of_a_start_that_may_have_begun_clears_up_as_that_of_a_run(
    paper: Any, cut_off: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = given(paper)
    asked = []

    async def carry(_: Any, run: Any, **how: Any) -> None:
        asked.append(how["stop_requested"].is_set())
        run.record("ended", state="stopped")

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(recover, "carry", carry)
    monkeypatch.setattr(energy, "measure", nothing)
    cut_off(name, Carrier.interrupt, begun=True)

    assert asked == [True]
    assert paper.queue.get(name) is None


def test_a_run_that_has_waited_for_phones_in_vain_waits_in_the_queue_again(
    paper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = given(paper)
    later = paper.enqueue("2").name
    run = paper.run(first)
    run.record("created", phones=PHONES[:2])
    offered = []

    async def gives_up(*_: Any, **how: Any) -> None:
        offered.append(how["offered"])
        run.record("requeued", reason="2 wanted, 1 ready")
        how["give_back"]("2 wanted, 1 ready:\n  phone002: lost")

    monkeypatch.setattr(recover, "carry", gives_up)
    fleet: Any = None
    room = Room(fleet, paper.rack, paper.state, paper.paths, paper.said.append)
    asyncio.run(Carrier(paper.queue, room, run).carry())

    assert offered == [PHONES[:2]]
    assert [entry.name for entry in paper.queue.jobs()] == [first, later]
    entry = paper.queue.get(first)
    assert (entry.waits, entry.trouble) == (True, "2 wanted, 1 ready: phone002: lost")
    assert not run.summary().over
    # Until it is given phones, nobody carries it.
    asyncio.run(Carrier(paper.queue, room, run).carry())
    assert len(offered) == 1

    paper.queue.give(first, PHONES[1:])

    async def is_done(*_: Any, **__: Any) -> None:
        run.record("ended", state="done")

    async def nothing(*_: Any) -> None:
        pass

    monkeypatch.setattr(recover, "carry", is_done)
    monkeypatch.setattr(energy, "measure", nothing)
    asyncio.run(Carrier(paper.queue, room, run).carry())
    assert [entry.name for entry in paper.queue.jobs()] == [later]
    assert [event["kind"] for event in run.events()] == ["created", "requeued", "given", "ended"]


def test_a_run_may_grow_while_those_who_wait_cannot_use_the_phones(paper: Any) -> None:
    fleet: Any = None
    room = Room(fleet, paper.rack, paper.state, paper.paths, paper.said.append)
    carrier = Carrier(paper.queue, room, paper.run("any-1"))
    assert carrier._may_grow(["phone008"])

    paper.state.drain(["phone001"], "ada", "battery swollen")
    paper.enqueue("8")  # can never start as it is
    paper.enqueue("phone[002-003]")
    assert carrier._may_grow(["phone008"])
    assert not carrier._may_grow(["phone003", "phone008"])

    backs_off = paper.enqueue("2").name
    assert not carrier._may_grow(["phone008"])
    paper.queue.give(backs_off, ["phone007", "phone008"])
    paper.queue.take_back(backs_off, "the mirror is full", time.time() + 1800)
    assert carrier._may_grow(["phone008"])


def test_one_that_was_taken_out_meanwhile_does_not_start(paper: Any, started: Any) -> None:
    name = given(paper)
    paper.queue.remove(name)

    assert started(name, FleetError("never asked")) == []
