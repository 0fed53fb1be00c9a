"""The mirror against real aptly and gpg, below a throw-away folder."""

from __future__ import annotations

import fcntl
import shutil
from contextlib import suppress

import pytest
from mirror_rig import versions
from termux_packages import build, repack
from termux_prefix import ModuleFailure

pytestmark = pytest.mark.skipif(
    shutil.which("aptly") is None, reason="needs aptly: tools/setup dev installs it"
)


def test_the_folders_packages_are_served_signed_and_a_second_run_changes_nothing(mirror):
    mirror.add("foo", "1.0", architecture="aarch64")
    mirror.add("bar", "2.0")

    first = mirror.call(wanted=["foo"])
    mirror.send(first["lacking"])
    second = mirror.call(wanted=["foo"])
    third = mirror.call(wanted=["foo"])

    assert first["lacking"] == ["bar_2.0_all.deb", "foo_1.0_aarch64.deb"]
    assert first["snapshot"] is None
    assert second["changed"] is True
    assert "Package: bar" in mirror.index(second["snapshot"])
    assert versions(second) == {"foo": "1.0", "bar": "2.0"}
    assert third["changed"] is False
    assert third["lacking"] == []
    assert third["snapshot"] == second["snapshot"]
    assert "BEGIN PGP PUBLIC KEY" in third["key"]
    assert list((mirror.root / "inbox").iterdir()) == []


def test_the_racks_snapshot_stays_when_the_folder_gets_newer_versions(mirror):
    old = mirror.add("foo", "1.0")
    before = mirror.run(wanted=["foo"])
    repack(old, "1.1", mirror.packages)
    old.unlink()

    after = mirror.run(wanted=["foo"])
    again = mirror.run(wanted=["foo"])

    assert after["snapshot"] == before["snapshot"]
    assert versions(after) == {"foo": "1.0"}
    assert again["changed"] is False


def test_a_new_snapshot_has_it_and_becomes_the_racks_on_request_only(mirror):
    old = mirror.add("foo", "1.0")
    before = mirror.run(wanted=["foo"])
    repack(old, "1.1", mirror.packages)

    new = mirror.run(wanted=["foo"], take="new")
    same = mirror.run(wanted=["foo"], take="new")
    seen = mirror.run(wanted=["foo"], target=new["taken"][:15])
    moved = mirror.run(wanted=["foo"], current=new["taken"][:15])

    assert new["snapshot"] == before["snapshot"]
    assert versions(new, "taken_packages") == {"foo": "1.1"}
    assert new["changes"] == [{"name": "foo", "before": "1.0", "after": "1.1"}]
    assert same["taken"] == new["taken"]
    assert same["changed"] is False
    assert seen["changed"] is False
    assert seen["snapshot"] == before["snapshot"]
    assert versions(seen, "taken_packages") == {"foo": "1.1"}
    assert moved["snapshot"] == new["taken"]
    assert moved["changed"] is True


@pytest.mark.soak
def test_what_the_racks_snapshot_lacks_is_added_and_all_else_keeps_its_version(mirror):
    old = mirror.add("foo", "1.0")
    mirror.add("openmpi", "5.0.11")
    mirror.run(wanted=["foo"])
    repack(old, "1.1", mirror.packages)
    mirror.add("bar", "1.0", depends="libbar")
    mirror.add("libbar", "1.0")
    mirror.add("openmpi", "4.1.8")

    after = mirror.run(wanted=["foo", "bar", "openmpi=4.1*"])

    assert versions(after) == {"foo": "1.0", "bar": "1.0", "libbar": "1.0", "openmpi": "4.1.8"}
    assert "Version: 5.0.11" in mirror.index(after["snapshot"])
    assert mirror.run(wanted=["foo", "bar", "openmpi=4.1*"])["changed"] is False


def test_a_pin_chooses_among_the_series_of_a_snapshot(mirror):
    mirror.add("openmpi", "5.0.11")
    mirror.add("openmpi", "4.1.8")
    mirror.add("openmpi", "4.1.10")

    assert versions(mirror.run(wanted=["openmpi=4.1*"])) == {"openmpi": "4.1.10"}
    assert versions(mirror.run(wanted=["openmpi"])) == {"openmpi": "5.0.11"}


def test_a_package_that_nobody_has_is_named_before_phones_miss_it(mirror):
    mirror.add("openmpi", "5.0.11")

    with pytest.raises(ModuleFailure) as failure:
        mirror.run(wanted=["openmpi=4.1*", "python"])

    assert "no source has openmpi 4.1*, python" in failure.value.result["msg"]


def test_a_corrupt_package_is_named_and_reaches_no_index(mirror):
    mirror.add("foo", "1.0")
    good = mirror.run()
    deb = mirror.add("bar", "1.0")
    whole = deb.read_bytes()
    deb.write_bytes(whole[:5000])

    with pytest.raises(ModuleFailure) as failure:
        mirror.run(take="new")
    deb.write_bytes(whole)
    after = mirror.run(take="new")

    assert "bar_1.0_all.deb is corrupt" in failure.value.result["msg"]
    assert "Package: bar" not in mirror.index(good["snapshot"])
    assert "Package: bar" in mirror.index(after["taken"])


def test_the_same_version_twice_is_refused(mirror):
    deb = mirror.add("foo", "1.0")
    shutil.copy(deb, mirror.packages / "copy.deb")
    mirror.run()
    build(mirror.packages / "..", "foo", "1.0").rename(mirror.packages / "copy.deb")

    with pytest.raises(ModuleFailure) as failure:
        mirror.run(take="new")

    assert "foo_1.0_all.deb: another file of the packages folder" in failure.value.result["msg"]


@pytest.mark.soak
@pytest.mark.soak
def test_old_snapshots_go_but_never_the_racks(mirror):
    deb = mirror.add("foo", "1.0")
    racks = mirror.run()["snapshot"]
    for number in range(1, 5):
        deb = repack(deb, f"1.{number}", mirror.packages)
        last = mirror.run(take="new", keep=2)

    names = [folder.name for folder in (mirror.root / "public").iterdir()]
    pool = [file.name for file in (mirror.root / "pool").rglob("*.deb")]
    assert len(last["snapshots"]) == 3
    assert racks in last["snapshots"]
    assert sorted(names) == sorted(last["snapshots"])
    assert len(pool) == 5  # all are in the operator's folder still
    for file in mirror.packages.glob("foo_1.[123]_*"):
        file.unlink()
    mirror.run(take="new", keep=1)
    assert len([*(mirror.root / "pool").rglob("*.deb")]) == 2


@pytest.mark.soak
def test_the_racks_former_snapshot_stays_to_go_back_to(mirror):
    deb = mirror.add("foo", "1.0")
    first = mirror.run()["snapshot"]
    for number in range(1, 4):
        deb = repack(deb, f"1.{number}", mirror.packages)
        taken = mirror.run(take="new", keep=1)["taken"]
    moved = mirror.run(current=taken, keep=1)
    back = mirror.run(current=first, keep=1)

    assert moved["snapshots"] == [first, taken]
    assert back["snapshot"] == first


@pytest.mark.soak
def test_a_publish_that_was_cut_off_is_done_anew(mirror, monkeypatch, tmp_path):
    mirror.add("foo", "1.0", size=2_000_000)
    mirror.send(mirror.call()["lacking"])
    # Ends aptly while it publishes, once for each of many moments.
    real, here = shutil.which("aptly"), tmp_path / "path"
    here.mkdir()
    (here / "aptly").write_text(
        f'#!/bin/sh\ncase $2 in publish) [ "$3" = list ] || cut="timeout -s KILL $CUT";; esac\n'
        f'exec $cut {real} "$@"\n'
    )
    (here / "aptly").chmod(0o755)
    path = f"{here}:/usr/bin:/bin"
    for cut in ("0.005", "0.02", "0.04", "0.06"):
        monkeypatch.setenv("PATH", path)
        monkeypatch.setenv("CUT", cut)
        with suppress(ModuleFailure):
            mirror.call()

    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    after = mirror.call()

    assert "Package: foo" in mirror.index(after["snapshot"])
    assert len(after["snapshots"]) == 1
    assert mirror.call()["changed"] is False


@pytest.mark.parametrize("loss", ["key", "secret half", "index"])
def test_what_the_present_key_has_not_signed_is_signed_anew_old_snapshots_too(mirror, loss):
    """Else phones would call a snapshot unsigned as soon as they trust the new key."""
    old = mirror.add("foo", "1.0")
    first = mirror.run()["snapshot"]
    repack(old, "1.1", mirror.packages)
    old.unlink()
    second = mirror.run(take="new", current=None)["taken"]
    if loss == "key":
        shutil.rmtree(mirror.root.parent / "key")
    elif loss == "secret half":
        shutil.rmtree(mirror.root.parent / "key/private-keys-v1.d")
    else:
        signed = mirror.root / "public" / first / "dists/stable/InRelease"
        signed.write_text(signed.read_text().replace("Origin", "0rigin", 1))

    after = mirror.run()

    assert after["snapshot"] == first
    assert "Version: 1.0" in mirror.index(first)
    assert "Version: 1.1" in mirror.index(second)
    assert mirror.call()["changed"] is False


@pytest.mark.soak
def test_a_package_that_was_cut_on_the_mirror_comes_anew(mirror):
    mirror.add("foo", "1.0")
    mirror.add("bar", "1.0")
    snapshot = mirror.run()["snapshot"]
    (served,) = (mirror.root / "public" / snapshot).rglob("foo_*.deb")
    with served.open("r+b") as file:
        file.truncate(100)

    first = mirror.call()
    mirror.send(first["lacking"])
    second = mirror.call()

    assert first["lacking"] == ["foo_1.0_all.deb"]
    assert second["snapshot"] == snapshot
    (again,) = (mirror.root / "public" / snapshot).rglob("foo_*.deb")
    assert again.read_bytes() == (mirror.packages / "foo_1.0_all.deb").read_bytes()
    assert mirror.call()["changed"] is False


def test_check_mode_tells_and_changes_nothing(mirror):
    virgin = mirror.call(check=True)
    assert virgin["changed"] is True
    assert not mirror.root.exists()
    old = mirror.add("foo", "1.0")
    mirror.run()
    repack(old, "1.1", mirror.packages)
    old.unlink()

    check = mirror.call(check=True, take="new")
    real = mirror.run(take="new")

    assert check["taken"] is None
    assert check["changes"] == [{"name": "foo", "before": "1.0", "after": "1.1"}]
    assert real["changes"] == check["changes"]
    assert mirror.call(check=True, take="new")["changed"] is False


@pytest.mark.soak
def test_two_runs_at_once_wait_for_each_other(mirror):
    mirror.run()
    with (mirror.root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ModuleFailure) as failure:
            mirror.call(lock_timeout=0)

    assert "another run has worked on the mirror" in failure.value.result["msg"]


@pytest.mark.soak
def test_the_racks_snapshot_that_nobody_can_mend_is_named(mirror):
    old = mirror.add("foo", "1.0")
    snapshot = mirror.run()["snapshot"]
    repack(old, "1.1", mirror.packages)
    old.unlink()
    mirror.run()
    for file in (mirror.root / "pool").rglob("*_foo_1.0_all.deb"):
        file.unlink()

    with pytest.raises(ModuleFailure) as failure:
        mirror.run()
    after = mirror.run(take="new")

    assert f"snapshot {snapshot} has lost foo" in failure.value.result["msg"]
    assert versions(after) == {"foo": "1.1"}
