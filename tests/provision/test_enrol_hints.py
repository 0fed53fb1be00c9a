"""What the operator is told to do after the half of enrolment by USB."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.cli import enroll
from fleetctl.provision.enrol_look import End, Report

MET = "10.1.0.9"


def told(
    capsys: pytest.CaptureFixture[str],
    end: End,
    *,
    medium: str = "ethernet",
    dhcp: str = "theirs",
    address: str | None = None,
) -> str:
    network = SimpleNamespace(medium=medium, dhcp=dhcp)
    app: Any = SimpleNamespace(rack=SimpleNamespace(network=network))
    report = Report("R1", "R1", "phone001", step="done", end=end, address=address)
    enroll._show(app, [report], by_usb=True)
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("end", ["enrolled", "known"])
def test_a_phone_that_has_not_been_met_goes_to_the_wire(
    capsys: pytest.CaptureFixture[str], end: End
) -> None:
    said = told(capsys, end)
    assert "plug them into their hubs, and run `fleetctl enroll --wire`" in said
    assert "site.yml" not in said
    assert "--wire" not in told(capsys, end, address=MET)
    assert "--wire" not in told(capsys, "failed")


@pytest.mark.parametrize("medium", ["ethernet", "wifi"])
def test_where_the_rack_leases_addresses_its_server_has_to_know_first(
    capsys: pytest.CaptureFixture[str], medium: str
) -> None:
    said = told(capsys, "enrolled", medium=medium, dhcp="ours")
    assert "run `ansible-playbook site.yml -t controller`" in said
    assert said.index("site.yml") < said.index("enroll --wire")
