"""What the verify phase says of links: slow ones by their class, and what nobody knows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from test_links import rack

from fleetctl.bench.links import Flow, Pair
from fleetctl.bench.nominal import nominal_mbits
from fleetctl.bench.verify import notes, read_asked
from fleetctl.checks.links import Asked, LinkCounters
from fleetctl.rack import Rack, RackPaths

FINE = LinkCounters(speed_bytes=125e6, full_duplex=1)
PAIRS = [Pair("phone000", "phone002"), Pair("phone001", "phone003")]


def managed(snmp: str | None = "snmp_community") -> Rack:
    plain = rack(4)
    switches = {
        name: replace(switch, platform="cisco_ios", address="10.0.0.2")
        for name, switch in plain.switches.items()
    }
    network = replace(plain.network, snmp_community=snmp)
    return replace(plain, switches=switches, network=network)


def flows(*mbits: float) -> list[Flow]:
    return [Flow(pair, goodput) for pair, goodput in zip(PAIRS, mbits, strict=True)]


def test_nothing_is_said_of_links_that_are_as_they_should_be() -> None:
    told = dict.fromkeys(managed().phones, FINE)
    assert notes(managed(), list(managed().phones), flows(940, 930), told, {}, 1000) == []


def test_what_a_pair_carries_is_classified_and_the_switch_tells_which_phone_is_meant() -> None:
    names = list(managed().phones)
    slow = LinkCounters(speed_bytes=12.5e6, full_duplex=1)
    told = dict.fromkeys(names, FINE) | {"phone003": slow}
    said = notes(managed(), names, flows(290, 94), told, {}, 1000)
    assert said == [
        "phone000 or phone002: carries 290 Mb/s over two links of 1000 Mb/s",
        "phone003: 100 Mb/s link: carries 94 of 1000 Mb/s",
        "phone003: 100 Mb/s link",
    ]
    unmanaged = rack(4)
    said = notes(unmanaged, names, flows(290, 94), None, {}, 1000)
    assert said == [
        "phone000 or phone002: USB 2 hub: carries 290 of 1000 Mb/s",
        "phone001 or phone003: 100 Mb/s link: carries 94 of 1000 Mb/s",
    ]
    assert notes(unmanaged, names, flows(94, 95), None, {}, 100) == []


@pytest.mark.parametrize(
    ("snmp", "why"),
    [
        (None, "`network:` in the rack file has no `snmp:`"),
        ("snmp_community", "the switch exporter has recorded nothing of them yet"),
    ],
)
def test_links_of_which_nothing_is_known_are_named(snmp: str | None, why: str) -> None:
    here = managed(snmp)
    (said,) = notes(here, list(here.phones), flows(940, 940), None, {}, 1000)
    assert "speed, duplex, errors and flaps of phone[000-003] are not known" in said
    assert why in said
    told = dict.fromkeys(["phone000", "phone001", "phone002"], FINE)
    (said,) = notes(here, list(here.phones), flows(940, 940), told, {}, 1000)
    assert "flaps of phone003 are not known" in said


def test_what_a_switch_was_asked_counts_before_what_is_recorded() -> None:
    names = list(managed().phones)
    fine, slow = Asked(1000, True), Asked(100, False)
    asked = dict.fromkeys(names, fine) | {"phone003": slow}
    told = dict.fromkeys(names, FINE) | {"phone003": replace(FINE, flaps=2)}
    assert notes(managed(), names, flows(940, 94), told, asked, 1000) == [
        "phone003: 100 Mb/s link: carries 94 of 1000 Mb/s",
        "phone003: 100 Mb/s link, half duplex, its link came and went 2 times",
    ]


def test_where_nothing_is_recorded_the_switch_tells_speed_and_duplex_at_least() -> None:
    here = managed(None)
    names = list(here.phones)
    link = {"speed_mbits": 1000, "full_duplex": True}
    asked = read_asked(json.dumps(dict.fromkeys(names, link)))
    (said,) = notes(here, names, flows(940, 940), None, asked, 1000)
    assert said.startswith("errors and flaps of phone[000-003] are not known")
    asked["phone001"] = Asked(1000, False)
    assert "phone001: half duplex" in notes(here, names, flows(940, 940), None, asked, 1000)
    del asked["phone000"]
    *_, said = notes(here, names, flows(940, 940), None, asked, 1000)
    assert said.startswith("speed, duplex, errors and flaps of")
    assert read_asked("") == {}


def test_a_stand_in_rack_says_what_its_links_carry(tmp_path: Path) -> None:
    paths = RackPaths("lab", tmp_path)
    assert nominal_mbits(paths) == 1000
    paths.standin.mkdir(parents=True)
    for rate, mbits in (("100mbit", 100), ("1gbit", 1000), ("2.5gbit", 2500), (None, 1000)):
        (paths.standin / "up.json").write_text(json.dumps({"rate": rate}))
        assert nominal_mbits(paths) == mbits
