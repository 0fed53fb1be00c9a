"""What guard keeps: its memory over restarts and damage, its lock, its days, what persons leave."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from desk import Desk
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.guard.actions import Facts, Inputs, Outcome, Sample, Switch
from fleetctl.guard.journal import DAYS, Journal
from fleetctl.guard.kept import GuardRuns, Kept
from fleetctl.guard.layout import Layout
from fleetctl.guard.memory import Memory
from fleetctl.guard.replay import read_day, replay
from fleetctl.rack import GuardLimits, InputError, RackPaths

DAY = 86_400.0


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    made = Kept(RackPaths("lab", tmp_path))
    made.make()
    return made


def test_a_memory_comes_back_as_it_was(kept: Kept) -> None:
    desk = Desk()
    desk.lying.add("strip")
    desk.celsius |= {"phone001": 51.0, "phone002": 52.0, "phone003": 45.5}
    desk.go(30)
    assert desk.memory.orders
    kept.save(desk.memory.to_json())
    again = kept.load(desk.now)
    assert again is not None
    for order in desk.memory.orders.values():
        order.sent = order.answered = None
    for phone in desk.memory.phones.values():
        phone.asked = None
    assert again == desk.memory


def test_after_the_clock_was_set_back_all_is_as_old_as_it_was() -> None:
    desk = Desk()
    desk.celsius["phone001"] = 51.0
    desk.percent["phone002"] = desk.percent["phone003"] = 61.0
    desk.mute.add("phone003")
    desk.go(30)
    early = desk.now - DAY
    memory = Memory.from_json(desk.memory.to_json(), early)
    assert memory.now == early
    for name, phone in memory.phones.items():
        before = desk.memory.phones[name]
        assert before.sample is not None
        assert phone.sample is not None
        assert desk.now - before.heard == early - phone.heard
        assert desk.now - before.sample.time == early - phone.sample.time
    assert memory.outlets["a"].switched == desk.memory.outlets["a"].switched - DAY
    assert memory.calls["latched:phone001"].since <= early
    latch = memory.phones["phone001"].latch
    assert latch is not None
    assert latch.since <= early


def test_a_guard_whose_clock_was_set_back_hears_its_phones() -> None:
    desk = Desk()
    desk.go(30)
    desk.now -= DAY
    desk.restart()
    desk.celsius["phone001"] = 51.0
    said = desk.go(5)
    assert "phone001: latched: its battery had 51.0 °C (limit 50)" in said
    assert desk.go(600) == [], "nobody is silent"


def test_a_time_that_no_clock_ever_had_is_none() -> None:
    desk = Desk()
    desk.go(30)
    document = desk.memory.document()
    document["phones"]["phone001"]["sample"]["time"] = desk.now + DAY
    document["phones"]["phone001"]["heard"] = desk.now + DAY
    desk.memory = Memory.from_document(document, desk.now)
    desk.celsius["phone001"] = 51.0
    assert "phone001: latched: its battery had 51.0 °C (limit 50)" in desk.go(5)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"version": 9}', '{"version": 1, "now": "x"}',
     '{"version": 1, "now": 1, "phones": {"phone001": {}}, "outlets": {}}',
     '{"version": 1, "now": 1, "phones": {}, "outlets": {}, "orders": {}, "calls": {"a": 1}}',
     "[" * 100_000],
)  # fmt: skip
def test_a_damaged_memory_is_refused_by_name_and_put_aside(kept: Kept, text: str) -> None:
    file = kept.folder / "memory.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"memory\.json: it is"):
        kept.load(0)
    assert kept.put_aside().read_text() == text
    assert kept.load(0) is None


@given(st.binary(max_size=40))
def test_no_damage_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    kept = Kept(RackPaths("lab", tmp_path_factory.mktemp("kept")))
    kept.make()
    (kept.folder / "memory.json").write_bytes(data)
    with pytest.raises(InputError):
        kept.load(0)


def test_when_it_was_kept_is_told_by_this_machines_clock(kept: Kept) -> None:
    """Guard's own clock does not follow when this machine's is set."""
    assert kept.saved(1000.0) is None
    kept.save(Memory(5.0).to_json())
    os.utime(kept.folder / "memory.json", (990.0, 990.0))
    assert kept.saved(1000.0) == 990.0
    assert kept.saved(989.0) == 989.0, "it may be kept anew while it is looked at"
    assert kept.saved(900.0) == 0.0, "the clock was set back"


def test_one_guard_a_rack(kept: Kept) -> None:
    assert kept.owner() is None
    with kept.alone():
        assert kept.owner() == os.getpid()
        other = Kept(RackPaths("lab", kept.folder.parent.parent))
        with pytest.raises(GuardRuns, match=f"process {os.getpid()}"), other.alone():
            pass
    assert kept.owner() is None


def test_a_guard_starts_though_the_disk_is_full(kept: Kept) -> None:
    (kept.folder / "lock").symlink_to("/dev/full")
    with kept.alone():
        assert kept.owner() == 0, "which process it is nobody knows"


def test_what_persons_leave_is_taken_once(kept: Kept) -> None:
    kept.ask_clear("phone001", "sam", "new battery")
    (kept.folder / "clears/phone002.json").write_text("{")
    assert kept.clears() == {"phone001": "new battery (sam)"}
    assert kept.clears() == {}


def sample(moment: float, celsius: float) -> Inputs:
    return Inputs(samples={"phone001": Sample(moment, celsius, plugged=True, percent=50.0)})


def lines(folder: Path) -> list[dict[str, object]]:
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(row) for file in files for row in file.read_text().splitlines()]


def test_days_are_kept_for_a_week_each_beginning_with_the_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path, warn_celsius=40)
    memory = Memory(0)
    journal.begin(1.0, memory)
    for day in range(10):
        journal.write(day * DAY + 60, sample(day * DAY, 30.0), [], memory)
    journal.close()
    files = sorted(tmp_path.glob("*.jsonl"))
    assert len(files) == DAYS
    assert files[-1].name == "1970-01-10.jsonl"
    for file in files:
        assert "memory" in json.loads(file.read_text().splitlines()[0])


def test_samples_are_written_when_something_moves_near_the_limit_and_before_a_silence(
    tmp_path: Path,
) -> None:
    journal = Journal(tmp_path, warn_celsius=40)
    memory = Memory(0)
    journal.begin(0.0, memory)
    journal.write(1, sample(1, 30.0), [], memory)
    journal.write(2, sample(2, 30.1), [], memory)
    journal.write(3, sample(3, 30.6), [], memory)
    journal.write(4, sample(4, 39.5), [], memory)
    journal.write(5, sample(5, 39.5), [], memory)
    journal.write(6, sample(6, 30.0), [], memory)
    journal.write(7, sample(7, 30.0), [], memory)
    journal.write(8, Inputs(problems={"phone001": "no answer"}), [], memory)
    journal.write(9, Inputs(problems={"phone001": "no answer"}), [], memory)
    journal.write(30, Inputs(), [], memory)
    journal.close()
    written = [(each["time"], each.get("problem")) for each in lines(tmp_path)]
    assert written == [(0, None), (1, None), (3, None), (4, None), (5, None), (6, None),
                       (8, None), (8, "no answer"), (30, None)]  # fmt: skip


def test_decisions_outcomes_facts_and_clears_are_written_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, warn_celsius=40)
    journal.begin(0.0, Memory(0))
    facts = {"phone001": Facts("run-1", frozenset({"sam"}))}
    inputs = Inputs(
        facts=facts,
        outcomes=[Outcome("switch:a", False, "exit code 1")],
        clears={"phone001": "fine"},
    )
    journal.write(1, inputs, [Switch("a", on=False, why="hot")], Memory(1))
    journal.write(2, Inputs(facts=facts), [], Memory(2))
    journal.close()
    assert lines(tmp_path)[1:] == [
        {"time": 1, "cleared": "phone001", "why": "fine"},
        {"time": 1, "done": "switch", "of": "a", "ok": False, "said": "exit code 1"},
        {"time": 1, "facts": {"phone001": {"run": "run-1", "drains": ["sam"]}}},
        {"time": 1, "do": "switch", "outlet": "a", "on": False, "why": "hot"},
    ]


def test_a_disk_that_is_full_is_no_reason_to_stop(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "file/below", warn_celsius=40)
    (tmp_path / "file").write_text("in the way")
    journal.begin(0.0, Memory(0))
    assert journal.problem is not None
    (tmp_path / "file").unlink()
    journal.write(1, sample(1, 50.0), [], Memory(1))
    assert journal.problem is None
    journal.close()
    assert "sample" in lines(tmp_path / "file/below")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "day: it does not say how the day began; it is no log of guard"),
        ('{"time": 1}\n', "day: it does not say how the day began; it is no log of guard"),
        ("x\n", "day:1: no line of guard's log; days are in guard/log of the rack's folder"),
        ('{"time": 1}\n[]\n', "day:2: no line of guard's log"),
    ],
)
def test_what_is_no_day_of_guard_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "day"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_day(file)
    assert expected in str(caught.value)


def test_a_day_that_is_being_written_replays_up_to_its_last_whole_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, warn_celsius=40)
    journal.begin(0.0, Memory(0))
    journal.write(5, sample(5, 51.0), [], Memory(0))
    journal.write(8, Inputs(), [], Memory(0))
    journal.close()
    (file,) = tmp_path.glob("*.jsonl")
    file.write_text(file.read_text() + '{"time": 9, "pho')
    layout = Layout.of(["phone001"], {}, GuardLimits())
    kinds = [each.action.kind for each in replay(layout, read_day(file))]
    assert kinds[:1] == ["note"]
    assert {"drain", "kill", "call"} <= set(kinds)
