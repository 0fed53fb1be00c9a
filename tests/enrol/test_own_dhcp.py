"""Enrolment with the rack's own DHCP server, debug builds of Termux, and phones that change.

One story, told once by the fixture: three of four phones are enrolled, two of them come to the
rack, one of these breaks and the fourth takes its place, and the other one loses its Termux.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from box import Box

from fleetctl.errors import ExitCode
from fleetctl.rack import RackPaths
from fleetctl.remote.adb import session
from standin.android.state import TERMUX
from standin.enrolment import derived_serial
from standin.fabric import derived_mac

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(3600)]

FIRST, BROKEN, LATE, SPARE = "phone001", "phone002", "phone003", "phone004"


@dataclass
class Story:
    box: Box
    locks: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    uids: list[int] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    states: dict[str, Any] = field(default_factory=dict)
    opened: int = 0
    """The port of FIRST's adb on the network, after its second enrolment by USB."""

    def serial(self, phone: str) -> str:
        return derived_serial(self.box.name, phone)

    def key(self, place: str) -> str:
        lines = (self.box.folder / "ssh/known_hosts").read_text().splitlines()
        (line,) = [line for line in lines if line.startswith(f"{place} ")]
        return line.split()[2]

    def uid(self) -> int:
        return self.box.android(FIRST).apps[TERMUX].uid


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    box = Box(tmp_path_factory.mktemp("enrol-ours"), 220)
    box.write(phones=4, medium="ethernet", dhcp="ours", time="ours", more="versions: {torch: none}")
    told = Story(box)
    try:
        box.must("standin", "up", "--boxed")
        first_enrolment(told)
        looked_after(told)
        to_the_rack(told)
        replaced(told)
        reinstalled(told)
        yield told
    finally:
        box.run("standin", "down")


def first_enrolment(story: Story) -> None:
    box = story.box
    box.must("standin", "plug", SPARE, "nothing")
    box.apks("--debuggable")
    box.said["usb"] = box.enroll_accepting("phone[001-003]", "-o", "json")
    box.said["controller"] = box.site("-t", "controller")


def looked_after(story: Story) -> None:
    """The phase `bootstrap`, with a phone that adb reaches, one that lets nobody in, and one that
    is unplugged."""
    box = story.box
    key, kept = box.folder / "adb/.android", box.folder / "adb/.android.kept"
    key.rename(kept)  # by another key this machine is a stranger
    box.said["new key"] = box.enroll_accepting(
        LATE, "--serial", story.serial(LATE), "--wait", "20", "-o", "json"
    )
    box.must("standin", "plug", BROKEN, "nothing")
    asyncio.run(run_by_adb(box, story.serial(LATE), ["settings put system screen_brightness 200"]))
    for step, options in {"look": ["-C", "-D"], "mend": [], "mend again": []}.items():
        box.said[step] = box.site("-t", "bootstrap", *options)
        story.answers[step] = str(box.android(LATE).setting("system", "screen_brightness"))
    shutil.rmtree(key)
    kept.rename(key)
    box.must("standin", "plug", BROKEN, "controller")


def to_the_rack(story: Story) -> None:
    """Two of the three; the third is forgotten on the table."""
    box = story.box
    box.must("standin", "plug", f"{FIRST},{BROKEN}", "hub")
    box.said["wire"] = box.run("enroll", "--wire", "--wait", "60", "-o", "json")
    story.locks["wire"] = box.lock
    box.said["site"] = box.site("-t", "validate,phones")
    story.answers["wire"] = box.ssh(BROKEN, "python -c 'print(6 * 7)'")


def replaced(story: Story) -> None:
    box = story.box
    story.keys["broken"] = story.key(BROKEN)
    box.must("standin", "fault", BROKEN, "kill")
    box.said["check"] = box.run("check", BROKEN)
    story.states["killed"] = json.loads(box.run("status", BROKEN, "-o", "json").stdout)
    box.must("standin", "plug", SPARE, "controller")
    box.said["known serial"] = box.run(
        "enroll", "--replace", BROKEN, "--serial", story.serial(LATE), "--wait", "0"
    )
    box.said["replace"] = box.enroll_accepting(
        SPARE, "--replace", BROKEN, "--serial", story.serial(SPARE), "-o", "json"
    )
    box.must("standin", "plug", SPARE, "hub")
    box.said["replace wire"] = box.run("enroll", "--wire", "--wait", "60", "-o", "json")
    story.locks["replace"] = box.lock
    story.answers["replace"] = box.ssh(BROKEN, "echo $HOME")


def reinstalled(story: Story) -> None:
    box = story.box
    story.uids.append(story.uid())
    story.keys["before"] = story.key(FIRST)
    box.must("standin", "plug", FIRST, "controller")
    apps = ("com.termux.boot", "com.termux.api", "com.termux")
    said = asyncio.run(
        run_by_adb(box, story.serial(FIRST), [f"pm uninstall {app}" for app in apps])
    )
    assert all("Success" in line for line in said), said
    box.said["again"] = box.run("enroll", "--serial", story.serial(FIRST), "-o", "json")
    story.uids.append(story.uid())
    until = time.monotonic() + 10  # its daemon starts anew after it has answered
    while not (story.opened or time.monotonic() > until):
        story.opened = box.android(FIRST).adb_tcp_port
        time.sleep(0.1)
    box.must("standin", "plug", FIRST, "hub")
    box.said["again wire"] = box.run("enroll", "--wire", "--wait", "60", "-o", "json")
    story.answers["again"] = box.ssh(FIRST, "id -u")


async def run_by_adb(box: Box, serial: str, commands: list[str]) -> list[str]:
    """What each command says on the phone of this serial."""
    async with session(RackPaths(box.name, box.home)) as adb:
        for link in await adb.links():
            if link.state != "device":
                continue
            phone = adb.phone(link.name)
            if (await phone.shell("getprop ro.serialno")).stdout.strip() == serial:
                return [(await phone.shell(command)).stdout for command in commands]
    raise AssertionError(f"adb does not see {serial}")


def changes(output: str) -> set[str]:
    return set(re.findall(r"changed=(\d+)", output.split("PLAY RECAP")[1]))


def test_a_debug_build_lets_the_first_key_in_by_run_as(story: Story) -> None:
    box = story.box
    assert box.said["usb"].returncode == 0, box.said["usb"].stdout + box.said["usb"].stderr
    assert box.ends("usb") == dict.fromkeys((FIRST, BROKEN, LATE), "enrolled")
    # Nothing was typed: the keyboard is for builds that run-as may not enter.
    assert "Termux does not take" not in box.said["usb"].stdout


def test_the_phase_bootstrap_looks_first_and_changes_nothing(story: Story) -> None:
    look = story.box.said["look"]
    assert look.returncode == 0, look.stdout
    assert f"-{LATE}: system/screen_brightness = 200" in look.stdout
    assert f"+{LATE}: system/screen_brightness = 1" in look.stdout
    assert story.answers["look"] == "200"


def test_then_it_mends_and_the_next_run_changes_nothing(story: Story) -> None:
    mend, again = story.box.said["mend"], story.box.said["mend again"]
    assert mend.returncode == again.returncode == 0, mend.stdout + again.stdout
    assert story.answers["mend"] == "1"
    assert "1" in changes(mend.stdout)
    assert changes(again.stdout) == {"0"}


@pytest.mark.parametrize("step", ["look", "mend", "mend again"])
def test_and_tells_each_phone_that_it_does_not_reach_with_its_own_reason(
    story: Story, step: str
) -> None:
    said = " ".join(story.box.said[step].stdout.split())
    # A stand-in's link bears an address, so nobody can tell which phone lets nobody in.
    assert f"{FIRST}, {BROKEN}: adb does not see it: plug it into this machine by USB" in said
    assert "unauthorized: unlock its screen and accept its dialog" in said


def test_on_the_wire_phones_move_to_the_addresses_of_the_rack_file(story: Story) -> None:
    box = story.box
    assert box.said["controller"].returncode == 0, box.said["controller"].stdout
    assert box.ends("wire") == {FIRST: "enrolled", BROKEN: "enrolled", LATE: "needs-hands"}
    assert "site.yml -t controller" in box.reports("wire")[LATE]["reason"]
    lock = story.locks["wire"]
    assert [lock[name].get("address") for name in (FIRST, BROKEN, LATE)] == [
        f"{box.network}.3",
        f"{box.network}.4",
        None,
    ]
    assert lock[FIRST]["mac"] == derived_mac(box.name, FIRST)


def test_a_phone_that_waits_for_the_wire_keeps_nobody_waiting(story: Story) -> None:
    run = story.box.said["site"]
    assert run.returncode == 0, run.stdout[-3000:]
    assert f"{LATE} without an address" in run.stdout.split("NOT READY")[1]
    assert story.answers["wire"].strip() == "42"


def test_a_phone_that_is_enrolled_already_takes_no_other_place(story: Story) -> None:
    refused = story.box.said["known serial"]
    assert refused.returncode == 2
    said = " ".join(refused.stderr.split())
    assert f"{story.serial(LATE)} is {LATE} already" in said


def test_another_phone_takes_the_place_of_a_broken_one(story: Story) -> None:
    box = story.box
    for step in ("replace", "replace wire"):
        assert box.ends(step)[BROKEN] == "enrolled", box.said[step].stdout
    place = story.locks["replace"][BROKEN]
    assert place["serial"] == story.serial(SPARE)
    assert place["mac"] == derived_mac(box.name, SPARE)
    assert place["address"] == f"{box.network}.4"
    assert SPARE not in story.locks["replace"]
    assert story.answers["replace"].strip().endswith("/files/home")


def test_a_phone_that_has_just_fallen_silent_needs_no_hands_yet(story: Story) -> None:
    """Adb has answered while it was enrolled; that it is silent now was done on purpose."""
    assert story.box.said["check"].returncode == ExitCode.NONE_REACHABLE
    (phone,) = story.states["killed"]["phones"]
    assert phone["state"] == "lost"


def test_the_broken_ones_key_is_revoked(story: Story) -> None:
    assert story.key(BROKEN) != story.keys["broken"]
    assert story.keys["broken"] in (story.box.folder / "ssh/revoked").read_text()
    known = (story.box.folder / "ssh/known_hosts").read_text()
    assert re.search(rf"^@revoked \S+ \S+ {re.escape(story.keys['broken'])}", known, re.MULTILINE)


def test_a_phone_whose_termux_was_reinstalled_is_the_same_phone(story: Story) -> None:
    box = story.box
    assert box.ends("again") == {FIRST: "enrolled"}, box.said["again"].stdout
    before, after = story.uids
    assert before != after
    assert story.answers["again"].strip() == str(after)
    assert story.key(FIRST) != story.keys["before"]
    assert story.keys["before"] in (box.folder / "ssh/revoked").read_text()
    assert box.lock[FIRST] == story.locks["wire"][FIRST]


def test_and_its_adb_and_wifi_end_on_the_wire_though_its_adapter_was_known(story: Story) -> None:
    """The wire of the first enrolment proves nothing of a phone that may have been reset."""
    box = story.box
    assert story.opened == 5555
    assert box.ends("again wire")[FIRST] == "enrolled", box.said["again wire"].stdout
    state = box.android(FIRST)
    assert state.adb_tcp_port == 0
    assert state.setting("global", "wifi_on") == "0"


def test_phones_ask_the_racks_own_time(story: Story) -> None:
    box = story.box
    for phone in (FIRST, SPARE):
        assert box.android(phone).setting("global", "ntp_server") == f"{box.network}.2"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.sendto(b"\x23" + bytes(47), (f"{box.network}.2", 123))
        assert len(asking.recv(48)) == 48
