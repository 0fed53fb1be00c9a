"""Phones that answer badly, at odd times, or with a wrong clock: each is told from a dead one."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from test_site import recap
from which_rack import SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

PHONES = [f"phone{number:03}" for number in range(1, 7)]
PREFIX = "/data/data/com.termux/files/usr"


@contextmanager
def fault(rack: RackUnderTest, phone: str, *faults: str) -> Iterator[None]:
    rack.fleetctl("standin", "fault", phone, *faults)
    try:
        yield
    finally:
        rack.fleetctl("standin", "heal", phone)


def eventually(look: Callable[[], Any], what: str, limit_seconds: float = 180) -> Any:
    deadline = time.monotonic() + limit_seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.5)
    return found


@pytest.mark.soak
def test_lost_syns_are_tried_again_and_who_loses_all_of_them_is_told_once(
    provisioned_rack: RackUnderTest,
) -> None:
    rack, mute = provisioned_rack, "phone006"
    # The phone's own new connections are lost too, to the mirror and between the phones.
    with fault(rack, "phone[001-005]", "syn-loss=30%"), fault(rack, mute, "syn-loss=100%"):
        # With no connection that was kept from before.
        once = ("-e", "termux_connect_retries=1", "-e", "ansible_control_path=none")
        run = rack.playbook("-t", "termux", *once, check=False)

    hosts = recap(run.stdout)
    assert run.returncode == 4, run.stdout[-3000:]
    assert [hosts[phone]["unreachable"] for phone in PHONES] == [0, 0, 0, 0, 0, 1]
    assert [hosts[phone]["failed"] for phone in PHONES] == [0] * 6
    told = run.stdout.split("NOT REACHED")[1].strip().splitlines()[1:]
    assert len(told) == 1
    assert told[0].startswith(f"{mute} is unreachable")


@pytest.mark.soak
def test_a_clock_that_is_90_seconds_off_keeps_nobody_out_and_people_are_told(
    provisioned_rack: RackUnderTest,
) -> None:
    rack, phone = provisioned_rack, "phone005"
    ssh = ("ssh", "-F", str(rack.folder / "ssh_config"), phone)

    def alerts() -> list[str]:
        with urllib.request.urlopen(f"http://{SUBNET}.2:9090/api/v1/alerts", timeout=10) as page:
            found = json.load(page)["data"]["alerts"]
        firing = [one["labels"] for one in found if one["state"] == "firing"]
        return [labels["phone"] for labels in firing if labels["alertname"] == "PhoneClockOff"]

    with fault(rack, phone, "clock=+90s"):

        def ahead() -> bool:
            said = rack.run(*ssh, "date +%s", check=False).stdout.strip()
            return bool(said) and 60 < int(said) - time.time() < 120

        eventually(ahead, "it answers, with its wrong clock")
        assert "its clock is" in rack.fleetctl("check", phone, check=False).stdout
        again = rack.playbook("-t", "phones", "-l", phone)
        assert recap(again.stdout)[phone]["changed"] == 0
        eventually(lambda: alerts() == [phone], "PhoneClockOff fires for it alone", 300)
    eventually(lambda: alerts() == [], "the alert is over", 300)


@pytest.mark.soak
def test_a_phone_that_nobody_has_unlocked_after_a_reboot_is_up_without_ssh(
    provisioned_rack: RackUnderTest,
) -> None:
    rack, phone = provisioned_rack, "phone004"

    def remark() -> str:
        return " ".join(rack.fleetctl("status", phone, check=False).stdout.split())

    with fault(rack, phone, "locked", "reboot"):
        eventually(lambda: "Android is up but sshd is not" in remark(), "it refuses ssh")
        assert "after a reboot unlock it once" in remark()
        said = rack.fleetctl("status", phone, "-o", "json", check=False).stdout
        assert json.loads(said)["phones"][0]["state"] == "lost"
    eventually(lambda: rack.fleetctl("check", phone, check=False).returncode == 0, "it is back")


@pytest.mark.soak
def test_who_answers_by_another_key_is_talked_to_by_nobody(
    provisioned_rack: RackUnderTest,
) -> None:
    rack, phone = provisioned_rack, "phone006"

    # As after a reset that nobody told of: another key, and no certificate for it.
    keys, restart = f"cd {PREFIX}/etc/ssh", f"{PREFIX}/bin/sv restart {PREFIX}/var/service/sshd"
    swap = (
        f"{keys} && mkdir kept && mv ssh_host_ed25519_key* kept && "
        f"ssh-keygen -q -t ed25519 -N '' -f ssh_host_ed25519_key </dev/null && {restart}"
    )
    rack.run("ssh", "-F", str(rack.folder / "ssh_config"), phone, swap, check=False)
    # A connection that was kept from before is to the phone itself.
    anew = ("-t", "ssh", "-l", phone, "-e", "ansible_control_path=none")
    try:
        run = eventually(
            lambda: (said := rack.playbook(*anew, check=False)).returncode == 4 and said,
            "it answers by its new key",
        )
        (told,) = run.stdout.split("NOT REACHED")[1].strip().splitlines()[1:]
        assert told.startswith(f"the host key of {phone} is not the one it was enrolled with")
        assert f"`fleetctl enroll --replace {phone}`" in told
        assert "CRITICAL" in rack.fleetctl("check", phone, check=False).stdout
    finally:
        back = f"{keys} && rm ssh_host_ed25519_key* && mv kept/* . && rmdir kept && {restart}"
        rack.podman(phone, "/system/bin/sh", "-c", back)
    eventually(lambda: rack.fleetctl("check", phone, check=False).returncode == 0, "it is back")
