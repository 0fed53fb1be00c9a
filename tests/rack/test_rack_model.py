"""Properties of ring order, node sets and ranges for racks of any shape."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import Network, Phone, Rack, RackError, Switch
from fleetctl.rack.nodesets import expand, fold, parse_ranges

NETWORK = Network(cidr=IPv4Network("10.0.0.0/16"), medium="ethernet")
SWITCHES = ("sw1", "sw2", "sw3")


@st.composite
def racks(draw: st.DrawFn) -> Rack:
    """Racks whose phones stand in any order on any ports, some without a switch."""
    spots = [(switch, port) for switch in SWITCHES for port in range(1, 9)]
    wired = draw(st.lists(st.sampled_from(spots), unique=True, max_size=20))
    loose = draw(st.integers(min_value=0 if wired else 1, max_value=5))
    places = draw(st.permutations([*wired, *[(None, None)] * loose]))
    groups = st.sampled_from([None, "old", "new"])
    phones = {}
    for number, (switch, port) in enumerate(places, 1):
        name = f"phone{number:03}"
        address = str(IPv4Address("10.0.1.0") + number)
        phones[name] = Phone(name, address, draw(groups), switch=switch, port=port)
    return Rack("lab", NETWORK, phones, {name: Switch(name, ports=8) for name in SWITCHES})


@given(racks())
def test_the_ring_holds_every_phone_once(rack: Rack) -> None:
    assert sorted(rack.ring()) == sorted(rack.phones)


@given(racks())
def test_the_ring_enters_each_switch_once_and_follows_its_ports(rack: Rack) -> None:
    ring = [rack.phones[name] for name in rack.ring()]
    crossings = sum(a.switch != b.switch for a, b in pairwise(ring))
    assert crossings == len({phone.switch for phone in ring}) - 1
    for one, other in pairwise(ring):
        if one.switch == other.switch and one.port and other.port:
            assert one.port < other.port


@given(racks(), st.data())
def test_the_ring_of_some_phones_is_the_rings_order_without_the_others(
    rack: Rack, data: st.DataObject
) -> None:
    some = data.draw(st.sets(st.sampled_from(list(rack.phones))))
    assert rack.ring(some) == [name for name in rack.ring() if name in some]


@given(racks())
def test_phones_without_a_switch_keep_rack_order_at_the_end(rack: Rack) -> None:
    loose = [name for name, phone in rack.phones.items() if phone.switch is None]
    assert rack.ring()[len(rack.phones) - len(loose) :] == loose


@given(racks(), st.data())
def test_node_set_algebra_is_set_algebra(rack: Rack, data: st.DataObject) -> None:
    names = st.sets(st.sampled_from(list(rack.phones)), min_size=1)
    one, other = data.draw(names), data.draw(names)
    a, b = fold(one), fold(other)

    def in_rack_order(members: set[str]) -> list[str]:
        return [name for name in rack.phones if name in members]

    assert rack.select(f"{a},{b}") == in_rack_order(one | other)
    assert rack.select(f"{a}!{b}") == in_rack_order(one - other)
    assert rack.select(f"{a}&{b}") == in_rack_order(one & other)
    assert rack.select(f"{a}^{b}") == in_rack_order(one ^ other)
    assert rack.select(f"{a}!@drained", {"drained": other}) == in_rack_order(one - other)


@given(racks())
def test_groups_are_node_sets(rack: Rack) -> None:
    for group, members in rack.groups.items():
        assert rack.select(f"@{group}") == members
    assert rack.select("@phones") == list(rack.phones) == rack.select("phone*")
    assert sorted(rack.select("@sw1,@sw2,@sw3")) == sorted(
        name for name, phone in rack.phones.items() if phone.switch
    )


SMALL = Rack(
    "lab", NETWORK, {f"phone{n:03}": Phone(f"phone{n:03}", f"10.0.0.{n}") for n in range(1, 4)}
)


@pytest.mark.parametrize(
    ("node_set", "message"),
    [
        ("phone004", "no phone phone004 in this rack; did you mean"),
        ("phone[003-008]", "no phone phone004, phone005, phone006 and 2 more in this rack"),
        ("phone1", "no phone phone1 in this rack"),
        ("@drainde", "no group `@drainde` in this rack; did you mean `drained`"),
        ("phone001!@nope", "no group `@nope`"),
        ("phone[001", "`phone[001` is no node set"),
        ("phone[1-99999999]", "no rack has so many phones"),
    ],
)
def test_unknown_and_malformed_node_sets_are_refused(node_set: str, message: str) -> None:
    with pytest.raises(RackError) as caught:
        SMALL.select(node_set, {"drained": []})
    assert message in str(caught.value)


def test_an_empty_group_is_an_empty_node_set() -> None:
    assert SMALL.select("@drained", {"drained": []}) == []


@given(st.lists(st.integers(min_value=0, max_value=999), unique=True, min_size=1).map(sorted))
def test_folding_and_expanding_are_inverse(numbers: list[int]) -> None:
    names = [f"phone{number:03}" for number in numbers]
    assert expand(fold(names)) == names


@given(st.lists(st.integers(min_value=0, max_value=9999), min_size=1))
def test_ranges_keep_the_order_in_which_they_are_written(numbers: list[int]) -> None:
    assert parse_ranges(",".join(map(str, numbers))) == numbers


@given(st.integers(min_value=0, max_value=999), st.integers(min_value=0, max_value=99))
def test_a_range_holds_both_its_ends(first: int, more: int) -> None:
    assert parse_ranges(f"{first}-{first + more}") == list(range(first, first + more + 1))


@pytest.mark.parametrize("text", ["", "3-1", "a", "1-2-3", "1,,2", "-4", "1-999999999"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(RackError, match="is no range"):
        parse_ranges(text)


def test_names_expand_in_the_order_in_which_they_are_written() -> None:
    assert expand("kitchen,attic,s10-[1-2]") == ["kitchen", "attic", "s10-1", "s10-2"]
