"""termux_pkg heals what has gone wrong on a phone, or fails with the reason and leaves it sane."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from termux_packages import Upstream
from termux_prefix import ModuleFailure, Prefix, Repository

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None,
    reason="needs the apt and dpkg of a Debian host",
)

# A script of dpkg's that ends dpkg itself, once: the phone's battery has died.
KILL_DPKG_ONCE = "if rm {brake} 2>/dev/null; then kill -9 $PPID; fi"
WHOLE = "foo\t1.1\tii \n"


def versions(prefix: Prefix) -> str:
    return prefix.status("Package", "Version", "db:Status-Abbrev")


@pytest.fixture
def brake(prefix) -> Path:
    file = prefix.path / "brake"
    file.touch()
    return file


@pytest.mark.parametrize("script", ["preinst", "postinst", "prerm", "postrm"])
def test_dpkg_that_was_killed_in_any_of_a_packages_steps_is_finished(
    run_module, prefix, repository, brake, script
):
    kill = KILL_DPKG_ONCE.format(brake=brake)
    old = {script: kill} if script in ("prerm", "postrm") else {}
    repository.build("foo", "1.0", scripts=old)
    brake.rename(brake.with_name("off"))
    run_module("termux_pkg", name=["foo"], update_cache=True)
    repository.build("foo", "1.1", scripts={script: kill} if not old else {})
    brake.touch()

    with pytest.raises(ModuleFailure):
        run_module("termux_pkg", name=["foo=1.1"], update_cache=True)
    assert not brake.exists()
    run_module("termux_pkg", name=["foo=1.1"], update_cache=True)

    assert versions(prefix) == WHOLE


def test_apt_that_was_killed_half_way_is_finished(run_module, prefix, repository, brake):
    # apt is dpkg's parent; both are killed while a third program runs.
    kill = f"if rm {brake} 2>/dev/null; then kill -9 $(ps -o ppid= $PPID) $PPID; fi"
    repository.build("foo", "1.1", scripts={"postinst": kill})
    repository.build("bar", "1.0", depends="foo")
    prefix.refresh()
    apt = [prefix.path / "bin/apt-get", "-y", "install", "bar"]
    assert subprocess.run(apt, capture_output=True, check=False).returncode == -signal.SIGKILL

    result = run_module("termux_pkg", name=["bar"])

    assert "foo" in result["repaired"]
    assert versions(prefix) == "bar\t1.0\tii \n" + WHOLE


def test_a_half_installed_package_that_no_mirror_has_any_more_gives_way(
    run_module, prefix, repository, brake
):
    old = repository.build("foo", "1.0", scripts={"preinst": KILL_DPKG_ONCE.format(brake=brake)})
    with pytest.raises(ModuleFailure):
        run_module("termux_pkg", name=["foo"], update_cache=True)
    assert "foo" in subprocess.check_output([prefix.path / "bin/dpkg", "--audit"], text=True)
    old.unlink()
    repository.build("foo", "1.1")

    result = run_module("termux_pkg", name=["foo"], update_cache=True)

    assert result["repaired"] == ["foo"]
    assert versions(prefix) == WHOLE


def test_who_holds_the_lock_is_named(run_module, prefix, repository):
    repository.add("foo", "1.0")
    prefix.refresh()
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, 2); print(); input()"
    lock = prefix.path / "var/lib/dpkg/lock-frontend"
    with subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(ModuleFailure) as failure:
            run_module("termux_pkg", name=["foo"], lock_timeout=1)
        holder.send_signal(signal.SIGKILL)

    said = failure.value.result["msg"]
    assert f"process {holder.pid} (" in said
    assert "import fcntl" in said
    assert "still held the lock after 1 s" in said
    assert run_module("termux_pkg", name=["foo"])["packages"] == {"foo": "1.0"}


@pytest.mark.parametrize("damage", ["cut", "zeroes"])
def test_an_index_that_a_power_cut_has_damaged_is_fetched_anew(
    run_module, prefix, repository, damage
):
    repository.add("foo", "1.0")
    prefix.refresh()
    (lists,) = (prefix.path / "var/lib/apt/lists").glob("*Packages")
    content = lists.read_bytes()
    lists.write_bytes(content[:9] if damage == "cut" else bytes(len(content)))
    for cache in (prefix.path / "var/cache/apt").glob("*.bin"):
        cache.unlink()

    assert run_module("termux_pkg", name=["foo"])["packages"] == {"foo": "1.0"}


def test_a_mirror_that_goes_away_in_the_middle_leaves_everything_as_it_was(
    run_module, prefix, tmp_path
):
    upstream = Upstream(tmp_path / "mirror")
    for name in ("libfoo", "foo"):
        upstream.add(name, "1.0", prefix=prefix.path, depends="libfoo" if name == "foo" else "")
    arch = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    upstream.publish(arch)
    with upstream.served() as url:
        source = f"deb [trusted=yes] {url} stable main"
        (prefix.path / "etc/apt/sources.list").write_text(source + "\n")
        upstream.gone_after = len(("InRelease", "Packages", "libfoo"))
        with pytest.raises(ModuleFailure) as failure:
            run_module("termux_pkg", name=["foo"], update_cache=True)
        before = versions(prefix)
        upstream.gone_after = None
        after = run_module("termux_pkg", name=["foo"], update_cache=True)

    assert "nothing was installed" in failure.value.result["msg"]
    assert "foo_1.0_all.deb" in failure.value.result["msg"]
    assert before == ""
    assert after["packages"] == {"foo": "1.0"}


@pytest.mark.parametrize("signed", [2099], indirect=True)
def test_a_phone_whose_clock_is_before_the_mirrors_key_installs_all_the_same(run_module, signed):
    """As after a flat battery, at 1970; here it is the mirror that is from another time."""
    result = run_module("termux_pkg", name=["foo"], update_cache=True)

    assert result["packages"] == {"foo": "1.0"}


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_a_folder_for_temporary_files_that_is_gone_is_made_again(
    run_module, prefix, repository, monkeypatch, folder
):
    """Without one apt cannot verify a signature, and calls the mirror unsigned."""
    repository.add("foo", "1.0")
    monkeypatch.setenv("TMPDIR", folder)
    hook = prefix.path / "etc/apt/apt.conf.d/50-look"
    hook.parent.mkdir(exist_ok=True)
    look = f"case $TMPDIR in {prefix.path}/*) test -d $TMPDIR ;; *) false; esac"
    hook.write_text(f'APT::Update::Pre-Invoke {{ "{look}"; }};\n')

    result = run_module("termux_pkg", name=["foo"], update_cache=True)

    assert result["packages"] == {"foo": "1.0"}


@pytest.fixture
def signed(request, prefix, tmp_path) -> Iterator[Upstream]:
    """A signed mirror with one package, and the phone's sources and keyring for it; its parameter
    is the year of the key."""
    upstream = Upstream(tmp_path / "mirror", year=getattr(request, "param", None))
    upstream.add("foo", "1.0", prefix=prefix.path)
    upstream.publish(subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip())
    keyring = prefix.path / "mirror.asc"
    keyring.write_bytes(upstream.key)
    with upstream.served() as url:
        source = f"deb [signed-by={keyring}] {url} stable main"
        (prefix.path / "etc/apt/sources.list").write_text(source + "\n")
        yield upstream


def test_a_mirror_whose_key_is_another_is_named_with_the_cure(run_module, prefix, signed, tmp_path):
    (prefix.path / "mirror.asc").write_bytes(Upstream(tmp_path / "other").key)

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo"], update_cache=True)

    said = failure.value.result["msg"]
    assert "NO_PUBKEY" in said
    assert "this phone trusts another key than the mirror's" in said
    assert "site.yml -t controller,termux" in said


@pytest.mark.root
def test_a_mirror_that_cannot_be_verified_for_want_of_room_is_not_called_unsigned(
    run_module, prefix, signed
):
    temporary = prefix.path / "tmp"
    temporary.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=4k", "phonerack-test", temporary]
    subprocess.run(mount, check=True)
    try:
        (temporary / "filler").write_bytes(bytes(4096))
        with pytest.raises(ModuleFailure) as failure:
            run_module("termux_pkg", name=["foo"], update_cache=True)
    finally:
        subprocess.run(["umount", temporary], check=True)

    said = failure.value.result["msg"]
    assert f"no room for temporary files in {temporary}" in said
    assert run_module("termux_pkg", name=["foo"], update_cache=True)["packages"] == {"foo": "1.0"}


@pytest.mark.root
def test_a_phone_without_room_is_told_how_much_it_needs_before_anything_is_changed(
    run_module, small, repository
):
    repository.add("foo", "1.0", size=1_000_000)
    run_module("termux_pkg", name=["foo"], update_cache=True)
    repository.add("foo", "1.1", size=9_000_000, installed_size="30000")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo=1.1"], update_cache=True)

    said = failure.value.result["msg"]
    assert "nothing was installed: 57 MiB are needed, " in said
    assert "MiB are free on the phone" in said
    assert versions(small) == "foo\t1.0\tii \n"
    assert list((small.path / "var/cache/apt/archives").glob("*.deb")) == []


@pytest.mark.root
def test_a_phone_that_runs_out_of_space_while_unpacking_stays_sane_and_the_rerun_completes(
    run_module, small, repository
):
    repository.add("libfoo", "1.0", size=1_000_000)
    repository.add("foo", "1.0", size=1_000_000, depends="libfoo")
    run_module("termux_pkg", name=["foo"], update_cache=True)
    # The package says that it is small, or somebody else has filled the phone meanwhile.
    repository.add("libfoo", "1.1", size=1_000_000)
    repository.add("foo", "1.1", size=12_000_000, installed_size="10", depends="libfoo (>= 1.1)")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo=1.1", "libfoo=1.1"], update_cache=True)
    before = versions(small)
    subprocess.run(["mount", "-o", "remount,size=80m", small.path], check=True)
    run_module("termux_pkg", name=["foo=1.1", "libfoo=1.1"], update_cache=True)

    said = failure.value.result["msg"]
    assert "no space left on the phone: " in said
    assert "MiB are free now" in said
    assert "no package is half-way" in said
    assert all(line.endswith("ii ") for line in before.splitlines())
    assert versions(small) == WHOLE + "libfoo\t1.1\tii \n"


def test_programs_of_a_partial_upgrade_that_do_not_start_are_named_with_the_cure(
    run_module, prefix, repository
):
    repository.add("foo", "1.0")
    said = 'CANNOT LINK EXECUTABLE "apt-get": cannot locate symbol "SSL_new" referenced by "libapt"'
    prefix.script("apt-get", f"echo '{said}' >&2; exit 1")

    with pytest.raises(ModuleFailure) as failure:
        run_module("termux_pkg", name=["foo"], update_cache=True)

    assert said in failure.value.result["msg"]
    assert "full upgrade by playbooks/upgrade.yml" in failure.value.result["msg"]


def test_a_partial_upgrade_is_healed_by_the_snapshot(run_module, prefix, tmp_path):
    """A tool and its library fit in the same version only, as bionic's linker has it."""
    check = '[ "$(cat {lib})" = {version} ] || {{ echo CANNOT LINK EXECUTABLE >&2; exit 1; }}'
    lib = prefix.path / "lib/version"
    snapshots = []
    for version in ("1.0", "2.0"):
        made = Repository(tmp_path / version, prefix.path)
        program = "#!/bin/sh\n" + check.format(lib=lib, version=version)
        made.add("tool", version, depends="lib", files={"bin/tool": program})
        made.add("lib", version, files={"lib/version": version})
        snapshots.append(made)
    old, new = snapshots
    run_module("termux_pkg", name=["tool"], snapshot=old.snapshot("old"))
    prefix.source(new)
    prefix.refresh()
    run_module("termux_pkg", name=["tool=2.0"])  # somebody's `pkg install tool`
    assert subprocess.run([prefix.path / "bin/tool"], check=False).returncode == 1

    run_module("termux_pkg", name=["tool"], snapshot=new.snapshot("new"))

    assert subprocess.run([prefix.path / "bin/tool"], check=False).returncode == 0


def test_two_runs_at_once_on_one_phone_both_end_well(run_module, prefix, repository):
    repository.build("foo", "1.1", scripts={"postinst": "sleep 1"})
    repository.build("bar", "1.0")
    prefix.refresh()
    apt = [prefix.path / "bin/apt-get", "-y", "install", "foo"]
    with subprocess.Popen(apt, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        threading.Event().wait(0.3)
        run_module("termux_pkg", name=["bar"])
        assert other.wait() == 0

    assert versions(prefix) == "bar\t1.0\tii \n" + WHOLE


OLD, NEW = "lib/libtermux-exec.so", "lib/libtermux-exec-ld-preload.so"
LINKS = '[ -e "$LD_PRELOAD" ] || { echo "library $LD_PRELOAD not found" >&2; exit 1; }'


def test_what_sessions_preload_is_there_under_its_old_name_too_when_a_package_renames_it(
    run_module, prefix, repository, monkeypatch
):
    """And all that dpkg starts meanwhile preloads a file that is there, as Android insists on."""
    every = dict.fromkeys(("preinst", "postinst", "prerm", "postrm"), LINKS)
    repository.build("termux-exec", "1.0", files={OLD: "first"})
    run_module("termux_pkg", name=["termux-exec"], update_cache=True)
    monkeypatch.setenv("LD_PRELOAD", str(prefix.path / OLD))
    repository.build("termux-exec", "2.0", files={NEW: "second"}, scripts=every)
    repository.build("termux-exec", "2.1", files={NEW: "third"}, scripts=every)

    run_module("termux_pkg", name=["termux-exec=2.0"], update_cache=True)
    renamed = {name: (prefix.path / name).read_text() for name in (OLD, NEW)}
    monkeypatch.setenv("LD_PRELOAD", str(prefix.path / NEW))
    run_module("termux_pkg", name=["termux-exec=2.1"], update_cache=True)
    run_module("termux_pkg", name=["termux-exec=1.0"], update_cache=True)

    assert renamed == {OLD: "second", NEW: "second"}
    assert {name: (prefix.path / name).read_text() for name in (OLD, NEW)} == {
        OLD: "first",
        NEW: "first",
    }
    assert not list((prefix.path / "lib").glob("*.phonerack"))
