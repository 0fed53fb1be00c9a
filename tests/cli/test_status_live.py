"""`fleetctl status` on a rack that site.yml has provisioned."""

from __future__ import annotations

from typing import Any

import pytest

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
