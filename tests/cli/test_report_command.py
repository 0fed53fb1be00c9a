"""`fleetctl report`: where the page goes, what programs get, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetctl.cli.main import cli
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError

RACK = "rack: home\nnetwork: {cidr: 192.0.2.0/24, medium: wifi}\nphones: [192.0.2.20-25]\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """One that failed at once: there is nothing to draw, so these tests are quick."""
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack = tmp_path / "rack.yml"
    rack.write_text(RACK)
    monkeypatch.setenv("PHONERACK_RACK", str(rack))
    folder = tmp_path / "home/home/runs/digits-1"
    folder.mkdir(parents=True)
    found = RunFolder(folder)
    found.record("created", phones=["phone001", "phone002"])
    found.record("ended", state="failed", reason="no free memory <on> phone001")
    return found


def fleetctl(*words: str) -> Any:
    return CliRunner().invoke(cli, words, standalone_mode=False)


@pytest.mark.parametrize("words", [(), ("digits-1",)])
def test_the_page_goes_into_the_runs_folder(run: RunFolder, words: tuple[str, ...]) -> None:
    done = fleetctl("report", *words)
    assert done.stdout == f"{run.path / 'report.html'}\n"
    assert "No rank of it ever started" in done.stderr
    assert "no free memory &lt;on&gt; phone001" in (run.path / "report.html").read_text()


def test_programs_get_the_numbers_and_where_the_page_is(run: RunFolder, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere.html"
    document = json.loads(fleetctl("report", "-o", "json", "--file", str(target)).stdout)
    assert document["schema"] == 1
    assert document["page"] == str(target)
    assert target.exists()
    assert not (run.path / "report.html").exists()
    assert document["run"]["state"] == "failed"
    assert document["digest"]["images_per_second"] is None


def test_a_copied_folder_needs_no_rack_that_knows_it(run: RunFolder, tmp_path: Path) -> None:
    copy = tmp_path / "from-a-friend" / "digits-9"
    shutil.copytree(run.path, copy)
    assert fleetctl("report", str(copy)).stdout == f"{copy / 'report.html'}\n"


def test_what_is_no_run_is_refused_with_what_to_do(run: RunFolder, tmp_path: Path) -> None:
    runs = run.path.parent
    (runs / "bench-compute-1").mkdir()
    (runs / "bench-compute-1/bench.json").write_text("{}")
    (runs / "waiting-1").mkdir()
    for name, says in (
        ("bench-compute-1", "fleetctl bench report bench-compute-1"),
        ("waiting-1", "has not begun"),
        ("nobody-1", "no run 'nobody-1'"),
        (f"{tmp_path}/none", "no folder"),
        (f"{tmp_path}/home", "is no run"),
    ):
        refused = fleetctl("report", name).exception
        assert isinstance(refused, InputError)
        assert says in str(refused)
