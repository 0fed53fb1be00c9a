"""A rank's last word, where its phone has no storage left."""

import errno
from pathlib import Path

import pytest
from test_formats import a_plan

from trainer import strictjson
from trainer.files import write_atomic
from trainer.formats import Final, Progress, final_name, progress_name
from trainer.report import EVENTS, Reporter, reporting

PROGRESS = Progress("digits-1", 0, "phone001", 0.0, 7, 30, 0, 0.5, None, 0.1, 0.1, 0.1, 96)


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    """Of a rank that has told of progress, when the last block was taken."""
    reporter = Reporter(tmp_path, a_plan())
    reporter.progress(PROGRESS)
    (tmp_path / EVENTS).symlink_to("/dev/full")
    return reporter


def fill(monkeypatch: pytest.MonkeyPatch, folder: Path, *, to_the_last: bool = False) -> None:
    """Storage is full; a removed file makes room for another, unless somebody else takes it."""

    def write(path: Path, content: bytes, *, durable: bool = True) -> None:
        if to_the_last or (folder / progress_name(0)).exists():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_atomic(path, content, durable=durable)

    monkeypatch.setattr(strictjson, "write_atomic", write)


@pytest.mark.parametrize("status", ["done", "failed"])
def test_the_last_word_takes_the_place_of_progress(
    tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    fill(monkeypatch, tmp_path)
    if status == "done":
        reporter.done("ab")
    else:
        reporter.failed("checkpoint: No space left on device")
    assert Final.read(tmp_path / final_name(0)).status == status


def test_a_failure_that_cannot_be_written_down_is_said_and_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(monkeypatch, tmp_path, to_the_last=True)
    with pytest.raises(ValueError, match="the cause"), reporting(tmp_path, a_plan()):
        raise ValueError("the cause")
    assert "phone001 (rank 0): ValueError: the cause" in capsys.readouterr().err


def test_success_that_cannot_be_written_down_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, tmp_path, to_the_last=True)
    with pytest.raises(OSError, match="No space left"), reporting(tmp_path, a_plan()) as reporter:
        reporter.done("ab")
