"""Files that are appended to, read while they grow."""

from __future__ import annotations

from pathlib import Path

from fleetctl.jobs.lines import Growing


def test_what_is_new_comes_once_and_only_as_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    growing = Growing(path)
    assert growing.new_lines() == []
    path.write_bytes("one\n\ncaf\N{LATIN SMALL LETTER E WITH ACUTE}".encode()[:-1])
    assert growing.new_lines() == ["one", ""]
    assert growing.new_lines() == []
    with path.open("ab") as file:
        file.write(b"\xa9\nthree\n")
    assert growing.new_lines() == ["caf\N{LATIN SMALL LETTER E WITH ACUTE}", "three"]


def test_nothing_is_read_twice_neither_from_the_disk_nor_from_a_copy_that_is_made_anew(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")
    growing = Growing(path)
    assert growing.new_lines() == ["one", "two"]
    path.write_text("on")
    assert growing.new_lines() == []
    path.write_text("XXX\nXXX\nthree\n")  # what was read is not looked at again
    assert growing.new_lines() == ["three"]
