"""The operator's own metrics: what is shown of them, and what is refused, with the reason."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest, write_to_textfile
from prometheus_client.parser import text_string_to_metric_families

from exporters.collector import registry
from exporters.sampler import Sampler
from exporters.sources import Layout, Source
from exporters.sources.textfile import LARGEST_BYTES, MOST_FILES, MOST_VALUES, textfiles

REFUSED = "phonerack_textfile_refused"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "phonerack/textfile").mkdir(parents=True)
    return tmp_path / "phonerack/textfile"


def page(folder: Path) -> dict[str, float]:
    """What a scrape makes of the page: sample (with its label values) -> value."""
    layout = Layout(folder, folder.parents[1])
    sampler = Sampler([Source("textfile", lambda: list(textfiles(layout)))])
    sampler.tick()
    text = generate_latest(registry(lambda: sampler.snapshot)).decode()
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def refusals(folder: Path) -> list[str]:
    return [name for name in page(folder) if name.startswith(REFUSED)]


def test_what_prometheus_own_client_writes_is_shown_with_its_age(folder: Path) -> None:
    own = CollectorRegistry()
    Gauge("shelf_celsius", "Of the shelf.", ["level"], registry=own).labels("3").set(21.5)
    Counter("door_openings_total", "Of the door.", registry=own).inc(4)
    write_to_textfile(str(folder / "shelf.prom"), own)
    text = (folder / "shelf.prom").read_text()
    kept = [line for line in text.splitlines() if "_created" not in line]
    (folder / "shelf.prom").write_text("\n".join(kept) + "\n")
    os.utime(folder / "shelf.prom", (1000, 1000))
    found = page(folder)
    assert found["shelf_celsius 3"] == 21.5
    assert found["door_openings_total"] == 4
    assert found["phonerack_textfile_modified_timestamp_seconds shelf.prom"] == 1000
    assert found["phonerack_collector_success textfile"] == 1
    assert refusals(folder) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a 1", "no newline"),
        ("a 1\nb", "no newline"),
        ("", "no newline"),
        ("# TYPE a gauge\na 1 1700000000000\n", "timestamp"),
        ("# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\na 2\n", "twice"),
        ("a 1\na 2\n", "twice"),
        ('a{x="1"} 1\na{y="1"} 1\n', "different labels"),
        ("phonerack_battery_charge_ratio 1\n", "name of ours"),
        ('# TYPE h histogram\nh_bucket{le="1"} 1\nh_sum 1\nh_count 1\n', "more than gauges"),
        ("<html>\n", "text format"),
        ("a one\n", "text format"),
        ('a{x="1 1\n', "text format"),
        ("a 1\n" * 20_000, ""),
        ("".join(f"a{n} 1\n" for n in range(MOST_VALUES + 1)), "more than"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason_and_the_others_are_shown(
    folder: Path, text: str, why: str
) -> None:
    (folder / "a-bad.prom").write_text(text)
    (folder / "good.prom").write_text("good 1\n")
    (refusal,) = refusals(folder)
    assert why in refusal
    assert "a-bad.prom" in refusal
    found = page(folder)
    assert found["good"] == 1
    assert not any(name == "a" or name.startswith(("a ", "a1")) for name in found)


def test_bytes_pipes_folders_and_other_names_do_no_harm(folder: Path) -> None:
    (folder / "bytes.prom").write_bytes(b"\xff\xfe\x00\n")
    os.mkfifo(folder / "pipe.prom")
    (folder / "folder.prom").mkdir()
    (folder / "note.txt").write_text("not 1\n")
    assert refusals(folder) == [f"{REFUSED} bytes.prom it cannot be read as text"]
    assert page(folder)["phonerack_collector_success textfile"] == 1


def test_of_a_file_of_gigabytes_no_more_is_read_than_may_be_shown(folder: Path) -> None:
    with (folder / "a-huge.prom").open("wb") as file:
        file.truncate(1 << 40)  # without a block of its own, and more than any memory
    (folder / "good.prom").write_text("good 1\n")
    tracemalloc.start()
    try:
        found = page(folder)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["good"] == 1
    (refusal,) = refusals(folder)
    assert refusal == f"{REFUSED} a-huge.prom more than {LARGEST_BYTES} bytes"
    assert most < 16e6


def test_a_file_may_be_as_long_as_the_limit_and_no_longer(folder: Path) -> None:
    line = "a 1\n"
    (folder / "a.prom").write_text("#" * (LARGEST_BYTES - len(line) - 1) + f"\n{line}")
    assert page(folder)["a"] == 1
    (folder / "a.prom").write_text("#" * (LARGEST_BYTES - len(line)) + f"\n{line}")
    assert refusals(folder) == [f"{REFUSED} a.prom more than {LARGEST_BYTES} bytes"]


def test_one_name_in_two_files_is_shown_once(folder: Path) -> None:
    (folder / "a.prom").write_text("same 1\n")
    (folder / "b.prom").write_text("same 2\n")
    assert page(folder)["same"] == 1
    assert refusals(folder) == [f"{REFUSED} b.prom a metric of it is in another file, too"]


def test_a_flood_of_files_ends(folder: Path) -> None:
    for number in range(200):
        (folder / f"{number:03}.prom").write_text(f"m{number} 1\n")
    found = page(folder)
    assert [name for name in found if name.startswith("m")] == [f"m{n}" for n in range(MOST_FILES)]
    assert len(refusals(folder)) == 1


def test_a_value_that_is_no_number_is_absent(folder: Path) -> None:
    (folder / "a.prom").write_text("one 1\nnot NaN\nmuch +Inf\n")
    found = page(folder)
    assert found["one"] == 1
    assert not {"not", "much"} & set(found)


def test_no_folder_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "phonerack/textfile").mkdir(parents=True)
    (tmp_path / "phonerack/textfile").rmdir()
    assert page(tmp_path / "phonerack/textfile")["phonerack_collector_success textfile"] == 1
