"""From a box of phones to ssh over the wire, as an operator meets it, by the real adb.

The rack's network is served by somebody else's DHCP, as at home. The whole way happens once, in the
fixture; the tests look at what it has left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetctl.errors import ExitCode
from standin.android.state import AndroidState, read_state
from standin.record import native_target

pytestmark = pytest.mark.standin

FLEETCTL = Path(sys.executable).with_name("fleetctl")
NAME, NETWORK = "enrol-test", "10.152.200"
GOOD, LOCKED = ["phone001", "phone002"], "phone003"
RACK = f"""
rack: {NAME}
network:
  cidr: {NETWORK}.0/28
  medium: ethernet
  dhcp: theirs
  controller: {NETWORK}.1
  services: {NETWORK}.2
phones: [{{target: {native_target()}, addresses: {NETWORK}.3-5}}]
"""


@dataclass
class Box:
    home: Path
    said: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.home / NAME

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FLEETCTL, *arguments],
            env=self.environment,
            text=True,
            capture_output=True,
            timeout=600,
        )

    @property
    def environment(self) -> dict[str, str]:
        file = self.home / "rack.yml"
        kept = {"PHONERACK_HOME": str(self.home), "PHONERACK_RACK": str(file), "COLUMNS": "200"}
        return {**os.environ, **kept}

    def must(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def apks(self, *options: str) -> None:
        self.must("standin", "apks", str(self.folder / "apks"), *options)

    def reports(self, step: str) -> dict[str, dict[str, Any]]:
        """Reports of an enrolment, by place in the rack or by link."""
        phones = json.loads(self.said[step].stdout)["phones"]
        return {phone["name"] or phone["link"]: phone for phone in phones}

    def ends(self, step: str) -> dict[str, str]:
        return {name: phone["end"] for name, phone in self.reports(step).items()}

    def android(self, phone: str) -> AndroidState:
        return read_state(self.folder / "standin/hw" / phone)

    @property
    def lock(self) -> dict[str, dict[str, Any]]:
        phones: dict[str, dict[str, Any]] = yaml.safe_load(
            (self.folder / "rack.lock.yml").read_text()
        )["phones"]
        return phones

    @contextmanager
    def dhcp(self) -> Iterator[None]:
        """Somebody else's DHCP server: it knows no phone."""
        server, leases = f"pr-{NAME}-their-dhcp", self.home / "udhcpd.conf"
        leases.write_text(
            f"start {NETWORK}.6\nend {NETWORK}.14\ninterface rack0\nlease_file /leases\n"
            "option subnet 255.255.255.240\n"
        )
        image = subprocess.run(
            ["podman", "inspect", "-f", "{{.ImageName}}", f"pr-{NAME}-phone001"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        words = ["podman", "run", "--detach", "--rm", f"--name={server}", "--user=0"]
        words += ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]
        words += ["--cap-add=NET_RAW", "--cap-add=NET_ADMIN"]
        words += [f"--network=container:pr-{NAME}-services", f"--volume={leases}:/udhcpd.conf:ro"]
        serve = "touch /leases && exec /system/bin/busybox udhcpd -f /udhcpd.conf"
        words += [image, "/system/bin/sh", "-c", serve]
        subprocess.run(words, check=True, capture_output=True)
        try:
            yield
        finally:
            subprocess.run(["podman", "rm", "--force", "--time=0", server], capture_output=True)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("enrol"))
    (made.home / "rack.yml").write_text(RACK)
    try:
        made.must("standin", "up", "--boxed")
        by_usb(made)
        made.must("standin", "plug", "@phones", "hub")
        with made.dhcp():
            made.said["wire"] = made.run("enroll", "--wire", "--wait", "120", "-o", "json")
        yield made
    finally:
        made.run("standin", "down")


def by_usb(box: Box) -> None:
    """All that is done while the phones hang on the controller, the mistakes included."""
    box.said["unauthorized"] = box.run("enroll", "--wait", "0", "-o", "json")
    with subprocess.Popen(
        [FLEETCTL, "enroll"], env=box.environment, text=True, stdout=-1, stderr=-1
    ) as asking:
        box.must("standin", "unlock", "@phones")
        while box.run("standin", "authorize", "@phones").returncode:
            assert asking.poll() is None
            time.sleep(0.5)
        out, err = asking.communicate(timeout=120)
        box.said["no apks"] = subprocess.CompletedProcess([], asking.returncode, out, err)
    box.apks()
    box.apks("--signer", "somebody-else", "--debuggable")
    box.said["other signer"] = box.run("enroll")
    for file in (box.folder / "apks").glob("*_debug.apk"):
        file.unlink()
    box.must("standin", "lock", "--pin", LOCKED)
    box.said["usb"] = box.run("enroll", "-o", "json")
    box.must("standin", "unlock", LOCKED)
    box.said["again"] = box.run("enroll", "-o", "json")


def test_a_phone_that_nobody_has_accepted_needs_hands_and_says_which(box: Box) -> None:
    done = box.said["unauthorized"]
    assert done.returncode == ExitCode.SOME_PHONES_FAILED
    for report in box.reports("unauthorized").values():
        assert report["end"] == "needs-hands"
        assert "accept its dialog" in report["reason"]


def test_missing_apps_and_apps_of_two_signers_change_nothing(box: Box) -> None:
    missing, mixed = box.said["no apks"], box.said["other signer"]
    assert missing.returncode == mixed.returncode == ExitCode.BAD_INPUT
    assert "com.termux.boot: no package in" in missing.stderr
    assert "signed by different keys" in mixed.stderr


def test_a_locked_phone_needs_hands_and_stops_nobody(box: Box) -> None:
    assert box.said["usb"].returncode == ExitCode.SOME_PHONES_FAILED
    assert box.ends("usb") == {**dict.fromkeys(GOOD, "enrolled"), LOCKED: "needs-hands"}
    assert "unlock it, remove the PIN" in box.reports("usb")[LOCKED]["reason"]


def test_a_second_run_does_what_is_left_and_leaves_the_rest_alone(box: Box) -> None:
    assert box.said["again"].returncode == ExitCode.DONE
    assert box.ends("again") == {**dict.fromkeys(GOOD, "known"), LOCKED: "enrolled"}
    (remark,) = box.reports("again")[LOCKED]["remarks"]
    assert "lock_screen" in remark


def test_the_lock_file_has_serial_api_level_adapter_and_address(box: Box) -> None:
    assert list(box.lock) == [*GOOD, LOCKED]
    for place in box.lock.values():
        assert place["serial"].startswith("R58M")
        assert place["api_level"] == 31
        assert place["mac"].startswith("02:")
        assert place["address"].startswith(f"{NETWORK}.")
    assert len({place["mac"] for place in box.lock.values()}) == 3


def test_each_phone_is_met_again_on_the_wire_by_its_host_key(box: Box) -> None:
    assert box.said["wire"].returncode == ExitCode.DONE, box.said["wire"].stderr
    assert set(box.ends("wire").values()) == {"enrolled"}


@pytest.mark.parametrize("phone", GOOD)
def test_android_is_as_the_rack_wants_it_and_wifi_went_last(box: Box, phone: str) -> None:
    state = box.android(phone)
    assert state.phantom_limit == 2147483647
    assert state.setting("global", "wifi_on") == "0"
    assert state.setting("global", "ntp_server") == f"{NETWORK}.2"
    assert {"com.termux", "com.termux.api", "com.termux.boot"} <= set(state.doze_exempt)
    assert state.lock_screen == "none"
    assert state.wake_locks


def test_adb_has_left_the_network(box: Box) -> None:
    assert [box.android(phone).adb_tcp_port for phone in box.lock] == [0, 0, 0]


def test_the_phone_comes_back_by_itself_after_a_reboot_with_the_key_that_is_known(box: Box) -> None:
    place = box.lock["phone002"]
    with box.dhcp():
        box.must("standin", "fault", "phone002", "reboot")
        options = {
            "UserKnownHostsFile": box.folder / "ssh/known_hosts",
            "HostKeyAlias": "phone002",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "2",
        }
        words = ["ssh", "-p", "8022", "-i", str(box.folder / "ssh/operator")]
        words += [f"-o{name}={value}" for name, value in options.items()]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done = subprocess.run(
                [
                    *words,
                    f"phone@{place['address']}",
                    "cat ~/.termux/boot/phonerack; sv status $PREFIX/var/service/sshd",
                ],
                capture_output=True,
                text=True,
            )
            if done.returncode == 0:
                break
    assert "termux-wake-lock" in done.stdout, done.stderr
    assert "run: " in done.stdout
