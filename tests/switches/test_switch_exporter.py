"""The switch exporter on stand-in switches: what it says of each port and each switch."""

from __future__ import annotations

import time
from typing import Any

import pytest
from lab import COMMUNITY
from watched import Watched

from exporters.switches import metrics
from standin.switches.plane import Counters

PHONE = ("sw1", "1", "phone001")


def test_a_provisioned_switch_is_up_and_has_no_drift(watched: Watched) -> None:
    found = watched.read()
    assert found["up"] == {("sw1",): 1}
    assert set(found["drift"].values()) == {0}
    assert {labels[3] for labels in found["drift"]} == {
        *("hostname", "enabled", "description", "vlan")
    }
    assert found["port_info"][(*PHONE, "phone", watched.interface(1))] == 1
    assert found["temperature_celsius"] == {("sw1", "Switch 1 - Temp Sensor 0"): 41.0}


def test_a_link_has_the_phones_name_its_speed_and_what_passed(watched: Watched) -> None:
    network = watched.rig.network
    network.speeds[watched.end(2)] = 100
    network.traffic[watched.end(1)] = Counters(
        octets_in=1 << 40, octets_out=7, errors_in=3, errors_out=4, discards_in=5, discards_out=6
    )
    found = watched.read()
    assert found["port_up"][PHONE] == 1
    assert found["port_speed_bytes"][PHONE] == 125e6
    assert found["port_speed_bytes"][("sw1", "2", "phone002")] == 12.5e6
    assert found["port_full_duplex"][PHONE] == 1
    assert found["port_forwarding"][PHONE] == 1
    assert found["port_receive_bytes_total"][PHONE] == 1 << 40
    assert found["port_transmit_bytes_total"][PHONE] == 7
    assert found["port_receive_errors_total"][PHONE] == 3
    assert found["port_transmit_errors_total"][PHONE] == 4
    assert found["port_receive_discards_total"][PHONE] == 5
    assert found["port_transmit_discards_total"][PHONE] == 6


def test_a_port_without_a_carrier_has_no_speed_rather_than_none(watched: Watched) -> None:
    del watched.rig.network.hosts["phone001"]
    found = watched.read()
    assert found["port_up"][PHONE] == 0
    assert PHONE not in found["port_speed_bytes"]
    assert PHONE not in found["port_full_duplex"]
    assert PHONE not in found.get("port_forwarding", {})
    assert found["port_enabled"][PHONE] == 1


def test_a_carrier_that_is_back_before_anybody_looks_is_a_flap(watched: Watched) -> None:
    hosts = watched.rig.network.hosts
    assert watched.read()["port_flaps_total"][PHONE] == 0
    place = hosts.pop("phone001")
    time.sleep(0.5)
    hosts["phone001"] = place
    time.sleep(0.5)
    found = watched.read()
    assert found["port_flaps_total"][PHONE] == 1
    assert found["port_flaps_total"][("sw1", "2", "phone002")] == 0
    assert watched.read()["port_flaps_total"][PHONE] == 1


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("shutdown", "enabled"),
        ("description somebody-else", "description"),
        ("switchport access vlan 20", "vlan"),
    ],
)
def test_what_a_person_changed_is_drift(watched: Watched, line: str, setting: str) -> None:
    watched.rig.type(f"interface {watched.interface(1)}\n{line}")
    drift = watched.read()["drift"]
    assert [labels for labels, value in drift.items() if value] == [(*PHONE, setting)]


def test_a_port_that_was_cut_off_on_purpose_is_no_drift(watched: Watched) -> None:
    assert watched.read()["port_up"][PHONE] == 1
    watched.rig.type(f"interface {watched.interface(1)}\ndescription phone001-off\nshutdown")
    found = watched.read()
    assert found["port_enabled"][PHONE] == 0
    assert found["port_flaps_total"][PHONE] == 0
    assert set(found["drift"].values()) == {0}
    watched.rig.type(f"interface {watched.interface(1)}\nno shutdown")
    assert watched.read()["drift"][(*PHONE, "description")] == 1, "it is in use, and says it is not"


def test_a_port_that_feeds_nobody_on_purpose_is_no_drift(poe: Watched) -> None:
    poe.rig.type(f"interface {poe.interface(1)}\ndescription phone001-off\npower inline never")
    assert set(poe.read()["drift"].values()) == {0}


def test_another_hostname_is_drift(watched: Watched) -> None:
    watched.rig.type("hostname other")
    assert watched.read()["drift"][("sw1", "", "", "hostname")] == 1


def test_power_over_ethernet_by_port_and_as_a_whole(poe: Watched) -> None:
    poe.act(lambda device: device.loads.update({poe.interface(1): 12.5}))
    poe.act(lambda device: device.changed())
    found = poe.read()
    assert found["poe_limit_watts"][("sw1",)] == 370
    assert found["poe_power_watts"][("sw1",)] == 12
    assert found["port_poe_power_watts"][PHONE] == 12.5
    assert found["port_poe_feeding"][PHONE] == 1
    assert found["port_poe_feeding"][("sw1", "2", "phone002")] == 0
    poe.rig.type(f"interface {poe.interface(1)}\npower inline never")
    found = poe.read()
    assert found["port_poe_enabled"][PHONE] == 0
    assert found["port_poe_feeding"][PHONE] == 0
    assert found["port_up"][PHONE] == 0, "what is fed by the port is off"


def test_a_switch_without_power_over_ethernet_says_nothing_of_it(watched: Watched) -> None:
    assert not [name for name in watched.read() if "poe" in name]


def test_every_metric_of_the_catalogue_comes_from_some_switch(poe: Watched) -> None:
    said = {f"phonerack_switch_{name}" for name in poe.read()}
    assert said == {metric.name for metric in metrics.CATALOGUE}


# --- switches that do not answer ------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["community", "list", "down"])
def test_a_switch_that_does_not_answer_is_down_and_its_values_are_gone(
    poe: Watched, reason: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exporters.switches.snmp._TIMEOUT_SECONDS", 0.2)
    assert poe.read()["up"] == {("sw1",): 1}
    if reason == "community":
        poe.file.write_text("Wr0ng-one")
    elif reason == "list":
        poe.rig.type("ip access-list standard phonerack-snmp\nno permit 127.0.0.1")
    else:
        poe.act(lambda device: device.power_cycle("test"))
    found = poe.read()
    assert set(found) == {"up", "reading_duration_seconds", "last_success_timestamp_seconds"}
    assert found["up"] == {("sw1",): 0}
    told = capfd.readouterr().err
    assert "sw1: no answer" in told
    assert COMMUNITY not in told
    assert "Wr0ng-one" not in told


def test_a_slow_switch_is_given_up_at_the_limit(poe: Watched, capfd: Any) -> None:
    poe.act(lambda device: setattr(device.knobs, "latency_seconds", 0.3))
    poe.watch = poe.watching(limit_seconds=1.0)
    began = time.monotonic()
    assert poe.read()["up"] == {("sw1",): 0}
    assert time.monotonic() - began < 10
    assert "not read to the end within 1 s" in capfd.readouterr().err
