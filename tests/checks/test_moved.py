"""Phones that somebody else's DHCP server has moved are found by their host keys."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from loopback_phones import Listen, Loopback, listen, loopback

from fleetctl.checks import moved
from fleetctl.checks.moved import find, known_keys, worth_a_search
from fleetctl.checks.phone import PhoneFacts, judge
from fleetctl.rack import Network, Phone, Rack

__all__ = ["listen", "loopback"]

RACK = Rack(
    "home",
    Network(IPv4Network("127.77.0.0/28"), "wifi", "theirs"),
    {f"phone00{n}": Phone(f"phone00{n}", f"127.77.0.{n + 10}") for n in (1, 2, 3)},
)
GONE = PhoneFacts("phone001", "127.77.0.11", problem="no answer", reached=False, answered=False)


def test_a_phone_is_found_where_it_answers_now(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> dict[str, str]:
        # These two answer at .1 and .2, the rack file has them at .11 and .12.
        async with listen("phone001", "phone002"):
            keys = known_keys(loopback.known_hosts)
            found = await find(RACK, ["phone001", "phone003"], keys, loopback.port)
            return {**found.phones}

    assert asyncio.run(scene()) == {"phone001": "127.77.0.1"}


def test_the_search_of_a_large_network_has_one_limit_and_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def silent(address: str, *_: object) -> None:
        asked.append(address)
        await asyncio.sleep(60)

    monkeypatch.setattr(moved, "host_key", silent)
    monkeypatch.setattr(moved, "SEARCH_SECONDS", 0.01)
    wide = replace(RACK, network=replace(RACK.network, cidr=IPv4Network("127.77.0.0/20")))

    found = asyncio.run(find(wide, ["phone002"], {}))

    assert (found.phones, found.asked, found.places) == ({}, 0, 4092)
    assert len(asked) == moved.ASKED_AT_ONCE
    # Next to where it was (.12), but for those of phones that are where they were (.11, .13).
    assert asked[:4] == ["127.77.0.12", "127.77.0.10", "127.77.0.14", "127.77.0.9"]


def test_whoever_has_a_key_that_was_revoked_is_nobody(loopback: Loopback) -> None:
    loopback.add("phone001")
    with loopback.known_hosts.open("a") as file:
        file.write("@revoked * ssh-ed25519 AAAA\n@cert-authority phone001 ssh-ed25519 BBBB\n")

    assert list(known_keys(loopback.known_hosts).values()) == ["phone001"]


@pytest.mark.parametrize(
    ("network", "facts", "searched"),
    [
        (RACK.network, GONE, ["phone001"]),
        (RACK.network, replace(GONE, answered=None), ["phone001"]),
        (RACK.network, replace(GONE, answered=True), []),
        (replace(RACK.network, dhcp="ours"), GONE, []),
        (replace(RACK.network, cidr=IPv4Network("10.0.0.0/8")), GONE, []),
    ],
)
def test_only_phones_that_others_may_have_moved_are_searched_for(
    network: Network, facts: PhoneFacts, searched: list[str]
) -> None:
    assert worth_a_search({"phone001": facts}, replace(RACK, network=network)) == searched


def test_the_check_says_where_the_phone_is_and_where_it_should_be() -> None:
    outcomes = judge({"phone001": replace(GONE, moved_to="127.77.0.9")}, RACK)["phone001"]

    said = {o.check.name: o.result for o in outcomes}
    assert said["address"].status == "CRITICAL"
    assert "answers at 127.77.0.9 now, not at 127.77.0.11" in said["address"].message
