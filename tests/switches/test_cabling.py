"""Where phones are plugged in, against where they belong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.rack.macs import normal_mac
from fleetctl.rack.model import Bundle
from fleetctl.switches.cabling import Cabling, Spot, View, compare
from fleetctl.switches.moves import Exchange

STRANGER = "02:00:00:00:00:99"


def mac(number: int) -> str:
    return f"02:00:5e:10:00:{number:02x}"


def a_rack(platforms: tuple[str, str] = ("cisco_ios", "arista_eos")) -> Rack:
    """Phones 1 to 4 on ports 1 to 4 of sw1, 5 to 8 on those of sw2; 5 free, 6 reserved, 7-8 up."""
    bundles = {"sw1": (Bundle("sw2", (7,)), Bundle("router", (8,))), "sw2": (Bundle("sw1", (7,)),)}
    switches = {
        name: Switch(name, kind, "10.0.0.2", 8, (7, 8), (6,), bundles[name])  # type: ignore[arg-type]
        for name, kind in zip(bundles, platforms, strict=True)
    }
    phones = {
        f"phone{n:03}": Phone(
            *(f"phone{n:03}", f"10.0.0.{n + 10}"),
            switch=f"sw{1 + (n - 1) // 4}",
            port=1 + (n - 1) % 4,
            mac=mac(n),
        )
        for n in range(1, 9)
    }
    return Rack("lab", Network(IPv4Network("10.0.0.0/24"), "ethernet"), phones, switches)


RACK = a_rack()
HOMES = {mac(n): Spot(f"sw{1 + (n - 1) // 4}", 1 + (n - 1) % 4) for n in range(1, 9)}
LINKS = {"sw1": {7: "sw2"}, "sw2": {7: "sw1"}}


def views(places: Mapping[str, Spot | None], blind: tuple[str, ...] = ()) -> dict[str, View | None]:
    """What the switches hear when each MAC is at its place; None is beyond the router."""
    heard: dict[str, dict[int, set[str]]] = {"sw1": {}, "sw2": {}}
    for address, place in places.items():
        for name, ports in heard.items():
            if place is None:
                port = {"sw1": 8, "sw2": 7}[name]
            else:
                port = place.port if place.switch == name else 7
            ports.setdefault(port, set()).add(address)
    return {
        name: None
        if name in blind
        else View({port: frozenset(macs) for port, macs in ports.items()}, LINKS[name])
        for name, ports in heard.items()
    }


def found(cabling: Cabling) -> list[tuple[str, str | None]]:
    return [(finding.kind, finding.phone) for finding in cabling.findings]


def at(**places: Spot | None) -> dict[str, Spot | None]:
    """The right places but for the phones named."""
    changed = {mac(int(name.removeprefix("phone"))): place for name, place in places.items()}
    return {**HOMES, **changed}


def test_a_rack_that_is_wired_as_written_has_no_findings() -> None:
    cabling = compare(RACK, views(HOMES))
    assert cabling == Cabling(tuple(RACK.phones), (), ())


def test_two_phones_swapped_are_named_with_one_exchange() -> None:
    places = at(phone001=Spot("sw1", 2), phone002=Spot("sw1", 1))
    cabling = compare(RACK, views(places))
    assert found(cabling) == [("swapped", "phone001"), ("swapped", "phone002")]
    assert cabling.findings[0].message == (
        "phone001 and phone002 are swapped: port 1 of sw1 and port 2 of sw1"
    )
    assert cabling.mend == (Exchange(Spot("sw1", 2), Spot("sw1", 1)),)


def test_a_phone_on_a_free_port_has_moved() -> None:
    cabling = compare(RACK, views(at(phone003=Spot("sw1", 5))))
    assert found(cabling) == [("moved", "phone003")]
    assert "phone003 is at port 5 of sw1 instead of port 3 of sw1" in str(cabling.findings[0])
    assert cabling.mend == (Exchange(Spot("sw1", 5), Spot("sw1", 3)),)


def test_a_phone_behind_the_wrong_switch() -> None:
    cabling = compare(RACK, views(at(phone003=Spot("sw2", 5))))
    assert found(cabling) == [("wrong-switch", "phone003")]


def test_a_phone_beyond_the_router_is_behind_that_uplink() -> None:
    cabling = compare(RACK, views(at(phone003=None)))
    assert found(cabling) == [("behind-uplink", "phone003")]
    assert "behind the uplink port 8 of sw1 (router)" in cabling.findings[0].message
    assert cabling.mend == ()


def test_a_phone_that_nobody_hears_is_missing() -> None:
    places = {address: place for address, place in HOMES.items() if address != mac(3)}
    cabling = compare(RACK, views(places))
    assert found(cabling) == [("missing", "phone003")]


def test_a_stranger_on_a_free_port_is_named_and_one_on_a_reserved_port_is_not() -> None:
    cabling = compare(RACK, views({**HOMES, STRANGER: Spot("sw1", 5)}))
    assert found(cabling) == [("stranger", None)]
    assert cabling.findings[0].message == f"{STRANGER} at port 5 of sw1 is no phone of this rack"
    assert compare(RACK, views({**HOMES, STRANGER: Spot("sw1", 6)})).findings == ()


def test_a_stranger_beside_a_phone_means_a_switch_in_between() -> None:
    cabling = compare(RACK, views({**HOMES, STRANGER: Spot("sw1", 2)}))
    assert found(cabling) == [("crowded", "phone002")]
    assert f"holds phone002 and {STRANGER}" in cabling.findings[0].message


def test_a_stranger_in_place_of_a_phone_may_be_its_new_adapter() -> None:
    places = {address: place for address, place in HOMES.items() if address != mac(3)}
    cabling = compare(RACK, views({**places, STRANGER: Spot("sw1", 3)}))
    assert found(cabling) == [("replaced", "phone003")]
    assert cabling.adoptable == {"phone003": STRANGER}


def test_a_phone_whose_mac_is_not_known_can_be_adopted() -> None:
    phones = {**RACK.phones, "phone003": replace(RACK.phones["phone003"], mac=None)}
    cabling = compare(replace(RACK, phones=phones), views(HOMES))
    assert found(cabling) == [("not-enrolled", "phone003")]
    assert cabling.adoptable == {"phone003": mac(3)}


def test_a_switch_that_could_not_be_asked_makes_its_phones_unknown_not_missing() -> None:
    cabling = compare(RACK, views(HOMES, blind=("sw2",)))
    assert found(cabling) == [("unknown", f"phone{n:03}") for n in range(5, 9)]
    assert cabling.right == tuple(f"phone{n:03}" for n in range(1, 5))


def test_a_phone_of_a_blind_switch_may_still_be_found_at_another() -> None:
    cabling = compare(RACK, views(at(phone005=Spot("sw1", 5)), blind=("sw2",)))
    assert ("wrong-switch", "phone005") in found(cabling)


def test_a_missing_phone_says_which_switches_could_not_be_asked() -> None:
    places = {address: place for address, place in HOMES.items() if address != mac(3)}
    cabling = compare(RACK, views(places, blind=("sw2",)))
    (finding,) = (item for item in cabling.findings if item.phone == "phone003")
    assert finding.kind == "missing"
    assert "sw2 could not be asked" in finding.message


def test_a_phone_behind_a_blind_switch_is_behind_the_uplink_to_it() -> None:
    cabling = compare(RACK, views(at(phone003=Spot("sw2", 5)), blind=("sw2",)))
    (finding,) = (item for item in cabling.findings if item.phone == "phone003")
    assert finding.kind == "behind-uplink"
    assert "port 7 of sw1 (sw2)" in finding.message


def test_one_mac_at_two_ports_is_a_loop_or_a_double() -> None:
    seen = views(HOMES)
    assert seen["sw1"]
    twice = View({**seen["sw1"].macs, 5: frozenset({mac(1)})}, LINKS["sw1"])
    cabling = compare(RACK, {**seen, "sw1": twice})
    assert found(cabling) == [("crowded", "phone001")]


@pytest.mark.parametrize(
    ("heard", "told"),
    [
        ({}, "uplink port 7 of sw1 should lead to sw2, but nobody answers there"),
        ({7: "core9"}, "uplink port 7 of sw1 should lead to sw2, but core9 answers there"),
        ({7: "sw2", 5: "sw2"}, "switch sw2 is at port 5 of sw1, where the rack file has no uplink"),
        ({7: "sw2", 8: "sw2"}, "switch sw2 is at port 8 of sw1, where the rack file has no uplink"),
    ],
)
def test_an_uplink_that_leads_elsewhere(heard: dict[int, str], told: str) -> None:
    seen = views(HOMES)
    assert seen["sw1"]
    cabling = compare(RACK, {**seen, "sw1": View(seen["sw1"].macs, heard)})
    (finding,) = cabling.findings
    assert finding.kind == "neighbour"
    assert told in finding.message


def test_phones_of_an_unmanaged_switch_are_behind_it_or_named() -> None:
    rack = a_rack(("cisco_ios", "unmanaged"))
    places = at(phone005=Spot("sw1", 5), phone006=None)
    del places[mac(7)]
    seen = views(places, blind=("sw2",))
    assert seen["sw1"]
    cabling = compare(rack, {**seen, "sw1": View(seen["sw1"].macs, {})})
    assert cabling.behind == {"phone008": "sw2"}
    assert cabling.right == tuple(f"phone00{n}" for n in range(1, 5))
    assert found(cabling) == [
        *(("wrong-switch", "phone005"), ("behind-uplink", "phone006")),
        ("unknown", "phone007"),
    ]


def test_lldp_that_could_not_be_read_says_nothing() -> None:
    seen = views(HOMES)
    assert seen["sw1"]
    assert compare(RACK, {**seen, "sw1": View(seen["sw1"].macs, None)}).findings == ()


spots = st.sampled_from([Spot(name, port) for name in ("sw1", "sw2") for port in range(1, 7)])


@given(st.permutations([Spot(name, port) for name in ("sw1", "sw2") for port in range(1, 7)]))
def test_after_the_exchanges_every_phone_is_right(order: list[Spot]) -> None:
    places = dict(zip([*HOMES, STRANGER], order, strict=False))
    cabling = compare(RACK, views(places))
    after = {place: address for address, place in places.items()}
    for exchange in cabling.mend:
        one, other = after.pop(exchange.one, None), after.pop(exchange.other, None)
        after |= {exchange.other: one} if one else {}
        after |= {exchange.one: other} if other else {}
    mended = compare(RACK, views({address: place for place, address in after.items()}))
    assert mended.right == tuple(RACK.phones)
    assert {finding.kind for finding in mended.findings} <= {"stranger"}


@given(
    st.dictionaries(st.sampled_from([*HOMES, STRANGER]), spots | st.none()),
    st.sets(st.sampled_from(["sw1", "sw2"])),
)
def test_every_phone_is_right_or_has_one_finding(
    places: dict[str, Spot | None], blind: set[str]
) -> None:
    cabling = compare(RACK, views(places, tuple(blind)))
    named = [finding.phone for finding in cabling.findings if finding.phone]
    assert sorted([*cabling.right, *named]) == sorted(RACK.phones)
    for name in cabling.right:
        phone = RACK.phones[name]
        assert places[phone.mac or ""] == Spot(phone.switch or "", phone.port or 0)
    for finding in cabling.findings:
        if finding.kind == "unknown":
            assert RACK.phones[finding.phone or ""].switch in blind


hexes = st.integers(min_value=0, max_value=2**48 - 1).map("{:012x}".format)


@given(hexes, st.sampled_from(["{}:{}:{}:{}:{}:{}", "{}-{}-{}-{}-{}-{}", "{}{}.{}{}.{}{}"]))
def test_macs_are_compared_in_one_form(digits: str, form: str) -> None:
    pairs = [digits[place : place + 2] for place in range(0, 12, 2)]
    assert normal_mac(form.format(*pairs).upper()) == ":".join(pairs)


@pytest.mark.parametrize("text", ["", "aabb.ccdd.eef", "port 3", "gg:00:00:00:00:00"])
def test_what_is_no_mac_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no MAC address"):
        normal_mac(text)
