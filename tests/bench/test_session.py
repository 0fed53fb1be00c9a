"""A bench goes on without the phones that it loses, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from made import WHERE

from fleetctl.bench import collectives, compute, session, training
from fleetctl.bench.document import BENCH_FILE
from fleetctl.bench.session import Session
from fleetctl.jobs import onphone, runs
from fleetctl.jobs.choose import NotEnoughPhones, Wish
from fleetctl.jobs.launch import Request
from fleetctl.jobs.room import Chosen
from fleetctl.jobs.runs import RunFolder
from fleetctl.jobs.verdict import Verdict
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Fault, PhoneError
from trainer.formats import (
    Collectives,
    CollectivesSpec,
    Computed,
    ComputeSpec,
    Exchange,
    Input,
    ModelSpec,
    Trained,
    TrainingSpec,
)

PHONES = tuple(f"phone00{n}" for n in range(1, 6))
RACK = Rack(
    "r",
    Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    {name: Phone(name, f"10.0.0.{n}") for n, name in enumerate(PHONES, 11)},
)
SHAPE = Input((1, 8, 8), 10)
MODEL = ModelSpec("digits-cnn")
DONE = Verdict("done", None, {}, None)


class Phones:
    """Phones on which every launch that finds its phones ready measures something."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder
        self.away: set[str] = set()
        self.launched: list[tuple[str, ...]] = []
        self.in_the_course: Callable[[], None] = lambda: None
        """What happens while a launch measures."""
        self.after: Callable[[], None] = lambda: None
        """What happens before the answers are fetched."""

    async def choose(self, _room: Any, wish: Wish, **_: Any) -> Chosen:
        ready = tuple(phone for phone in wish.offered if phone not in self.away)
        if len(ready) < wish.least:
            raise NotEnoughPhones("none is ready")
        return Chosen(ready, {}, 0.0)

    async def launch(
        self, _room: Any, request: Request, _stack: ExitStack
    ) -> tuple[RunFolder, None]:
        phones = request.wish.named
        if gone := [phone for phone in phones if phone in self.away]:
            raise NotEnoughPhones(f"{', '.join(gone)} does not answer")
        run = runs.create(self.runs, request.job.name)
        (run.path / "versions.json").write_text("{}")
        self.spec = json.loads(request.files[0].read_text())
        self.launched.append(phones)
        return run, None

    async def supervise(self, _watch: Any) -> Verdict:
        self.in_the_course()
        if gone := {p: f"{p} is lost" for p in self.launched[-1] if p in self.away}:
            return Verdict("failed", "; ".join(gone.values()), gone, None)
        self.after()
        return DONE

    async def get(self, phone: str, remote: str, local: Path) -> None:
        if phone in self.away:
            raise PhoneError(phone, Fault.LOST, f"{phone} is lost")
        assert remote.startswith(onphone.RUNS)
        answers: dict[str, Any] = {
            "method": lambda: Collectives(self.launched[-1], "ring", ()),
            "cases": lambda: Computed(phone, "cpu", "2.6", (), (), ()),
            "model": lambda: Trained(phone, 8, ()),
        }
        next(made for key, made in answers.items() if key in self.spec)().write(local)


@pytest.fixture
def phones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phones:
    found = Phones(tmp_path / "runs")
    monkeypatch.setattr(session.launch, "launch", found.launch)
    monkeypatch.setattr(session.launch, "choose_phones", found.choose)
    monkeypatch.setattr(session.attach, "watch_of", lambda *_: None)
    return found


@pytest.fixture
def bench(phones: Phones, tmp_path: Path) -> Session:
    room: Any = SimpleNamespace(
        rack=RACK, fleet=phones, paths=SimpleNamespace(runs=phones.runs), remark=lambda _: None
    )
    foreground: Any = SimpleNamespace(supervise=phones.supervise, supervised=None)
    folder = tmp_path / "runs" / "bench-any-1"
    folder.mkdir(parents=True)
    return Session(room, foreground, "any", PHONES, folder, WHERE)


def scaling(bench: Session, *counts: int) -> Any:
    wish = training.ScalingWish((MODEL,), SHAPE, counts, 0, 8, 5, 1, Exchange())
    return asyncio.run(training.scaling(bench, wish))


def once(work: Callable[[], None]) -> Callable[[], None]:
    left = [work]
    return lambda: left.pop()() if left else None


def test_a_phone_lost_in_a_launch_is_left_out_and_the_launch_is_made_again(
    bench: Session, phones: Phones
) -> None:
    phones.in_the_course = once(lambda: phones.away.add("phone002"))
    found = scaling(bench, 2, 4)
    others = ("phone001", "phone003", "phone004", "phone005")
    assert phones.launched == [PHONES[:2], others[:2], others]
    assert [len(launch.ranks) for launch in found.launches] == [2, 4]
    (problem,) = found.problems
    assert "phone002 is lost; from here on without phone002" in problem
    assert training.ScalingBench.read(bench.folder / BENCH_FILE) == found


def test_a_phone_lost_between_two_launches_costs_none(bench: Session, phones: Phones) -> None:
    phones.after = once(lambda: phones.away.add("phone005"))
    found = scaling(bench, 1, 2, 5)
    assert phones.launched == [PHONES[:1], PHONES[:2]]
    assert [len(launch.ranks) for launch in found.launches] == [1, 2]
    lost, too_few = found.problems
    assert "phone005 does not answer; from here on without phone005" in lost
    assert "5 phones wanted, 4 are left" in too_few


def test_an_answer_that_cannot_be_fetched_is_a_loss_too(bench: Session, phones: Phones) -> None:
    phones.after = once(lambda: phones.away.add("phone003"))
    wish = compute.ComputeWish((MODEL,), SHAPE, (8,), (1,), 1.0)
    found = asyncio.run(compute.measure(bench, wish))
    left = ("phone001", "phone002", "phone004", "phone005")
    assert phones.launched == [PHONES, left]
    assert tuple(each.phone for each in found.phones) == left
    assert "no answer: phone003 is lost; from here on without phone003" in found.problems[0]


def test_who_fails_and_is_there_is_not_tried_again(
    bench: Session, phones: Phones, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed(_watch: Any) -> Verdict:
        return Verdict("failed", "gloo is not there", {}, None)

    monkeypatch.setattr(bench.foreground, "supervise", failed)
    wish = collectives.CollectivesWish((2,), ("gloo", "ring"), (1000,), 1)
    monkeypatch.setattr(collectives, "_goodput_mbits", no_goodput)
    found = asyncio.run(collectives.measure(bench, wish))
    assert phones.launched == [PHONES[:2], PHONES[:2]]
    assert [problem.split(": ")[1] for problem in found.problems] == ["gloo is not there"] * 2


async def no_goodput(_session: Session) -> None:
    return None


def test_where_all_phones_are_lost_the_rest_is_told_and_nothing_is_launched(
    bench: Session, phones: Phones
) -> None:
    phones.in_the_course = once(lambda: phones.away.update(PHONES))
    found = scaling(bench, 2, 4)
    assert len(phones.launched) == 1
    assert not found.launches
    assert found.problems[1:] == (
        "digits-cnn, 16 images: 2 phones wanted, 0 are left",
        "digits-cnn, 32 images: 4 phones wanted, 0 are left",
    )


def test_heat_is_measured_once_since_hot_phones_tell_nothing(
    bench: Session, phones: Phones
) -> None:
    phones.in_the_course = once(lambda: phones.away.add("phone001"))
    wish = training.ThermalWish(MODEL, SHAPE, 8, 60.0, 1, Exchange())
    found = asyncio.run(training.thermal(bench, wish))
    assert phones.launched == [PHONES]
    assert "from here on without phone001" in found.problems[0]
    phones.launched.clear()
    bench.problems.clear()
    phones.away.add("phone002")
    found = asyncio.run(training.thermal(bench, wish))
    assert phones.launched == [PHONES[2:]], "nothing had begun"
    assert found.samples_per_rank == (8, 8, 8)


def test_specs_name_the_phones_that_are_left(bench: Session, phones: Phones) -> None:
    phones.away.add("phone001")
    scaling(bench, 2)
    assert TrainingSpec.from_json(json.dumps(phones.spec)).phones == PHONES[1:3]
    wish = compute.ComputeWish((MODEL,), SHAPE, (8,), (1,), 1.0)
    asyncio.run(compute.measure(bench, wish))
    assert ComputeSpec.from_json(json.dumps(phones.spec)).phones == PHONES[1:]
    some = collectives.CollectivesWish((3,), ("ring",), (1000,), 1)
    spec = collectives._spec(bench, some, "ring", bench.phones[:3])
    assert isinstance(spec, CollectivesSpec)
    assert spec.switches == ("", "", "")
