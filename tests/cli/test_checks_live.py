"""Checks on a rack that site.yml has provisioned."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

pytestmark = [pytest.mark.standin, pytest.mark.soak]


def statuses(rack: Any, *words: str) -> dict[str, dict[str, str]]:
    """By phone, then by check."""
    said = rack.run("fleetctl", "check", *words, "-o", "json", check=False).stdout
    phones = json.loads(said)["phones"]
    return {
        phone["name"]: {one["name"]: one["status"] for one in phone["checks"]} for phone in phones
    }


def drains(rack: Any, phone: str) -> list[tuple[str, str]]:
    (found,) = rack.fleetctl_json("status", phone)["phones"]
    return [(drain["origin"], drain["who"]) for drain in found["drains"]]


def test_the_second_quick_check_is_spared_what_the_first_has_tried(provisioned_rack: Any) -> None:
    found = statuses(provisioned_rack)
    assert len(found) == 6
    for checks in found.values():
        assert "CRITICAL" not in checks.values(), checks
        for name in ("temperature", "battery-health", "charge", "plugged", "exporter", "host-key"):
            assert checks[name] == "OK", checks
    stamp = "/data/data/com.termux/files/home/phonerack/preflight.stamp"
    kept = provisioned_rack.podman("phone001", "/system/bin/sh", "-c", f"cat {stamp}")
    assert kept.stdout.splitlines()[1].startswith("5.0")


def test_phones_know_what_they_are_and_lose_no_packets(provisioned_rack: Any) -> None:
    found = statuses(provisioned_rack, "phone[001-002]", "--level", "2")
    for checks in found.values():
        assert {name: checks[name] for name in ("mtu", "loss")} == {"mtu": "OK", "loss": "OK"}
        assert checks["wake-lock"] in ("OK", "WARN")
    # Nobody holds them any more.
    phones = provisioned_rack.fleetctl_json("status", "phone[001-002]")["phones"]
    assert [phone["allocation"] for phone in phones] == [None, None]


def test_a_bad_battery_drains_its_phone_and_a_person_s_drain_outlives_it(
    provisioned_rack: Any,
) -> None:
    """The exporter reads the battery every 15 s."""
    provisioned_rack.fleetctl("drain", "phone006", "--why", "screen broken")
    try:
        provisioned_rack.fleetctl("standin", "hardware", "phone006", "health=over-voltage")
        until(
            lambda: statuses(provisioned_rack, "phone006")["phone006"]["battery-health"], "CRITICAL"
        )
        assert ("check", "battery-health") in drains(provisioned_rack, "phone006")
        provisioned_rack.fleetctl("standin", "hardware", "phone006", "health=good")
        until(lambda: statuses(provisioned_rack, "phone006")["phone006"]["battery-health"], "OK")
        assert [origin for origin, _ in drains(provisioned_rack, "phone006")] == ["person"]
    finally:
        provisioned_rack.fleetctl("standin", "hardware", "phone006", "health=good")
        provisioned_rack.fleetctl("undrain", "phone006")


def until(look: Any, wanted: str) -> None:
    """Within as many looks as any phone may need."""
    for _ in range(30):
        if look() == wanted:
            return
        time.sleep(1)
    pytest.fail(f"never {wanted}")


def test_the_controller_of_a_provisioned_rack_is_well(provisioned_rack: Any) -> None:
    said = provisioned_rack.fleetctl("check", "controller", "-o", "json", check=False).stdout
    found = {one["name"]: one for one in json.loads(said)["checks"]}
    bad = {name: one for name, one in found.items() if one["status"] == "CRITICAL"}
    assert bad.keys() <= {"guard", "serve"}, "other tests of this rack start and end these two"
    for name in ("keys", "known-phones", "controller-address", "services", "mirror"):
        assert found[name]["status"] == "OK", found[name]
    for name in ("prometheus", "alertmanager"):
        assert found[name]["status"] == "OK", found[name]
