"""termux_pkg brings whole phones from snapshot to snapshot, by real apt and dpkg."""

from __future__ import annotations

import shutil

import pytest
from termux_prefix import ModuleFailure, Prefix, Repository

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None,
    reason="needs the apt and dpkg of a Debian host",
)


@pytest.fixture
def old(tmp_path, prefix) -> Repository:
    made = Repository(tmp_path / "old", prefix.path)
    made.add("tool", "1.0", depends="lib")
    made.add("lib", "1.0")
    made.add("other", "1.0")
    return made


@pytest.fixture
def new(tmp_path, prefix) -> Repository:
    made = Repository(tmp_path / "new", prefix.path)
    made.add("tool", "2.0", depends="lib, extra")
    made.add("lib", "2.0")
    made.add("other", "1.5")
    made.add("extra", "1.0")
    return made


def versions(prefix: Prefix) -> str:
    return prefix.status("Package", "Version", "db:Status-Abbrev")


def record(prefix: Prefix) -> str | None:
    file = prefix.path / "etc/phonerack/snapshot"
    return file.read_text() if file.exists() else None


OLD = "lib\t1.0\tii \nother\t1.0\tii \ntool\t1.0\tii \n"
NEW = "extra\t1.0\tii \nlib\t2.0\tii \nother\t1.5\tii \ntool\t2.0\tii \n"


def test_a_phone_that_stands_nowhere_is_brought_to_the_snapshot_and_then_left_alone(
    run_module, prefix, old
):
    first = run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))
    old.debs.rename(old.folder / "away")  # nobody may ask for anything now
    second = run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))

    assert first["changed"] is True
    assert first["snapshot"] == {"before": None, "after": "old"}
    assert versions(prefix) == OLD
    assert record(prefix) == "old\n"
    assert second["changed"] is False


def test_every_package_moves_up_and_comes_back_down(run_module, prefix, old, new):
    run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))

    up = run_module("termux_pkg", name=["tool"], snapshot=new.snapshot("new"))
    moved = versions(prefix)
    down = run_module("termux_pkg", name=["tool"], snapshot=old.snapshot("old"))

    assert up["snapshot"] == {"before": "old", "after": "new"}
    assert "other 1.0" in up["diff"]["before"]
    assert "other 1.5" in up["diff"]["after"]
    assert moved == NEW
    assert down["changed"] is True
    assert versions(prefix) == "extra\t1.0\tii \n" + OLD  # what no snapshot has is nobody's
    assert record(prefix) == "old\n"


@pytest.mark.soak
def test_a_series_is_kept_where_the_snapshot_has_two(run_module, prefix, old, new):
    for version in ("4.1.8", "5.0.11"):
        old.add("openmpi", version)
    for version in ("4.1.9", "5.0.12"):
        new.add("openmpi", version)
    run_module("termux_pkg", name=["openmpi=4.1*"], snapshot=old.snapshot("old"))

    moved = run_module("termux_pkg", name=["openmpi=4.1*"], snapshot=new.snapshot("new"))
    back = run_module("termux_pkg", name=["openmpi=4.1*"], snapshot=old.snapshot("old"))
    other = run_module("termux_pkg", name=["openmpi=5.0*"], snapshot=old.snapshot("old"))

    assert moved["packages"] == {"openmpi": "4.1.9"}
    assert back["packages"] == {"openmpi": "4.1.8"}
    assert other["packages"] == {"openmpi": "5.0.11"}


def test_a_series_that_the_snapshot_does_not_have_is_named(run_module, prefix, old):
    old.add("openmpi", "5.0.11")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["openmpi=4.1*"], snapshot=old.snapshot("old"))

    assert "openmpi=4.1*" in failure.value.result["msg"]
    assert record(prefix) is None


def test_a_move_that_breaks_off_is_completed_by_the_rerun(run_module, prefix, old, new):
    run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))
    brake = prefix.path / "brake"
    new.add("lib", "2.0", postinst=f"if rm {brake} 2>/dev/null; then kill -9 $PPID; fi")
    brake.touch()

    with pytest.raises(ModuleFailure):
        run_module("termux_pkg", name=["tool"], snapshot=new.snapshot("new"))
    between = record(prefix)
    after = run_module("termux_pkg", name=["tool"], snapshot=new.snapshot("new"))

    assert between is None
    assert after["changed"] is True
    assert versions(prefix) == NEW
    assert record(prefix) == "new\n"


def test_a_move_that_broke_off_can_go_back_instead(run_module, prefix, old, new):
    run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))
    new.add("lib", "2.0", postinst="exit 1")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["tool"], snapshot=new.snapshot("new"))
    run_module("termux_pkg", name=["tool"], snapshot=old.snapshot("old"))

    assert "lib" in failure.value.result["msg"]
    assert OLD in versions(prefix)
    assert record(prefix) == "old\n"


def test_a_package_of_another_version_is_brought_back_when_the_contents_are_given(
    run_module, prefix, old, new
):
    contents = [["lib", "1.0", "all"], ["other", "1.0", "all"], ["tool", "1.0", "all"]]
    snapshot = old.snapshot("old", packages=contents)
    run_module("termux_pkg", name=["tool", "other"], snapshot=snapshot)
    prefix.source(new)
    prefix.refresh()
    run_module("termux_pkg", name=["other"], state="latest")
    prefix.source(old)

    check = run_module("termux_pkg", check=True, name=["tool"], snapshot=snapshot)
    result = run_module("termux_pkg", name=["tool"], snapshot=snapshot)

    assert check["diff"]["before"] == result["diff"]["before"] == "other 1.5\n"
    assert check["diff"]["after"] == result["diff"]["after"] == "other 1.0\n"
    assert versions(prefix) == OLD
    assert record(prefix) == "old\n"


def test_check_mode_tells_every_change_and_makes_none(run_module, prefix, old, new):
    run_module("termux_pkg", name=["tool", "other"], snapshot=old.snapshot("old"))
    contents = [["lib", "2.0", "all"], ["other", "1.5", "all"], ["tool", "2.0", "all"]]

    check = run_module(
        "termux_pkg", check=True, name=["tool"], snapshot=new.snapshot("new", packages=contents)
    )

    assert check["changed"] is True
    assert check["diff"]["before"] == "lib 1.0\nother 1.0\nsnapshot old\ntool 1.0\n"
    assert check["diff"]["after"] == "lib 2.0\nother 1.5\nsnapshot new\ntool 2.0\n"
    assert versions(prefix) == OLD
    assert record(prefix) == "old\n"
    assert (prefix.path / "etc/apt/sources.list").read_text() == f"{old.source}\n"


def test_a_mirror_that_serves_other_things_than_it_said_is_found_out(run_module, prefix, old):
    contents = [["lib", "3.0", "all"], ["tool", "1.0", "all"]]

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["tool"], snapshot=old.snapshot("old", packages=contents))

    assert "lib is 1.0, not 3.0" in failure.value.result["msg"]
    assert record(prefix) is None


def test_a_mirror_at_another_address_is_taken_over(run_module, prefix, old, tmp_path):
    run_module("termux_pkg", name=["tool"], snapshot=old.snapshot("old"))
    moved = Repository.__new__(Repository)
    moved.folder = tmp_path / "elsewhere"
    shutil.copytree(old.folder, moved.folder)

    result = run_module("termux_pkg", name=["tool"], snapshot=moved.snapshot("old"))

    assert result["changed"] is True
    assert result["changes"] == []
    assert (prefix.path / "etc/apt/sources.list").read_text() == f"{moved.source}\n"
