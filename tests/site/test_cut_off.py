"""Installations that something cuts off in the middle: that phone is named, the others go on, and
the rerun completes it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_site import failure_of, recap

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = [pytest.mark.standin, pytest.mark.soak]

PROJECT = Path(__file__).resolve().parents[2]
PREFIX = "/data/data/com.termux/files/usr"
PARTIAL = f"{PREFIX}/var/cache/apt/archives/partial"
CUT, OTHER = "phone001", "phone002"
BOOT = "~/.termux/boot/phonerack"
"""What OTHER has lost, so that something is to be done there too."""

ROOM_BYTES = 100_000_000
FILLER, DPKG = f"{PREFIX}/var/filler", f"{PREFIX}/bin/dpkg"
FILLING_DPKG = f"""\
#!{PREFIX}/bin/sh
case "$*" in *--unpack*)
    for size in 64k 1k; do dd if=/dev/zero of={FILLER}.$size bs=$size 2>/dev/null; done ;;
esac
exec {DPKG}.real "$@"
"""
"""Somebody fills the phone after all have looked at its room, and before dpkg's first file."""


class Bench:
    """The two phones: one lacks iperf3, the other a file."""

    def __init__(self, rack: RackUnderTest) -> None:
        self.rack = rack

    def ssh(self, host: str, command: str, check: bool = True) -> str:
        config = str(self.rack.folder / "ssh_config")
        return self.rack.run("ssh", "-F", config, host, command, check=check).stdout

    def spoil(self) -> None:
        self.ssh(CUT, "apt-get remove -y iperf3")
        self.ssh(OTHER, f"rm {BOOT}")

    def packages(self) -> str:
        return self.ssh(CUT, r"dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n'")

    @property
    def command(self) -> tuple[str, ...]:
        both = f"{CUT},{OTHER}"
        return (
            "ansible-playbook",
            "-i",
            str(self.rack.file),
            "site.yml",
            "-t",
            "phones",
            "-l",
            both,
        )

    def others_went_on(self, output: str) -> bool:
        hosts = recap(output)
        done = (hosts[CUT]["failed"], hosts[OTHER]["failed"]) == (1, 0)
        return done and self.ssh(OTHER, f"ls {BOOT}", check=False) != ""

    def completes(self) -> bool:
        """The rerun, and the one after it has nothing to do."""
        hosts = recap(self.rack.playbook("-t", "phones", "-l", CUT).stdout)
        again = recap(self.rack.playbook("-t", "phones", "-l", CUT).stdout)
        return hosts[CUT]["changed"] > 0 and again[CUT]["changed"] == 0


@pytest.fixture
def bench(provisioned_rack: RackUnderTest) -> Bench:
    made = Bench(provisioned_rack)
    made.spoil()
    return made


@contextmanager
def slow_mirror(bench: Bench) -> Iterator[None]:
    """Packages come at a rate at which one takes longer than somebody who pulls its plug."""
    file = "/etc/nginx/conf.d/slow.conf"
    bench.ssh("services", f"echo 'limit_rate 100;' >{file} && systemctl reload nginx")
    try:
        yield
    finally:
        bench.ssh("services", f"rm {file}; systemctl restart nginx")


def test_a_mirror_that_goes_away_in_the_middle_of_a_download(bench: Bench) -> None:
    before = bench.packages()

    with (
        slow_mirror(bench),
        subprocess.Popen(
            bench.command,
            cwd=PROJECT,
            env=bench.rack.env,
            text=True,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        ) as run,
    ):
        look = ("/system/bin/busybox", "find", PARTIAL, "-name", "*.deb", "-size", "+0")
        while not bench.rack.podman(CUT, *look).stdout:
            assert run.poll() is None, run.communicate()[0][-3000:]
            time.sleep(0.2)
        # Its own way to stop would let the download come to its end.
        bench.ssh("services", "systemctl kill --signal=KILL nginx")
        said = run.communicate()[0]

    assert run.returncode == 2
    told = failure_of(said, CUT)
    assert "nothing was installed" in told
    assert "iperf3" in told
    assert bench.others_went_on(said)
    assert bench.packages() == before
    assert bench.completes()
    assert "iperf3" in bench.packages()


def test_a_phone_that_fills_up_while_packages_are_unpacked(bench: Bench) -> None:
    rack = bench.rack
    before = bench.packages()
    wrap = f"mv {DPKG} {DPKG}.real && cat >{DPKG} <<'END'\n{FILLING_DPKG}END\nchmod 700 {DPKG}"
    bench.ssh(CUT, wrap)
    rack.fleetctl("standin", "fault", CUT, f"disk-full={ROOM_BYTES // 1_000_000}m")
    try:
        run = rack.run(*bench.command, check=False, timeout=3000)
        assert run.returncode == 2
        told = failure_of(run.stdout, CUT)
        assert "no space left on the phone" in told
        assert "then rerun" in told
        assert bench.others_went_on(run.stdout)
        # What was there is there, and whole.
        kept = {line for line in bench.packages().splitlines() if "iperf3" not in line}
        assert kept >= set(before.splitlines())
    finally:
        rack.fleetctl("standin", "heal", CUT)
        rack.podman(CUT, "/system/bin/sh", "-c", f"rm -f {FILLER}.*; mv {DPKG}.real {DPKG}")
    assert bench.completes()
    assert bench.ssh(CUT, "dpkg --audit") == ""
    assert bench.ssh(CUT, "iperf3 --version").startswith("iperf 3")
