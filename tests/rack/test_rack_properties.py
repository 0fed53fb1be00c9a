"""Rack files of any content: what is written comes back, what is wrong is refused as such."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack import Rack, RackError, load_rack
from fleetctl.rack.nodesets import fold


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHONERACK_HOME", name)
        yield Path(name)


def load(content: bytes | dict[str, Any]) -> Rack:
    # JSON is YAML too.
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    path = Path(os.environ["PHONERACK_HOME"]) / "rack.yml"
    path.write_bytes(text)
    return load_rack(path)


@st.composite
def rack_files(draw: st.DrawFn) -> dict[str, Any]:
    """A right rack file: groups of phones in one row each, on a switch of their own or none."""
    sizes = draw(st.lists(st.integers(min_value=1, max_value=30), min_size=1, max_size=6))
    phones, switches, number = [], {}, 0
    for place, size in enumerate(sizes, 1):
        names = [f"phone{number + n:03}" for n in range(1, size + 1)]
        first = IPv4Address("10.0.1.0") + number + 1
        number += size
        group: dict[str, Any] = {"addresses": f"{first}-{first + size - 1}"}
        if draw(st.booleans()):
            group["names"] = fold(names)
        if draw(st.booleans()):
            start = draw(st.integers(min_value=1, max_value=9))
            switches[f"sw{place}"] = {"ports": 48, "uplinks": "45-48"}
            group |= {"switch": f"sw{place}", "ports": f"{start}-{start + size - 1}"}
        phones.append(group)
    network = {"cidr": "10.0.0.0/16", "medium": "ethernet"}
    return {"rack": "lab", "network": network, "switches": switches, "phones": phones}


@given(rack_files())
def test_what_is_written_comes_back(content: dict[str, Any]) -> None:
    phones = list(load(content).phones.values())
    assert [p.name for p in phones] == [f"phone{n:03}" for n in range(1, len(phones) + 1)]
    assert [p.address for p in phones] == [
        str(IPv4Address("10.0.1.0") + n) for n in range(1, len(phones) + 1)
    ]
    for group in content["phones"]:
        first, _, last = group["addresses"].partition("-")
        members = [p for p in phones if IPv4Address(first) <= IPv4Address(p.address)]
        members = [p for p in members if IPv4Address(p.address) <= IPv4Address(last)]
        assert {p.switch for p in members} == {group.get("switch")}
        if "ports" in group:
            low, _, high = group["ports"].partition("-")
            assert [p.port for p in members] == list(range(int(low), int(high) + 1))


@given(rack_files(), st.data())
def test_an_address_given_twice_is_refused_and_both_owners_named(
    content: dict[str, Any], data: st.DataObject
) -> None:
    phone = data.draw(st.sampled_from(list(load(content).phones.values())))
    content["phones"].append({"names": "thief", "addresses": phone.address})
    with pytest.raises(RackError) as caught:
        load(content)
    (mistake,) = caught.value.mistakes
    assert f"address {phone.address} of thief belongs to {phone.name} already" in mistake.what


@given(rack_files(), st.data())
def test_a_port_given_twice_is_refused_and_both_owners_named(
    content: dict[str, Any], data: st.DataObject
) -> None:
    wired = [phone for phone in load(content).phones.values() if phone.port]
    if not wired:
        return
    phone = data.draw(st.sampled_from(wired))
    thief = {"names": "thief", "addresses": "10.0.9.9", "switch": phone.switch}
    content["phones"].append(thief | {"ports": str(phone.port)})
    with pytest.raises(RackError) as caught:
        load(content)
    (mistake,) = caught.value.mistakes
    assert mistake.what.startswith(
        f"thief on port {phone.port} of {phone.switch}, where {phone.name} is"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(rack_files(), st.data())
def test_whatever_stands_at_a_place_a_refusal_names_a_line(
    content: dict[str, Any], data: st.DataObject
) -> None:
    place: Any = content
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else [0]))
        inner = place[key]
        if not inner or not isinstance(inner, dict | list) or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(json_values)
    refusal = None
    try:
        load(content)
    except RackError as problem:
        refusal = problem
    assert refusal is None or refusal.mistakes


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_rack_or_refused_as_none(content: bytes) -> None:
    with contextlib.suppress(RackError):
        load(content)
