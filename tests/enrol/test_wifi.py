"""Phones that stay on Wi-Fi: enrolled by USB alone, since they have their network all the while."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from box import Box

pytestmark = [pytest.mark.standin, pytest.mark.soak, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("enrol-wifi"), 210)
    made.write(phones=2, medium="wifi", dhcp="theirs")
    try:
        made.must("standin", "up", "--boxed")
        made.apks()
        with made.dhcp():
            made.said["usb"] = made.enroll_accepting("@phones", "-o", "json")
            made.said["table"] = made.run("enroll")
            yield made
    finally:
        made.run("standin", "down")


def test_one_command_records_adapter_and_address(box: Box) -> None:
    assert box.said["usb"].returncode == 0, box.said["usb"].stderr
    assert box.ends("usb") == {"phone001": "enrolled", "phone002": "enrolled"}
    for name, place in box.lock.items():
        assert place["address"] == box.reports("usb")[name]["address"]
        assert place["mac"].startswith("02:")
    assert len({place["address"] for place in box.lock.values()}) == 2


def test_the_operator_gets_in_there_and_wifi_stays_on(box: Box) -> None:
    for name in box.lock:
        assert "phonerack" in box.ssh(name, "ls ~/.termux/boot")
        assert box.android(name).setting("global", "wifi_on") == "1"
        assert box.android(name).adb_tcp_port == 0


def test_nothing_waits_for_a_wire(box: Box) -> None:
    assert "--wire" not in box.said["table"].stderr
    refused = box.run("enroll", "--wire", "--wait", "0")
    assert refused.returncode == 2
    assert "no phone waits to be met on the wire" in refused.stderr
    checked = json.loads(box.must("check", "rack", "-o", "json"))["checks"]
    assert {one["status"] for one in checked if one["name"] == "enrolment"} == {"OK"}
