"""From a bench's document to tables, figures, the page and the rack's profile."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import PHONES, collectives, compute, scaling, thermal

from fleetctl.bench import page, profile
from fleetctl.bench.document import BENCH_FILE, Bench, read_bench
from fleetctl.bench.figures import draw_goodput, figures
from fleetctl.bench.heat_figure import binned
from fleetctl.bench.links import Spread
from fleetctl.bench.plotting import apart, render
from fleetctl.bench.scaling import points, relative
from fleetctl.bench.tables import seconds, size, tables
from fleetctl.bench.thermal import slowdowns
from fleetctl.rack import InputError
from trainer.formats import RackProfile

BENCHES = [collectives(), compute(), scaling(), thermal()]
KINDS = [bench.kind for bench in BENCHES]
STEPS = thermal().ranks[0].steps


@pytest.mark.parametrize("bench", BENCHES, ids=KINDS)
def test_a_bench_comes_back_from_its_file(bench: Bench, tmp_path: Path) -> None:
    bench.write(tmp_path / BENCH_FILE)
    assert read_bench(tmp_path) == bench


def test_a_folder_that_is_no_bench_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no bench"):
        read_bench(tmp_path)
    (tmp_path / BENCH_FILE).write_text('{"kind": "compute"}')
    with pytest.raises(InputError, match="missing"):
        read_bench(tmp_path)
    (tmp_path / BENCH_FILE).write_text("[]")
    with pytest.raises(InputError, match="is not what"):
        read_bench(tmp_path)


@pytest.mark.parametrize("bench", BENCHES, ids=KINDS)
def test_tables_are_as_wide_as_their_columns(bench: Bench) -> None:
    found = tables(bench)
    assert found
    for table in found:
        assert all(len(row) == len(table.columns) for row in table.rows), table.title


def test_a_table_says_how_far_from_the_bound_a_method_is() -> None:
    rows = tables(collectives())[0].rows
    # 4 phones, 10 MB, 25 MB/s: the bound is 0.6 s, the ring's six steps add 6 ms.
    (ring,) = [r for r in rows if r[:4] == ("all-reduce", 4, "10 MB", "ring")]
    assert ring[6] == "1.01"
    (mpi,) = [r for r in rows if r[:4] == ("all-reduce", 4, "10 MB", "mpi")]
    assert mpi[6] == "2.02"


@pytest.mark.parametrize("bench", BENCHES, ids=KINDS)
def test_every_label_lies_on_the_sheet(bench: Bench) -> None:
    drawn = figures(bench)
    assert drawn
    for each in drawn:
        each.figure.draw_without_rendering()
        sheet = each.figure.bbox
        for axes in each.figure.axes:
            for text in axes.texts:
                box = text.get_window_extent()
                assert sheet.x0 <= box.x0, f"{each.name}: {text.get_text()}"
                assert box.x1 <= sheet.x1, f"{each.name}: {text.get_text()}"


def test_a_figure_is_the_same_every_time() -> None:
    bench = thermal()
    first, again = ([render(d.figure, "svg") for d in figures(bench)] for _ in range(2))
    assert first == again


def test_the_goodput_figure_names_every_series() -> None:
    wired = [Spread(2, 940, 1, 1), Spread(8, 935, 4, 4)]
    shared = [Spread(2, 200, 1, 1), Spread(8, 40, 20, 4)]
    drawn = draw_goodput({"wired": wired, "wifi <air>": shared})
    (axes,) = drawn.axes
    assert {text.get_text() for text in axes.texts} == {"wired", "wifi <air>"}
    assert axes.get_ylabel() == "Mb/s a flow"
    with pytest.raises(ValueError, match="nothing"):
        draw_goodput({"none": []})


def test_devices_stand_side_by_side() -> None:
    (drawn,) = figures(compute(), [compute("NVIDIA X"), scaling()])
    handles = drawn.figure.legends[0].get_texts()
    assert {text.get_text() for text in handles} == {
        "SM-G975F, 4 threads",
        "SM-G973F, 4 threads",
        "NVIDIA X, 4 threads",
    }


class Outside(HTMLParser):
    """All that a browser would fetch, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.text = io.StringIO()

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.text.write(data)


@pytest.mark.soak
def test_the_page_needs_nothing_but_itself_and_hides_no_markup(tmp_path: Path) -> None:
    path = page.write(BENCHES, [f"bench-{kind}-1" for kind in KINDS], tmp_path / "report.html")
    text = path.read_text()
    reader = Outside()
    reader.feed(text)
    assert len(reader.sources) == 10
    assert all(source.startswith("data:image/svg+xml;base64,") for source in reader.sources)
    assert "<failed>" not in text
    said = reader.text.getvalue()
    for words in ("run-3: <failed> & gone", "fleetctl bench <all> & more", "0123456789ab+"):
        assert words in said
    assert "phone[002-004]: SM-G973F" in said
    assert not re.search(r"https?://", text)


def test_figures_are_written_as_files(tmp_path: Path) -> None:
    page.write_figures([thermal()], ["bench-thermal-1"], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig7-heat.png", "fig7-heat.svg"]


def test_the_profile_keeps_the_newest_of_each_kind(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        profile.keep(collectives(), tmp_path / name, tmp_path)
        profile.keep(compute(), tmp_path / name, tmp_path)
    kept = RackProfile.read(tmp_path / profile.PROFILE_FILE)
    assert [(link.method, link.run) for link in kept.links] == [("ring", "second")]
    assert kept.links[0].alpha_seconds == 1e-3
    assert [each.phone for each in kept.compute] == list(PHONES)
    assert {each.run for each in kept.memory} == {"second"}
    assert kept.memory[0].largest_batch == 96


def test_a_bench_of_heat_adds_nothing_to_the_profile(tmp_path: Path) -> None:
    profile.keep(thermal(), tmp_path, tmp_path)
    assert not (tmp_path / profile.PROFILE_FILE).exists()


def test_scaling_is_judged_against_the_fewest_phones() -> None:
    found = points(scaling().launches)
    gains = {(p.mode, p.phones): relative(p, found) for p in found}
    # A batch of 8 each: 0.4 s alone, 0.4 + 0.1 s with others.
    assert gains["phone", 1].efficiency == pytest.approx(1)
    assert gains["phone", 4].efficiency == pytest.approx(0.4 / 0.5)
    assert gains["phone", 4].speed_up == pytest.approx(4 * 0.4 / 0.5)
    # 8 in all: 0.1 + 0.1 s on four phones instead of 0.4 s on one.
    assert gains["global", 4].speed_up == pytest.approx(2)
    assert gains["global", 4].efficiency == pytest.approx(0.5)


def test_heat_is_told_by_compute_and_not_by_waiting() -> None:
    found = {each.phone: each for each in slowdowns(thermal().ranks)}
    assert found["phone001"].slower_by == pytest.approx(0)
    assert found["phone004"].slower_by == pytest.approx(0.9, abs=0.15)
    assert found["phone004"].hot_celsius > found["phone004"].cool_celsius


@given(st.lists(st.floats(0, 1000), max_size=12), st.floats(0.1, 50))
def test_labels_move_apart_and_keep_their_order(wanted: list[float], gap: float) -> None:
    places = apart(wanted, gap)
    ordered = sorted(zip(wanted, places, strict=True))
    for (low, a), (high, b) in pairwise(ordered):
        assert b >= a - 1e-6 if low == high else b - a >= gap - 1e-6
    if all(b - a > gap for a, b in pairwise(sorted(wanted))):
        assert places == pytest.approx(wanted), "what does not collide stays"
    if wanted:
        assert sum(places) == pytest.approx(sum(wanted), abs=1e-3), "nobody is favoured"


@given(st.integers(1, 300), st.integers(1, 60))
def test_parts_of_a_long_run_hold_every_step_once(count: int, most: int) -> None:
    steps = STEPS * 2
    steps = steps[:count]
    parts = binned(sorted(steps, key=lambda step: step.time), steps[0].time, most)
    assert sum(len(each) for _, each in parts) == count
    assert len(parts) <= most


@pytest.mark.parametrize(
    ("value", "shown"),
    [(123.4, "123 s"), (1.5, "1.5 s"), (0.0123, "12.3 ms"), (4.2e-5, "42 µs"), (0.0, "0 µs")],
)
def test_times_are_shown_in_the_unit_that_fits(value: float, shown: str) -> None:
    assert seconds(value) == shown


def test_sizes_are_decimal() -> None:
    assert [size(v) for v in (999, 1000, 37.5e6, 2.5e9)] == ["999 B", "1 kB", "37.5 MB", "2.5 GB"]
