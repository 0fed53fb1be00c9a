"""From a run's folder to its page: what it tells, and what it says is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from made_run import BEGAN, MadeRun

from fleetctl.bench.figures import Drawn
from fleetctl.bench.run import page
from fleetctl.bench.run.digest import digest, sensor, steps_of
from fleetctl.bench.run.figures import figures
from fleetctl.bench.run.happenings import MOST_ROWS, Happening, happenings, rows, together
from fleetctl.bench.run.record import RunRecord, read_run
from fleetctl.rack import InputError


def record_of(made: MadeRun) -> RunRecord:
    return read_run(made.run, made.now)


def page_of(made: MadeRun) -> tuple[list[Drawn], str]:
    """Its figures, and the page as a reader without pictures has it."""
    record = record_of(made)
    told = digest(record)
    drawn = figures(record, told)
    html = page.write_report(record, told, drawn, made.run.path / "report.html").read_text()
    assert "<script" not in html
    assert not re.search(r'(src|href)="(?!data:)', html), "the page fetches something"
    assert html.count("<img") == len(drawn)
    return drawn, re.sub(r"<[^>]*>", " ", html)


def assert_labels_lie_on_the_sheet(drawn: Sequence[Drawn]) -> None:
    for each in drawn:
        each.figure.draw_without_rendering()
        for axes in each.figure.axes:
            for label in axes.texts:
                box = label.get_window_extent()
                assert each.figure.bbox.x0 <= box.x0, f"{each.name}: {label.get_text()}"
                assert box.x1 <= each.figure.bbox.x1, f"{each.name}: {label.get_text()}"


ALL = ["learning", "throughput", "iteration", "heat-over-time", "heat-against-time", "stragglers"]


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    return MadeRun(tmp_path / "digits-1")


def recovered(made: MadeRun) -> MadeRun:
    """A run that lost phone002, went on without it, and was done."""
    made.start()
    made.iterate(60, slow="phone003")
    made.fail("phone002", "phone002 is unreachable: no route to host")
    made.again("phone002")
    made.iterate(80)
    made.end()
    return made


def test_a_run_with_everything_has_every_figure_and_tells_nothing_missing(made: MadeRun) -> None:
    recovered(made)
    made.event("energy", watt_hours=dict.fromkeys(("phone001", "phone002"), 2.0))
    drawn, text = page_of(made)
    assert [each.name for each in drawn] == [*ALL, "energy"]
    assert_labels_lie_on_the_sheet(drawn)
    assert record_of(made).missing == ()
    assert "fleetctl launch" in text
    assert "120 iterations, 11520 images" in text
    assert "energy: 4.0 Wh, of 2 of 4 phones" in text
    assert "without phone002" in text
    assert "lost: phone002 is unreachable" in text


def test_what_an_attempt_did_again_counts_once(made: MadeRun) -> None:
    record = record_of(recovered(made))
    assert [step.iteration for step in record.iterations] == list(range(1, 121))
    assert digest(record).iterations == 120
    # The second attempt did iteration 45 again: its word counts.
    assert record.iterations[44].time > record.attempts[1].began


def test_who_is_slow_is_measured_by_the_sample_and_named(made: MadeRun) -> None:
    made.start()
    made.iterate(60, slow="phone003")
    made.event("straggler", phone="phone003", fastest="phone001", of_fastest=1.6)
    told = digest(record_of(made))
    by_name = {story.phone: story for story in told.phones}
    assert by_name["phone001"].of_fastest == 1
    assert by_name["phone003"].of_fastest == pytest.approx(1.6 * 1.04, rel=0.01)
    assert by_name["phone003"].named_straggler
    assert not by_name["phone001"].named_straggler


def test_the_battery_is_told_where_a_phone_hides_its_zones(made: MadeRun) -> None:
    made.start()
    made.iterate(10)
    assert sensor(record_of(made)) == "hottest sensor"
    lines = made.run.phones_file.read_text().splitlines()
    hidden = [{**json.loads(line)} for line in lines]
    for line in hidden:
        line["hottest_celsius"] = [None, *line["hottest_celsius"][1:]]
    made.run.phones_file.write_text("".join(json.dumps(line) + "\n" for line in hidden))
    record = record_of(made)
    assert sensor(record) == "battery"
    assert steps_of(record)["phone001"][0].celsius == pytest.approx(30.2, abs=1)


def test_throttled_time_is_what_its_counter_grew_by(made: MadeRun) -> None:
    made.start()
    made.iterate(250)
    by_name = {story.phone: story for story in digest(record_of(made)).phones}
    assert by_name["phone001"].throttled_seconds == pytest.approx(5 + 500 - 300, rel=0.01)
    assert by_name["phone002"].throttled_seconds == 0


# --- what is missing ---


def going_on(made: MadeRun) -> None:
    made.start()
    made.iterate(20, heat=False)


def no_heat(made: MadeRun) -> None:
    made.start()
    made.iterate(20, heat=False)
    made.end()


def failed_at_once(made: MadeRun) -> None:
    made.event("staged", data="digits", sent_to=[], seconds=0.1)
    made.end("failed", "no free memory on phone001")


def started_and_failed(made: MadeRun) -> None:
    made.start()
    made.end("failed", "phone001 (rank 0): ImportError")


@pytest.mark.parametrize(
    ("story", "says", "names"),
    [
        (going_on, "The run is not over", ALL[:3]),
        (no_heat, "Nobody looked at its phones", ALL[:3]),
        (failed_at_once, "No rank of it ever started", []),
        (started_and_failed, "No iteration was recorded", []),
    ],
)
def test_a_page_says_what_it_cannot_show(
    made: MadeRun, story: Callable[[MadeRun], None], says: str, names: list[str]
) -> None:
    story(made)
    drawn, text = page_of(made)
    assert says in text
    # No evaluation yet in twenty iterations: learning is drawn from the loss alone.
    assert [each.name for each in drawn] == names


def test_a_command_has_heat_and_no_training(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "mine-1", job="command: [python, mine.py]\n")
    made.start(plan=False)
    for _ in range(5):
        made.now += 60
        made.look()
    made.end()
    drawn, text = page_of(made)
    assert "a command of its own" in text
    assert "python mine.py" in text
    assert [each.name for each in drawn][:1] == ["heat-over-time"]


RUBBISH = ['{"kind": "iter', "\x00\x00", "[]", "null", '{"kind": "iteration", "loss": "x"}', "{}"]


@pytest.mark.parametrize("name", ["events_file", "progress_file", "phones_file"])
@pytest.mark.parametrize("rubbish", RUBBISH)
def test_a_damaged_line_costs_that_line_and_is_said(made: MadeRun, name: str, rubbish: str) -> None:
    recovered(made)
    before = digest(record_of(made))
    path = getattr(made.run, name)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:1], rubbish, *lines[1:]]) + "\n")
    record = record_of(made)
    assert any("1 damaged line left out" in sentence for sentence in record.missing)
    assert digest(record) == before


def test_bytes_that_are_no_text_are_a_damaged_line(made: MadeRun) -> None:
    recovered(made)
    with made.run.events_file.open("ab") as file:
        file.write(b"\xff\xfe\n")
    assert "events.jsonl: 1 damaged line left out" in record_of(made).missing


@pytest.mark.parametrize("name", ["job.yml", "plan.json", "versions.json"])
@pytest.mark.parametrize("content", [None, "", "[]", "\x00"])
def test_a_file_that_is_damaged_or_gone_is_said(
    made: MadeRun, name: str, content: str | None
) -> None:
    made.start()
    made.iterate(10)
    made.end()
    (made.run.path / name).unlink()
    if content is not None:
        (made.run.path / name).write_text(content)
    missing = record_of(made).missing
    if name != "plan.json" or content is not None:
        assert any(name in sentence for sentence in missing), missing
    digest(record_of(made))


def test_a_folder_without_events_is_no_run(tmp_path: Path) -> None:
    from fleetctl.jobs.runs import RunFolder

    with pytest.raises(InputError, match="no run"):
        read_run(RunFolder(tmp_path), BEGAN)


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize("off", [90.0, -90.0, -BEGAN, 3e9])
def test_a_head_phone_with_a_wrong_clock_is_moved_and_said(
    made: MadeRun, off: float, over: bool
) -> None:
    made.clock_off = off
    made.start()
    made.iterate(30, heat=False)
    if over:
        made.end()
    record = record_of(made)
    assert any(f"about {off:+.0f} s off" in sentence for sentence in record.missing)
    (attempt,) = record.attempts
    times = [step.time for step in attempt.iterations]
    assert times == pytest.approx([attempt.began + 2 * n for n in range(1, 31)], abs=1)


def test_a_loss_that_is_no_number_is_said_and_not_drawn(made: MadeRun) -> None:
    made.start()
    made.iterate(5)
    text = made.run.progress_file.read_text().splitlines()
    last = json.loads(text[-1])
    text.append(json.dumps({**last, "iteration": 6, "loss": float("nan")}))
    made.run.progress_file.write_text("\n".join(text) + "\n")
    record = record_of(made)
    told = digest(record)
    if told.diverged_at is None:  # the format itself refuses such a line
        assert any("damaged" in sentence for sentence in record.missing)
    else:
        problems = page.document(record, told)["missing"]
        assert "The loss was no number from iteration 6 on." in problems


# --- many phones ---


def test_138_phones_become_median_spread_and_the_worst_by_name(tmp_path: Path) -> None:
    made = MadeRun(tmp_path / "big-1", 138)
    made.start()
    made.iterate(60, slow="phone077")
    for phone in made.phones[:48]:
        made.event("connection-lost", phone=phone)
    made.end()
    made.event("energy", watt_hours=dict.fromkeys(made.phones, 1.5))
    record = record_of(made)
    told = digest(record)
    drawn = figures(record, told)
    assert_labels_lie_on_the_sheet(drawn)
    by_name = {each.name: each.figure for each in drawn}
    for figure in by_name.values():
        assert all(len(axes.texts) <= 8 for axes in figure.axes), "more names than can be read"
    named = {text.get_text() for text in by_name["stragglers"].axes[0].texts}
    assert "phone077" in named
    (phones,) = [s.tables[0] for s in page.sections(record, told, []) if s.name == "Phones"]
    assert len(phones.rows) == page.MOST_PHONES
    assert phones.rows[0][0] == "phone077"
    broken = [each for each in happenings(record.events) if each.text == "its connection broke"]
    assert [len(each.phones) for each in broken] == [48]
    assert len((made.run.path / "phones.jsonl").read_bytes()) < 12 * 10_000


# --- events ---


def test_events_are_told_in_words_with_what_changed(made: MadeRun) -> None:
    found = happenings(record_of(recovered(made)).events)
    kinds = [each.kind for each in found]
    assert kinds == ["start", "start", "lost", "end", "recovery", "plan", "start", "end", "end"]
    texts = [each.text for each in found]
    assert "attempt 2 went on from iteration 40 on 3: phone[001,003-004]" in texts
    assert "the plan changed, 4 to 3 phones: without phone002" in texts


def test_a_long_list_of_events_says_what_it_leaves_out() -> None:
    many = [Happening(float(n), "slow", f"{n}") for n in range(500)]
    told = rows(many, 0.0)
    assert len(told) == MOST_ROWS + 1
    assert told[MOST_ROWS // 2][3] == "440 more, in events.jsonl"


def test_only_what_happens_at_the_same_time_is_told_together() -> None:
    apart = [Happening(t, "lost", "x", (f"phone00{n}",)) for n, t in enumerate([0.0, 1.0, 60.0])]
    assert [each.phones for each in together(apart)] == [("phone000", "phone001"), ("phone002",)]


def test_every_kind_of_event_that_the_house_writes_can_be_told() -> None:
    """A new one shows up here: it needs words, or a place among those that are not told."""
    from fleetctl.bench.run.happenings import _WORDS

    project = Path(__file__).resolve().parents[2]
    written = {
        kind
        for path in (project / "fleetctl").rglob("*.py")
        for kind in re.findall(r"\.record\(\s*\"([a-z-]+)\"", path.read_text())
    }
    assert len(written) > 15
    # Told by the events around them, or as one.
    assert written - set(_WORDS) == {"noticed", "attempt", "checkpoint"}
    for kind in set(_WORDS) - {"created", "attempt-ended", "ended", "energy"}:
        (told,) = happenings([{"kind": kind, "time": 1.0}])
        assert told.text


def test_the_document_for_programs_is_json(made: MadeRun) -> None:
    record = record_of(recovered(made))
    document = json.loads(json.dumps(page.document(record, digest(record))))
    assert document["digest"]["iterations"] == 120
    assert [phone["phone"] for phone in document["digest"]["phones"]][:2] == [
        "phone001",
        "phone002",
    ]
