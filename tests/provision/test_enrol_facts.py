"""Which phones can serve, and which place each takes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.provision.enrol_facts import (
    Found,
    Interface,
    assign,
    find_interface,
    understand,
    unfit,
)
from fleetctl.rack import InputError, Network, Phone, Rack
from fleetctl.rack.lock import Locked

GOOD = Found(
    link="R58M1",
    serial="R58M1",
    model="SM-G975F",
    manufacturer="samsung",
    api_level=31,
    abis=("arm64-v8a", "armeabi-v7a"),
    memory_bytes=8 << 30,
    storage_bytes=90 << 30,
)
PLACE = Phone("phone001", "10.0.0.11")

SAID = """@@phonerack
[ro.build.version.sdk]: [31]
[ro.product.cpu.abilist]: [arm64-v8a,armeabi-v7a,armeabi]
[ro.product.manufacturer]: [samsung]
[ro.product.model]: [SM-G975F]
[ro.serialno]: [R58M123]
@@phonerack
MemTotal:        7768884 kB
MemFree:          112345 kB
@@phonerack
Filesystem       1K-blocks     Used Available Use% Mounted on
/dev/block/sda31 113245184 20245184  92999900  18% /data
@@phonerack
package:com.termux versionCode:118
package:org.example versionCode:1002000
@@phonerack
    signatures=PackageSignatures{6ce5cf8 version:2, signatures:[e3ca78d8], past signatures:[1f]}
@@phonerack
@@phonerack
    signatures=PackageSignatures{6ce5cf8 version:2, signatures:[], past signatures:[]}
"""


def rack(*phones: Phone) -> Rack:
    network = Network(IPv4Network("10.0.0.0/24"), "ethernet")
    return Rack("lab", network, {phone.name: phone for phone in phones})


def places(count: int) -> Rack:
    return rack(*(Phone(f"phone{place:03}", f"10.0.0.{place}") for place in range(1, count + 1)))


def phones(*serials: str) -> list[Found]:
    return [replace(GOOD, serial=serial, link=serial) for serial in serials]


def test_what_the_phones_shell_prints_is_understood() -> None:
    found = understand("usb", SAID)
    assert (found.serial, found.model, found.manufacturer) == ("R58M123", "SM-G975F", "samsung")
    assert (found.api_level, found.abis[0]) == (31, "arm64-v8a")
    assert found.memory_bytes == 7768884 << 10
    assert found.storage_bytes == 92999900 << 10
    assert found.apps == {"com.termux": 118, "org.example": 1002000}
    assert found.signatures == {"com.termux": "e3ca78d8"}


@given(st.text(max_size=300))
def test_whatever_it_prints_there_is_an_answer(said: str) -> None:
    understand("usb", said)
    understand("usb", f"@@phonerack{said}@@phonerack{said}")


def test_a_good_phone_is_fit() -> None:
    assert unfit(GOOD, PLACE) == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"abis": ("armeabi-v7a",)}, "needs arm64-v8a"),
        ({"abis": ()}, "nothing that it tells"),
        ({"api_level": 27}, "Android 9"),
        ({"memory_bytes": 1 << 30}, "1.0 GiB of memory"),
        ({"storage_bytes": 3 << 30}, "3.0 GiB of free storage"),
    ],
)
def test_an_unfit_phone_is_refused_with_the_reason(wrong: dict[str, object], reason: str) -> None:
    reasons = unfit(replace(GOOD, **wrong), PLACE)
    assert len(reasons) == 1
    assert reason in reasons[0]


def test_all_reasons_are_told_at_once() -> None:
    assert len(unfit(replace(GOOD, api_level=21, memory_bytes=0, storage_bytes=0), PLACE)) == 3


def test_new_phones_take_the_free_places_in_order() -> None:
    lock = {"phone002": Locked(serial="OLD")}
    taken = assign(phones("A", "B"), places(4), lock)
    assert taken.places == {"A": "phone001", "B": "phone003"}


def test_a_phone_that_is_known_keeps_its_place_whatever_its_uid_or_link_is() -> None:
    lock = {"phone003": Locked(serial="A")}
    found = [replace(phone, link="10.0.0.9:5555") for phone in phones("A")]
    assert assign(found, places(4), lock).places == {"A": "phone003"}


def test_a_place_of_one_model_is_for_that_model() -> None:
    mixed = rack(
        Phone("phone001", "10.0.0.1", model="SM-G973F"), Phone("phone002", "10.0.0.2", model=None)
    )
    assert assign(phones("A"), mixed, {}).places == {"A": "phone002"}
    only = rack(Phone("phone001", "10.0.0.1", model="SM-G973F"))
    refused = assign(phones("A"), only, {}).refused["A"]
    assert "it is a SM-G975F" in refused
    assert "SM-G973F" in refused


def test_a_phone_too_many_is_refused() -> None:
    taken = assign(phones("A", "B"), places(1), {})
    assert taken.places == {"A": "phone001"}
    assert "all 1 places of the rack file are taken" in taken.refused["B"]


def test_a_processor_that_no_place_is_for_is_told() -> None:
    x86 = replace(GOOD, abis=("x86_64",))
    assert "needs arm64-v8a" in assign([x86], places(1), {}).refused[GOOD.serial]


def test_a_serial_that_is_enrolled_takes_no_second_place() -> None:
    lock = {"phone001": Locked(serial="A")}
    with pytest.raises(InputError, match="A is phone001 already"):
        assign(phones("A"), places(2), lock, name="phone002")


def test_a_place_that_is_taken_is_not_given_away() -> None:
    lock = {"phone001": Locked(serial="OLD")}
    with pytest.raises(InputError, match=r"--replace phone001 --serial A"):
        assign(phones("A"), places(2), lock, name="phone001")


def test_one_name_is_for_one_phone() -> None:
    with pytest.raises(InputError, match="adb sees 2"):
        assign(phones("A", "B"), places(2), {}, name="phone001")
    with pytest.raises(InputError, match="not in the rack file"):
        assign(phones("A"), places(2), {}, name="phone009")


@given(st.lists(st.sampled_from("ABCDEFGH"), unique=True), st.integers(1, 8), st.data())
def test_no_two_phones_take_one_place(serials: list[str], count: int, data: st.DataObject) -> None:
    planned = places(count)
    known = data.draw(st.lists(st.sampled_from("ABCDEFGHXYZ"), unique=True, max_size=count))
    lock = dict(zip(planned.phones, [Locked(serial=serial) for serial in known], strict=False))
    taken = assign(phones(*serials), planned, lock)
    assert len(set(taken.places.values())) == len(taken.places)
    assert set(taken.places) | set(taken.refused) == set(serials)
    for serial, name in taken.places.items():
        assert lock.get(name, Locked(serial=serial)).serial == serial


IP = """1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
21: rmnet0    inet 10.77.3.4/30 scope global rmnet0\\       valid_lft forever
30: wlan0    inet 192.168.1.20/24 brd 192.168.1.255 scope global wlan0\\       valid_lft forever
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue\\    link/loopback 00:00:00:00:00:00 brd 0
21: rmnet0: <UP,LOWER_UP> mtu 1500 qdisc mq state UNKNOWN\\    link/[519]
30: wlan0: <BROADCAST,UP,LOWER_UP> mtu 1500 qdisc mq\\    link/ether 3A:11:22:33:44:55 brd ff:ff
"""


def test_a_phones_wifi_is_known_by_the_racks_network() -> None:
    found = find_interface(IP, IPv4Network("192.168.1.0/24"))
    assert found == Interface("192.168.1.20", "3a:11:22:33:44:55")
    for other in ("192.168.2.0/24", "10.77.3.0/24", "127.0.0.0/8"):
        assert find_interface(IP, IPv4Network(other)) is None


@given(st.text())
def test_whatever_ip_prints_there_is_an_answer(text: str) -> None:
    find_interface(text, IPv4Network("10.0.0.0/8"))
