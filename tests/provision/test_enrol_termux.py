"""What is brought into Termux, and what Android says when it refuses an app."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from fleetctl.provision.enrol_termux import BOOT_SCRIPT, explain_install, last_word, setup_script
from fleetctl.remote.adb import Said, parse_link
from standin import images

KEY = "ssh-ed25519 AAAA operator@lab's; reboot"


@pytest.mark.parametrize("serve", [True, False])
def test_the_script_is_whole_and_the_key_stays_one_word(serve: bool, tmp_path: Path) -> None:
    script = setup_script(KEY, "n0nce", serve=serve)
    assert subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0
    assert ("sv up" in script) == serve
    line = next(line for line in script.splitlines() if line.startswith("printf '%s\\n' "))
    words = line.partition(" >")[0]
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"{KEY}\n"


def test_what_a_former_rack_has_left_goes() -> None:
    script = setup_script(KEY, "n0nce", serve=True)
    removed = " ".join(line for line in script.splitlines() if "rm -" in line or "*.conf" in line)
    for left in ("/.ssh/phonerack_*", "sshd_config.d/phonerack", "ssh_host_*", "etc/phonerack"):
        assert left in removed


def test_stand_ins_that_come_enrolled_start_by_the_same_script() -> None:
    shipped = images.RECIPE / "android/system/etc/boot-script"
    assert shipped.read_text() == BOOT_SCRIPT


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("Failure [INSTALL_FAILED_UPDATE_INCOMPATIBLE: Package x]", "uninstall com.termux,"),
        ("Failure [INSTALL_FAILED_SHARED_USER_INCOMPATIBLE: …]", "signed by another key"),
        ("Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]", "no room"),
        ("Failure [INSTALL_FAILED_NO_MATCHING_ABIS: …]", "no code for this phone's processor"),
        ("adb: failed to install x.apk: protocol fault", "protocol fault"),
    ],
)
def test_a_refused_app_is_explained_with_androids_own_word(said: str, cure: str) -> None:
    told = explain_install("com.termux", f"Performing Streamed Install\n{said}")
    assert cure in told
    assert said.removeprefix("adb: ").split(":")[0].split("]")[0] in told


class Log:
    def __init__(self, text: str) -> None:
        self._text = text

    async def shell(self, _command: str) -> Said:
        return Said(0, self._text, "")


@pytest.mark.parametrize(
    ("log", "word"),
    [
        ("--------- beginning of main\n", ""),
        ("I/phonerack( 12): n0nce started\nI/phonerack( 13): n0nce installing\n", "installing"),
        ("I/phonerack( 12): other done\n", ""),
        ("I/phonerack( 12): n0nce failed dpkg: no room\n", "failed dpkg: no room"),
    ],
)
def test_only_this_runs_words_in_the_log_count(log: str, word: str) -> None:
    assert asyncio.run(last_word(Log(log), "n0nce")) == word  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "state", "place"),
    [
        ("R58M1 device usb:1-4.2 product:beyond2 model:SM_G975F transport_id:3", "device", "1-4.2"),
        ("R58M1 unauthorized usb:1-4.10 transport_id:4", "unauthorized", "1-4.10"),
        ("R58M1 no permissions (missing udev rules? …); see [http://…]", "no permissions", ""),
        ("10.0.0.9:5555 offline transport_id:5", "offline", ""),
        ("R58M1 recovery usb:1-1", "other", "1-1"),
    ],
)
def test_a_line_of_adb_devices_is_understood(line: str, state: str, place: str) -> None:
    link = parse_link(line)
    assert (link.state, link.place) == (state, place)
