"""A rack of the same name that another home keeps is none of ours to take down."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.rack import RackPaths
from standin import engine, lifecycle
from standin.engine import Container
from standin.enrolment import Folders
from standin.errors import StandinError


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in rack `lab`, whose containers run, in another home than ours."""
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "ours"))
    folder = RackPaths("lab", tmp_path / "theirs").dir
    record = Folders(folder / "standin").record
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    found = Container("pr-lab-phone001", "lab", "phone001", str(folder), "image", "running", 7)
    monkeypatch.setattr(engine, "containers", lambda *_: [found])
    monkeypatch.setattr(lifecycle, "require_host", lambda: None)
    return folder


def test_down_refuses_and_says_where_it_is_kept(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[str] = []
    monkeypatch.setattr(lifecycle, "_clear", lambda rack, _: cleared.append(rack) or [])

    with pytest.raises(StandinError, match=f"PHONERACK_HOME={elsewhere.parent} fleetctl"):
        lifecycle.down("lab")

    assert cleared == []
    lifecycle.down("lab", wherever=True)
    assert cleared == ["lab"]


def test_a_rack_whose_folder_is_gone_is_anybodys(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleared: list[str] = []
    monkeypatch.setattr(lifecycle, "_clear", lambda rack, _: cleared.append(rack) or [])
    Folders(elsewhere / "standin").record.unlink()

    lifecycle.down("lab")

    assert cleared == ["lab"]
