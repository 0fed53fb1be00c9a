"""`fleetctl bench net` on the stand-in rack: real iperf3 over its wires, one of them slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

PHONES = ("phone001", "phone002", "phone004")
SLOW = "phone004"


def bench(rack: RackUnderTest, *options: str) -> dict[str, Any]:
    done = rack.run(
        *("fleetctl", "bench", "net", *PHONES, "--seconds", "1", "--no-switches", "-o", "json"),
        *options,
        check=False,
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_pairs_are_measured_and_a_slow_link_is_named(
    provisioned_rack: RackUnderTest, tmp_path: Path
) -> None:
    figure = tmp_path / "net.svg"
    provisioned_rack.fleetctl("standin", "fault", SLOW, "100mbit")
    try:
        found = bench(provisioned_rack, "--figure", str(figure))
    finally:
        provisioned_rack.fleetctl("standin", "heal", SLOW)
    assert found["failed"] == []
    assert found["mtu"] == {}
    flows = {(flow["sender"], flow["receiver"]): flow["goodput_mbits"] for flow in found["alone"]}
    assert len(flows) == 3
    assert all(mbits for mbits in flows.values())
    assert all(mbits < 110 for pair, mbits in flows.items() if SLOW in pair)
    assert found["slow"][SLOW].startswith("100 Mb/s link: carries")
    assert [spread["phones"] for spread in found["spreads"]] == [2]
    assert "<svg" in figure.read_text()
    status = provisioned_rack.fleetctl_json("status")
    assert "busy" not in {phone["state"] for phone in status["phones"]}, "phones are given back"
