"""termux_pkg against real apt and dpkg with their state below a throw-away prefix."""

from __future__ import annotations

import fcntl
import shutil
import threading

import pytest
from ansible.module_utils.termux_apt import parse_plan
from termux_prefix import ModuleFailure, Prefix, Repository

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None,
    reason="needs the apt and dpkg of a Debian host",
)


def versions(prefix: Prefix) -> str:
    return prefix.status("Package", "Version", "db:Status-Abbrev")


def test_installs_with_dependencies_and_then_changes_nothing(run_module, prefix, repository):
    repository.add("libfoo", "1.0")
    repository.add("foo", "1.0", depends="libfoo")

    first = run_module("termux_pkg", name=["foo"], update_cache=True)
    second = run_module("termux_pkg", name=["foo"], update_cache=True)

    assert first["changed"] is True
    assert first["packages"] == {"foo": "1.0"}
    assert (prefix.path / "share/libfoo").exists()
    assert second == {**second, "changed": False, "changes": []}


def test_sources_that_somebody_has_added_are_neither_asked_nor_used(
    run_module, prefix, repository, tmp_path
):
    """As on a Termux that was in use: those are not there, or have other versions."""
    parts = prefix.path / "etc/apt/sources.list.d"
    parts.mkdir()
    foreign = Repository(tmp_path / "foreign", prefix.path)
    foreign.add("libfoo", "9.0")
    foreign.add("foo", "1.0.9", depends="libfoo")
    (parts / "foreign.list").write_text(f"{foreign.source}\n")
    repository.add("libfoo", "1.0")
    repository.add("foo", "1.0", depends="libfoo")
    prefix.refresh()
    lists = [file for file in (prefix.path / "var/lib/apt/lists").iterdir() if file.is_file()]
    kept = {file: file.read_bytes() for file in lists}
    (parts / "x11.list").write_text("deb [trusted=yes] copy:/nowhere x11 main\n")

    run_module("termux_pkg", name=["foo"], update_cache=True)
    for file, content in kept.items():
        file.write_bytes(content)
    moved = run_module("termux_pkg", name=["foo=1.0*"], snapshot=repository.snapshot("now"))

    assert moved["packages"] == {"foo": "1.0"}
    assert versions(prefix) == "foo\t1.0\tii \nlibfoo\t1.0\tii \n"


def test_no_archive_stays_on_the_phone(run_module, prefix, repository):
    repository.add("foo", "1.0")

    run_module("termux_pkg", name=["foo"], update_cache=True)

    assert list((prefix.path / "var/cache/apt/archives").glob("*.deb")) == []


def test_check_mode_names_what_would_come_and_touches_nothing(run_module, prefix, repository):
    repository.add("libfoo", "1.0")
    repository.add("foo", "1.0", depends="libfoo")
    prefix.refresh()

    result = run_module("termux_pkg", check=True, name=["foo"])

    assert result["changed"] is True
    assert result["diff"]["before"] == ""
    assert result["diff"]["after"] == "foo 1.0\nlibfoo 1.0\n"
    assert versions(prefix) == ""


def test_check_mode_answers_before_the_index_was_ever_fetched(run_module, prefix, repository):
    repository.add("foo", "1.0")

    result = run_module("termux_pkg", check=True, name=["foo"], update_cache=True)

    assert result["changed"] is True
    assert [change["name"] for change in result["changes"]] == ["foo"]
    assert not list((prefix.path / "var/lib/apt/lists").glob("*Packages*"))


def test_a_pinned_series_upgrades_and_goes_back(run_module, prefix, repository):
    for version in ("4.1.8", "5.0.11"):
        repository.add("openmpi", version)
    prefix.refresh()

    newer = run_module("termux_pkg", name=["openmpi=5.0*"])
    older = run_module("termux_pkg", name=["openmpi=4.1*"])
    again = run_module("termux_pkg", name=["openmpi=4.1*"])

    assert newer["packages"] == {"openmpi": "5.0.11"}
    assert older["packages"] == {"openmpi": "4.1.8"}
    assert older["diff"]["before"] == "openmpi 5.0.11\n"
    assert again["changed"] is False


def test_present_leaves_an_old_version_and_latest_upgrades_it(run_module, prefix, repository):
    repository.add("foo", "1.0")
    run_module("termux_pkg", name=["foo"], update_cache=True)
    repository.add("foo", "1.1")
    prefix.refresh()

    assert run_module("termux_pkg", name=["foo"])["changed"] is False
    assert run_module("termux_pkg", name=["foo"], state="latest")["packages"] == {"foo": "1.1"}
    assert run_module("termux_pkg", name=["foo"], state="latest")["changed"] is False


def test_absent_removes_once(run_module, prefix, repository):
    repository.add("foo", "1.0")
    run_module("termux_pkg", name=["foo"], update_cache=True)

    removed = run_module("termux_pkg", name=["foo", "never-there"], state="absent")

    assert removed["changed"] is True
    assert removed["packages"] == {"foo": None, "never-there": None}
    assert run_module("termux_pkg", name=["foo"], state="absent")["changed"] is False


def test_a_package_newer_than_the_index_is_found_by_refreshing(run_module, prefix, repository):
    repository.add("foo", "1.0")
    prefix.refresh()
    repository.add("bar", "1.0")

    result = run_module("termux_pkg", name=["bar"], update_cache=True, cache_valid_time=3600)

    assert result["packages"] == {"bar": "1.0"}


def test_a_fresh_index_is_not_fetched_again(run_module, prefix, repository):
    repository.add("foo", "1.0")
    run_module("termux_pkg", name=["foo"], update_cache=True)
    repository.add("foo", "1.1")

    options = {"name": ["foo"], "state": "latest", "update_cache": True}
    assert run_module("termux_pkg", cache_valid_time=3600, **options)["changed"] is False
    assert run_module("termux_pkg", cache_valid_time=0, **options)["changed"] is True


def test_an_unknown_package_is_named(run_module, prefix, repository):
    repository.add("foo", "1.0")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["no-such-package"], update_cache=True)

    assert "no-such-package" in failure.value.result["msg"]


def test_a_corrupt_index_fails_with_the_reason_and_keeps_the_packages(
    run_module, prefix, repository
):
    repository.add("foo", "1.0")
    run_module("termux_pkg", name=["foo"], update_cache=True)
    before = versions(prefix)
    repository.add("bar", "1.0")
    (repository.folder / "Packages").write_bytes(b"\x00garbage\nno: index\n")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["bar"], update_cache=True)

    assert "Packages" in failure.value.result["msg"]
    assert versions(prefix) == before
    repository.index()
    assert run_module("termux_pkg", name=["bar"], update_cache=True)["changed"] is True


def test_an_archive_cut_on_the_mirror_fails_before_dpkg_starts(run_module, prefix, repository):
    repository.add("libfoo", "1.0")
    deb = repository.add("foo", "1.0", depends="libfoo")
    whole = deb.read_bytes()
    prefix.refresh()
    deb.write_bytes(whole[: len(whole) // 2])

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo"])

    assert "nothing was installed" in failure.value.result["msg"]
    assert "foo" in failure.value.result["msg"]
    assert versions(prefix) == ""
    deb.write_bytes(whole)
    assert run_module("termux_pkg", name=["foo"])["packages"] == {"foo": "1.0"}


def test_an_archive_cut_before_it_was_indexed_fails_before_dpkg_starts(
    run_module, prefix, repository
):
    repository.add("libfoo", "1.0")
    deb = repository.add("foo", "1.0", depends="libfoo")
    whole = deb.read_bytes()
    deb.write_bytes(whole[: len(whole) // 2])
    repository.index()

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo"], update_cache=True)

    assert "foo_1.0_all.deb is corrupt" in failure.value.result["msg"]
    assert versions(prefix) == ""
    deb.write_bytes(whole)
    repository.index()
    again = run_module("termux_pkg", name=["foo"], update_cache=True)
    assert again["packages"] == {"foo": "1.0"}


def test_an_interrupted_dpkg_is_finished(run_module, prefix, repository):
    brake = prefix.path / "stop"
    brake.touch()
    repository.add("foo", "1.0", postinst=f"test ! -e {brake}")
    repository.add("bar", "1.0")
    with pytest.raises(ModuleFailure):
        run_module("termux_pkg", name=["foo"], update_cache=True)
    assert "iF" in versions(prefix)
    brake.unlink()

    check = run_module("termux_pkg", check=True, name=["bar"])
    result = run_module("termux_pkg", name=["bar"])

    assert check["changed"] is True
    assert check["repaired"] == ["foo"]
    assert result["repaired"] == ["foo"]
    assert versions(prefix) == "bar\t1.0\tii \nfoo\t1.0\tii \n"


def test_a_package_left_half_installed_is_fetched_again(run_module, prefix, repository):
    repository.add("foo", "1.0")
    run_module("termux_pkg", name=["foo"], update_cache=True)
    database = prefix.path / "var/lib/dpkg/status"
    half = database.read_text().replace("install ok installed", "install reinstreq half-installed")
    database.write_text(half)
    (prefix.path / "share/foo").unlink()

    result = run_module("termux_pkg", name=["foo"])

    assert result["repaired"] == ["foo"]
    assert versions(prefix) == "foo\t1.0\tii \n"
    assert (prefix.path / "share/foo").exists()


def test_waits_while_another_apt_holds_the_lock(run_module, prefix, repository, monkeypatch):
    repository.add("foo", "1.0")
    prefix.refresh()
    lock = (prefix.path / "var/lib/dpkg/lock-frontend").open("w")
    fcntl.lockf(lock, fcntl.LOCK_EX)
    # POSIX locks belong to a process, so apt (a child) sees this one; let go while it waits.
    released = threading.Timer(1.0, lock.close)
    released.start()

    result = run_module("termux_pkg", name=["foo"])

    released.join()
    assert result["packages"] == {"foo": "1.0"}


def test_a_lock_that_stays_is_named(run_module, prefix, repository):
    repository.add("foo", "1.0")
    prefix.refresh()
    with (prefix.path / "var/lib/dpkg/lock-frontend").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with pytest.raises(ModuleFailure) as failure:
            run_module("termux_pkg", name=["foo"], lock_timeout=0)

    assert "lock-frontend" in failure.value.result["msg"]
    assert "end that process or wait" in failure.value.result["msg"]


def test_the_plan_is_read_from_apts_simulation():
    text = (
        "Inst python (3.14.6 phonerack [aarch64])\n"
        "Inst openmpi [4.1.8-1] (5.0.11-1 phonerack [aarch64])\n"
        "Remv old [1:2.0]\n"
        "Conf python (3.14.6 phonerack [aarch64])\n"
    )

    plan = parse_plan(text)

    assert [(step.name, step.before, step.after) for step in plan] == [
        ("python", None, "3.14.6"),
        ("openmpi", "4.1.8-1", "5.0.11-1"),
        ("old", "1:2.0", None),
    ]


def test_a_whole_repository_gone_is_a_reason_not_a_success(run_module, prefix, repository):
    repository.add("foo", "1.0")
    shutil.rmtree(repository.folder)

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo"], update_cache=True)

    assert "index could not be refreshed" in failure.value.result["msg"]
