"""What our own DHCP server hands out, to phones that are known and to those that are waited for."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import Network, Phone, Rack, Switch, dhcp

CIDR = IPv4Network("10.1.0.0/27")


def rack(phones: list[Phone], **network: object) -> Rack:
    ours = Network(CIDR, "ethernet", "ours", controller="10.1.0.1", services="10.1.0.2")
    return Rack("lab", replace(ours, **network), {phone.name: phone for phone in phones})


def phone(
    place: int, serial: str | None = "S", mac: str | None = None, adb_open: bool = False
) -> Phone:
    address = f"10.1.0.{place}"
    return Phone(f"phone{place:03}", address, serial=serial, mac=mac, adb_open=adb_open)


def test_a_phone_whose_adapter_is_known_has_a_reservation() -> None:
    known = phone(11, mac="02:00:00:00:00:01")
    assert dhcp.reservations(rack([known, phone(12)])) == [
        "02:00:00:00:00:01,10.1.0.11,phone011,infinite"
    ]


def test_strangers_get_nothing_unless_a_phone_is_waited_for() -> None:
    known = phone(11, mac="02:00:00:00:00:01")
    assert dhcp.guest_range(rack([known])) is None
    assert dhcp.guest_range(rack([known, phone(12, serial=None)])) is None
    assert dhcp.guest_range(rack([known, phone(12)], dhcp="theirs")) is None
    assert dhcp.guest_range(rack([known, phone(12)])) == dhcp.GuestRange("10.1.0.13", "10.1.0.30")


def test_a_known_adapter_proves_no_wire() -> None:
    again = phone(11, mac="02:00:00:00:00:01", adb_open=True)
    assert dhcp.waiting(rack([again])) == ["phone011"]
    assert dhcp.nowhere(rack([again])) == []
    assert dhcp.waiting(rack([phone(11, serial=None, mac="02:00:00:00:00:01")])) == []


def test_a_full_network_has_no_room_for_guests() -> None:
    assert dhcp.guest_range(rack([phone(place) for place in range(3, 31)])) is None


@given(st.sets(st.integers(3, 30), min_size=1))
def test_guests_get_what_belongs_to_nobody(places: set[int]) -> None:
    planned = rack([phone(place) for place in sorted(places)])
    planned = replace(planned, switches={"sw1": Switch("sw1", address="10.1.0.30")})
    found = dhcp.guest_range(planned)
    free = set(CIDR.hosts()) - {IPv4Address(f"10.1.0.{last}") for last in {1, 2, 30, *places}}
    if found is None:
        assert not free
        return
    first, last = IPv4Address(found.first), IPv4Address(found.last)
    span = {first + step for step in range(int(last) - int(first) + 1)}
    assert span <= free
    assert first - 1 not in free
    assert last + 1 not in free
