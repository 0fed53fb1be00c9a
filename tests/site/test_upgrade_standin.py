"""New packages come to the phones by canary and waves, and go back when they do not work."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from termux_packages import PREFIX, repack
from test_site import PHONES, recap

pytestmark = pytest.mark.standin

NEW = "+next"
EVERYBODY = '{"upgrade_waves": ["100%"]}'
PROJECT = Path(__file__).resolve().parents[2]


class Upgrader:
    """playbooks/upgrade.yml on the shared rack, whose packages folder is put back afterwards."""

    def __init__(self, rack: Any) -> None:
        self.rack = rack
        self.folder: Path = rack.folder / "packages"
        self.first = self.snapshot

    @property
    def snapshot(self) -> str:
        text: str = (self.rack.folder / "mirror.snapshot").read_text()
        return text.strip()

    @contextmanager
    def renewed(self, name: str, change: Any = None) -> Iterator[None]:
        """Another version of a package in the place of the one there."""
        (deb,) = self.folder.glob(f"{name}*.deb")
        new = repack(deb, deb.name.split("_")[1] + NEW, self.folder, change)
        aside = deb.rename(self.rack.folder / deb.name)
        try:
            yield
        finally:
            new.unlink()
            aside.rename(deb)

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done: subprocess.CompletedProcess[str] = self.rack.run(
            *("ansible-playbook", "-i", str(self.rack.file), "playbooks/upgrade.yml"),
            *arguments,
            check=check,
            timeout=3000,
        )
        return done

    def versions(self, name: str) -> dict[str, str]:
        """Version of a package by phone."""
        show = (f"{PREFIX}/bin/dpkg-query", "-W", "-f", "${Version}", name)
        return {phone: self.rack.podman(phone, *show).stdout for phone in PHONES}

    def standing(self) -> dict[str, str]:
        record = f"{PREFIX}/etc/phonerack/snapshot"
        return {
            phone: self.rack.podman(phone, "/system/bin/cat", record).stdout.strip()
            for phone in PHONES
        }

    def states(self) -> dict[str, str]:
        return {row["name"]: row["state"] for row in self.rack.fleetctl_json("status")["phones"]}

    def ssh(self, phone: str, command: str) -> None:
        self.rack.run("ssh", "-F", str(self.rack.folder / "ssh_config"), phone, command)


@pytest.fixture(scope="module")
def upgrader(provisioned_rack: Any) -> Iterator[Upgrader]:
    made = Upgrader(provisioned_rack)
    yield made
    if made.snapshot != made.first:
        # Of equal contents, whatever has become of the first one.
        made.run("-e", EVERYBODY)


def without_mpirun(root: Path) -> None:
    program = root / PREFIX.relative_to("/") / "bin/mpirun"
    program.unlink()
    program.write_text(f"#!{PREFIX}/bin/sh\necho CANNOT LINK EXECUTABLE >&2; exit 1\n")
    program.chmod(0o755)


@pytest.mark.soak
def test_a_canary_that_fails_goes_back_and_all_others_are_untouched(upgrader: Upgrader) -> None:
    before, states = upgrader.versions("openmpi"), upgrader.states()

    with upgrader.renewed("openmpi_5.0", without_mpirun):
        run = upgrader.run(check=False)

    said = " ".join(run.stdout.split())
    assert run.returncode == 2
    assert "phone001: mpirun does not run: CANNOT LINK EXECUTABLE" in said
    assert f"went back to {upgrader.first}" in said
    assert "phone[002-006]: untouched" in said
    assert {host: counts["changed"] for host, counts in recap(run.stdout).items()}["phone002"] == 0
    assert upgrader.versions("openmpi") == before
    assert upgrader.standing() == dict.fromkeys(PHONES, upgrader.first)
    assert upgrader.snapshot == upgrader.first
    assert upgrader.states() == states


@pytest.mark.soak
def test_a_part_of_the_rack_moves_by_itself_and_comes_back(upgrader: Upgrader) -> None:
    rack, part = upgrader.rack, ["phone001", "phone002"]
    before = upgrader.versions("iperf3")
    rack.fleetctl("drain", "phone002", "--why", "swollen")
    try:
        with upgrader.renewed("iperf3_"):
            upgrader.run("-l", ",".join(part))
        states = {row["name"]: row["state"] for row in rack.fleetctl_json("status")["phones"]}
    finally:
        rack.fleetctl("undrain", "phone002")

    moved = {name: version + NEW for name, version in before.items() if name in part}
    assert upgrader.versions("iperf3") == {**before, **moved}
    assert [name for name, state in states.items() if state == "drained"] == ["phone002"]
    assert upgrader.snapshot == upgrader.first

    upgrader.ssh("phone004", "apt-get remove -y rsync")
    drift = rack.fleetctl("check", "packages", check=False)
    assert drift.returncode == 3
    old = before["phone001"]
    assert f"phone[001-002]: iperf3 {old}{NEW} instead of {old}" in drift.stdout
    assert "phone004: rsync missing instead of" in drift.stdout
    assert f"playbooks/upgrade.yml -e upgrade_to={upgrader.first}" in drift.stderr

    upgrader.run("-e", f"upgrade_to={upgrader.first}", "-e", EVERYBODY)
    assert upgrader.versions("iperf3") == before
    assert rack.fleetctl_json("check", "packages")["findings"] == []


@pytest.mark.soak
def test_a_good_snapshot_comes_to_all_and_the_rack_goes_back_by_hand(upgrader: Upgrader) -> None:
    before = upgrader.versions("iperf3")["phone001"]
    with upgrader.renewed("iperf3_"):
        check = upgrader.run("-C", "-D")
        assert f"+iperf3 {before}{NEW}" in check.stdout
        assert upgrader.versions("iperf3") == dict.fromkeys(PHONES, before)
        upgrader.run()
    assert upgrader.versions("iperf3") == dict.fromkeys(PHONES, before + NEW)
    assert upgrader.standing() == dict.fromkeys(PHONES, upgrader.snapshot)
    assert upgrader.snapshot != upgrader.first
    assert recap(upgrader.rack.playbook("-t", "termux").stdout)["phone001"]["changed"] == 0

    upgrader.run("-e", f"upgrade_to={upgrader.first}")
    assert upgrader.versions("iperf3") == dict.fromkeys(PHONES, before)
    assert upgrader.snapshot == upgrader.first


LISTENER = """
for place in /proc/[0-9]*; do
    tr '\\0' ' ' <$place/cmdline 2>/dev/null | grep -q 'sshd.*[l]istener' || continue
    echo "${place#/proc/} $(grep -c 'usr/.*(deleted)' $place/maps)"
done
"""


@pytest.mark.soak
def test_an_upgraded_sshd_is_run_at_once_and_no_session_is_cut(upgrader: Upgrader) -> None:
    """The listener's process stays and runs the new program; who is logged in stays so."""

    def listener() -> list[str]:
        said = upgrader.rack.run(*config, "phone002", LISTENER).stdout.split()
        assert len(said) == 2, said
        return said

    # As the app's user, who may look into its own processes; each time by a connection of its own.
    config = ("ssh", "-F", str(upgrader.rack.folder / "ssh_config"), "-o", "ControlPath=none")
    before = listener()
    assert before[1] == "0"
    with subprocess.Popen(
        [*config, "phone002", "echo in; cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=upgrader.rack.env,
    ) as session:
        assert session.stdin
        assert session.stdout
        assert session.stdout.readline() == "in\n"
        with upgrader.renewed("openssh_"):
            upgrader.run("-l", "phone002")
        assert listener() == before
        session.stdin.write("still there\n")
        session.stdin.close()
        assert session.stdout.read() == "still there\n"
    assert upgrader.versions("openssh")["phone002"].endswith(NEW)
    upgrader.run("-l", "phone002", "-e", f"upgrade_to={upgrader.first}")
    assert listener() == before


def with_a_renamed_preload(root: Path) -> None:
    library = root / PREFIX.relative_to("/") / "lib/libtermux-exec.so"
    library.rename(library.with_name("libtermux-exec-ld-preload.so"))


@pytest.mark.soak
def test_a_package_that_renames_what_sessions_preload_locks_nobody_out(upgrader: Upgrader) -> None:
    """There, through a reboot, and back: each time by connections of their own."""
    rack, before = upgrader.rack, upgrader.versions("termux-exec")
    config = ("ssh", "-F", str(rack.folder / "ssh_config"), "-o", "ControlPath=none")

    def preloaded() -> set[str]:
        said = {rack.run(*config, phone, "env | grep ^LD_PRELOAD=").stdout for phone in PHONES}
        return {line.strip() for line in said}

    ours = f"LD_PRELOAD={PREFIX}/lib/libphonerack_exec.so:{PREFIX}/lib/libphonerack_hostname.so"
    assert preloaded() == {ours}
    with upgrader.renewed("termux-exec_", with_a_renamed_preload):
        upgrader.run()
    assert upgrader.versions("termux-exec") == {name: v + NEW for name, v in before.items()}
    assert preloaded() == {ours}
    rack.fleetctl("standin", "fault", "phone002", "reboot")
    rack.fleetctl("standin", "heal", "phone002")
    assert recap(rack.playbook("-t", "phones").stdout)["phone002"]["unreachable"] == 0
    assert preloaded() == {ours}

    upgrader.run("-e", f"upgrade_to={upgrader.first}")

    assert upgrader.versions("termux-exec") == before
    assert preloaded() == {ours}
    assert {row["state"] for row in rack.fleetctl_json("status")["phones"]} == {"ready"}


def braked(root: Path) -> None:
    """Its installation fails on phones that have the file `brake`."""
    script = root / "DEBIAN/postinst"
    script.write_text(f"#!{PREFIX}/bin/sh\n[ ! -e {PREFIX}/brake ]\n")
    script.chmod(0o755)


@pytest.mark.soak
def test_too_many_failures_in_a_wave_bring_everybody_back(upgrader: Upgrader) -> None:
    before = upgrader.versions("iperf3")
    upgrader.ssh("phone004", f"touch {PREFIX}/brake")
    try:
        with upgrader.renewed("iperf3_", braked):
            run = upgrader.run("-e", EVERYBODY, check=False)
    finally:
        upgrader.ssh("phone004", f"rm {PREFIX}/brake")

    said = " ".join(run.stdout.split())
    assert run.returncode == 2
    assert "stopped: 1 of 5 phones failed (phone004:" in said
    assert upgrader.versions("iperf3") == before
    assert upgrader.standing() == dict.fromkeys(PHONES, upgrader.first)
    assert upgrader.rack.fleetctl("check", "packages").returncode == 0


@pytest.mark.soak
def test_one_failure_that_can_be_borne_goes_back_alone_and_stays_drained(
    upgrader: Upgrader,
) -> None:
    rack, before = upgrader.rack, upgrader.versions("iperf3")
    upgrader.ssh("phone004", f"touch {PREFIX}/brake")
    with upgrader.renewed("iperf3_", braked):
        run = upgrader.run(
            *("-e", EVERYBODY, "-e", "upgrade_max_failed_percentage=30"), check=False
        )
    after = upgrader.versions("iperf3")
    drained = [
        row["name"] for row in rack.fleetctl_json("status")["phones"] if row["state"] == "drained"
    ]
    upgrader.ssh("phone004", f"rm {PREFIX}/brake")
    upgrader.run("-e", f"upgrade_to={upgrader.snapshot}")

    assert run.returncode == 2
    assert after == {name: v if name == "phone004" else v + NEW for name, v in before.items()}
    assert drained == ["phone004"]
    assert upgrader.versions("iperf3")["phone004"] == after["phone001"]
    assert {row["state"] for row in rack.fleetctl_json("status")["phones"]} == {"ready"}
    upgrader.run("-e", f"upgrade_to={upgrader.first}", "-e", EVERYBODY)


@pytest.mark.soak
def test_a_phone_that_dies_in_its_wave_is_named_and_comes_along_later(upgrader: Upgrader) -> None:
    rack = upgrader.rack
    dies = f"#!{PREFIX}/bin/sh\n[ ! -e {PREFIX}/brake ] || kill -9 -1\n"

    def deadly(root: Path) -> None:
        script = root / "DEBIAN/postinst"
        script.write_text(dies)
        script.chmod(0o755)

    upgrader.ssh("phone005", f"touch {PREFIX}/brake")
    with upgrader.renewed("iperf3_", deadly):
        run = upgrader.run(
            *("-e", EVERYBODY, "-e", "upgrade_max_failed_percentage=30"), check=False
        )
    said = " ".join(run.stdout.split())
    assert "phone005: no longer answers" in said
    assert "by hand: `fleetctl undrain phone005`" in said
    assert run.returncode == 2

    rack.podman("phone005", "/system/bin/rm", f"{PREFIX}/brake")
    rack.fleetctl("standin", "fault", "phone005", "reboot")
    rack.fleetctl("standin", "heal", "phone005")
    upgrader.run("-e", f"upgrade_to={upgrader.snapshot}")
    assert rack.fleetctl("check", "packages").returncode == 0
    rack.fleetctl("check", "phone005")  # it was away
    assert {row["state"] for row in rack.fleetctl_json("status")["phones"]} == {"ready"}
    upgrader.run("-e", f"upgrade_to={upgrader.first}", "-e", EVERYBODY)


@pytest.mark.soak
def test_of_two_upgrades_one_is_refused_and_one_that_is_interrupted_goes_on_when_run_again(
    upgrader: Upgrader,
) -> None:
    rack, before = upgrader.rack, upgrader.versions("iperf3")
    with upgrader.renewed("iperf3_"):
        command = ("ansible-playbook", "-i", str(rack.file), "playbooks/upgrade.yml")
        with subprocess.Popen(
            command,
            cwd=PROJECT,
            env=rack.env,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # ansible-playbook hands Ctrl-C on to its group
        ) as run:
            while upgrader.versions("iperf3")["phone001"] == before["phone001"]:
                assert run.poll() is None
            second = upgrader.run(check=False)
            run.send_signal(signal.SIGINT)
            assert run.wait() != 0
        again = upgrader.run("-e", EVERYBODY)

    assert second.returncode == 2
    held = f"another upgrade of this rack is going on (process {run.pid})"
    assert held in " ".join(second.stdout.split())
    assert again.returncode == 0
    assert upgrader.versions("iperf3") == {name: v + NEW for name, v in before.items()}
    assert {row["state"] for row in rack.fleetctl_json("status")["phones"]} == {"ready"}
    upgrader.run("-e", f"upgrade_to={upgrader.first}", "-e", EVERYBODY)
