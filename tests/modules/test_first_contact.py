"""First contact's script, as role termux renders it, on a phone that has nothing or is broken."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from termux_packages import Upstream
from termux_prefix import MODULES, Prefix

pytestmark = pytest.mark.skipif(
    shutil.which("apt-get") is None or shutil.which("gpg") is None,
    reason="needs the apt and gpg of a Debian host",
)

ROLE = MODULES.parents[1] / "roles/termux"
PYTHON = f'#!/bin/sh\n[ "$(cat {{lib}})" = {{version}} ] && exec {sys.executable} "$@"\n'
UNLINKED = "echo 'CANNOT LINK EXECUTABLE \"python\": cannot locate symbol' >&2; exit 1\n"


class Phone:
    """A phone with a mirror, on which the script runs; Python needs a library of its version."""

    def __init__(self, prefix: Prefix, folder: Path, year: int | None = None) -> None:
        self.prefix = prefix
        self.home = folder / "home"
        self.home.mkdir()
        self.rack = folder / "rack"
        self.rack.mkdir()
        self.mirror = Upstream(folder / "mirror", year)
        (self.rack / "mirror.asc").write_bytes(self.mirror.key.rstrip())
        self.lib = prefix.path / "lib/version"
        self.arch = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
        self.url = ""

    def offer(self, version: str, size: int = 20_000, **scripts: str) -> None:
        """The mirror's snapshot has Python and its library in this version only."""
        for deb in self.mirror.pool.glob("*.deb"):
            deb.unlink()
        program = PYTHON.format(lib=self.lib, version=version) + UNLINKED
        below = {"prefix": self.prefix.path}
        self.mirror.add(
            *("python", version),
            **below,
            size=size,
            depends="lib",
            files={"bin/python": program},
            scripts=scripts,
        )
        self.mirror.add("lib", version, **below, files={"lib/version": version})
        for series in ("4.1.8", "5.0.11"):
            self.mirror.add("openmpi", series, **below)
        self.mirror.publish(self.arch, origin="phonerack")

    def meet(self, install: bool = True) -> dict[str, str]:
        """Run the script; what it said."""
        environment = jinja2.Environment(  # noqa: S701  a shell script, no page
            keep_trailing_newline=True, trim_blocks=True
        )
        environment.filters["quote"] = shlex.quote
        environment.filters["split"] = str.split
        environment.filters["ternary"] = lambda value, yes, no: yes if value else no
        environment.tests["search"] = lambda value, pattern: bool(re.search(pattern, value))
        text = environment.from_string((ROLE / "templates/contact.sh.j2").read_text()).render(
            _termux_install=install,
            _termux_least_room=8,
            lookup=lambda _, file, **__: Path(file).read_text(),
            rack_dir=str(self.rack),
            termux_home=str(self.home),
            termux_mirror=self.url,
            termux_packages=["python", "openmpi=4.1*"],
            termux_prefix=str(self.prefix.path),
            termux_snapshot=".",
        )
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False)
        lines = [line.partition("=") for line in done.stdout.splitlines()]
        return {key: value for key, _, value in lines}

    def packages(self) -> str:
        return self.prefix.status("Package", "Version", "db:Status-Abbrev")


@pytest.fixture
def phone(prefix: Prefix, tmp_path: Path) -> Iterator[Phone]:
    made = Phone(prefix, tmp_path)
    made.offer("1.0")
    with made.mirror.served() as url:
        made.url = url
        yield made


def is_ready(said: dict[str, str]) -> bool:
    return said.get("state") == "ready" and said["python"] == "ok"


def test_a_bare_phone_is_asked_without_being_changed_and_then_set_up(phone: Phone) -> None:
    asked = phone.meet(install=False)
    assert asked["missing"] == "package sources, python, folders, rank key"
    assert phone.packages() == ""

    assert is_ready(phone.meet())
    assert is_ready(phone.meet(install=False))


def test_a_phone_whose_clock_is_before_the_mirrors_key_is_set_up(
    prefix: Prefix, tmp_path: Path
) -> None:
    """As after a flat battery, at 1970; here it is the mirror that is from another time."""
    phone = Phone(prefix, tmp_path, year=2099)
    phone.offer("1.0")
    with phone.mirror.served() as phone.url:
        assert is_ready(phone.meet())


def test_older_packages_of_the_app_come_to_the_snapshot_with_python(phone: Phone) -> None:
    """A new Python among old libraries would not start."""
    assert is_ready(phone.meet())
    phone.offer("2.0")
    subprocess.run([phone.prefix.path / "bin/dpkg", "--purge", "python"], check=True)

    assert is_ready(phone.meet())

    assert phone.packages() == "lib\t2.0\tii \npython\t2.0\tii \n"


def test_a_python_that_a_partial_upgrade_has_broken_is_mended(phone: Phone) -> None:
    assert is_ready(phone.meet())
    phone.offer("2.0")
    apt = phone.prefix.path / "bin/apt-get"
    subprocess.run([apt, "update"], check=True, capture_output=True)
    subprocess.run([apt, "-y", "install", "lib"], check=True, capture_output=True)
    assert phone.meet(install=False)["python"].startswith("broken: CANNOT LINK EXECUTABLE")

    assert is_ready(phone.meet())


def test_a_python_that_is_gone_from_the_disk_is_installed_anew(phone: Phone) -> None:
    assert is_ready(phone.meet())
    (phone.prefix.path / "bin/python").unlink()

    assert is_ready(phone.meet())


def test_a_half_installed_python_is_finished(phone: Phone) -> None:
    brake = phone.prefix.path / "brake"
    brake.touch()
    phone.offer("1.0", preinst=f"if rm {brake} 2>/dev/null; then kill -9 $PPID; fi")
    first = phone.meet()
    assert first["python"].startswith("not installed: E: Sub-process")

    assert is_ready(phone.meet())
    assert "python\t1.0\tii " in phone.packages()


def test_an_apt_that_was_killed_is_finished(phone: Phone) -> None:
    assert is_ready(phone.meet())
    brake = phone.prefix.path / "brake"
    brake.touch()
    kill = f"if rm {brake} 2>/dev/null; then kill -9 $(ps -o ppid= $PPID) $PPID; fi"
    phone.offer("2.0", postinst=kill)
    apt = phone.prefix.path / "bin/apt-get"
    subprocess.run([apt, "update"], check=True, capture_output=True)
    killed = subprocess.run([apt, "-y", "dist-upgrade"], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    (phone.prefix.path / "bin/python").unlink()

    assert is_ready(phone.meet())
    assert phone.packages() == "lib\t2.0\tii \npython\t2.0\tii \n"


def test_a_damaged_index_is_fetched_anew(phone: Phone) -> None:
    assert is_ready(phone.meet())
    subprocess.run([phone.prefix.path / "bin/dpkg", "--purge", "python"], check=True)
    for index in (phone.prefix.path / "var/lib/apt/lists").glob("*Packages"):
        index.write_bytes(bytes(index.stat().st_size))
    for cache in (phone.prefix.path / "var/cache/apt").glob("*.bin"):
        cache.unlink()

    assert is_ready(phone.meet())


def test_sources_that_somebody_has_added_are_not_asked(phone: Phone) -> None:
    """As on a Termux that was in use, on a wire that leads to the rack only."""
    parts = phone.prefix.path / "etc/apt/sources.list.d"
    parts.mkdir()
    (parts / "x11.list").write_text("deb [trusted=yes] http://127.0.0.1:9/x11 x11 main\n")

    assert is_ready(phone.meet())


def test_the_series_of_the_rack_is_kept(phone: Phone) -> None:
    assert is_ready(phone.meet())
    apt = phone.prefix.path / "bin/apt-get"
    subprocess.run([apt, "-y", "install", "openmpi=4.1.8"], check=True, capture_output=True)
    (phone.prefix.path / "bin/python").unlink()

    assert is_ready(phone.meet())
    assert "openmpi\t4.1.8\tii " in phone.packages()


def test_sessions_can_still_start_when_the_snapshot_renames_what_termux_preloads(
    phone: Phone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Android nothing starts that preloads a missing file: neither what dpkg runs meanwhile, nor
    what a running sshd starts later."""
    below, new = {"prefix": phone.prefix.path}, "libtermux-exec-ld-preload.so"
    old = phone.prefix.path / "lib/libtermux-exec.so"
    phone.mirror.add("termux-exec", "1.0", **below, files={"lib/libtermux-exec.so": "first"})
    phone.mirror.publish(phone.arch, origin="phonerack")
    assert "preload" in phone.meet()
    apt = phone.prefix.path / "bin/apt-get"
    subprocess.run([apt, "-y", "install", "termux-exec"], check=True, capture_output=True)
    assert phone.meet()["preload"] == str(old)
    monkeypatch.setenv("LD_PRELOAD", str(old))
    links = '[ -e "$LD_PRELOAD" ] || exit 1'
    phone.offer("2.0")
    phone.mirror.add(
        *("termux-exec", "2.0"),
        **below,
        files={f"lib/{new}": "second"},
        scripts=dict.fromkeys(("preinst", "postinst"), links),
    )
    phone.mirror.publish(phone.arch, origin="phonerack")
    (phone.prefix.path / "bin/python").unlink()

    assert is_ready(phone.meet())

    assert old.read_text() == "second"
    assert phone.meet()["preload"] == str(old.with_name(new))
    assert "termux-exec\t2.0\tii " in phone.packages()


def test_a_package_that_the_mirror_has_broken_is_named(phone: Phone) -> None:
    phone.offer("2.0")
    whole = (phone.mirror.pool / "python_2.0_all.deb").read_bytes()
    (phone.mirror.pool / "python_2.0_all.deb").write_bytes(whole[:5000])

    said = phone.meet()

    assert "python_2.0_all.deb" in said["python"]
    assert "python" not in phone.packages()


def test_a_mirror_that_is_away_is_named(phone: Phone) -> None:
    phone.url = "http://127.0.0.1:9"

    assert phone.meet()["python"].startswith("not installed: E: Failed to fetch http://127.0.0.1:9")


@pytest.mark.root
def test_a_phone_that_runs_full_is_named_with_what_is_free(small: Prefix, phone: Phone) -> None:
    phone.offer("1.0", size=12_000_000)

    said = phone.meet()

    assert "No space left on device" in said["python"]
    assert "KiB are free" in said["python"]
    phone.offer("1.0")
    assert is_ready(phone.meet())
