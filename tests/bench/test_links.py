"""What measured links mean: classes, pairs, spreads."""

from __future__ import annotations

import json
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.bench.links import (
    Flow,
    Pair,
    Spread,
    disjoint_pairs,
    link_class,
    payload_bytes,
    ring_pairs,
    second_looks,
    slow_phones,
    spread,
    steps,
)
from fleetctl.bench.net import read_report
from fleetctl.checks.links import LinkCounters
from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.remote.fleet import Result


def rack(phones: int, switches: int = 2) -> Rack:
    each = -(-phones // switches)
    return Rack(
        "lab",
        Network(IPv4Network("10.0.0.0/24"), "ethernet"),
        {
            f"phone{n:03}": Phone(
                f"phone{n:03}", f"10.0.0.{n + 10}", switch=f"sw{n // each + 1}", port=n % each + 1
            )
            for n in range(phones)
        },
        {f"sw{n + 1}": Switch(f"sw{n + 1}") for n in range(switches)},
    )


@pytest.mark.parametrize(
    ("mbits", "nominal", "kind"),
    [
        (941, 1000, "full speed"),
        (600, 1000, "below full speed"),
        (300, 1000, "USB 2 hub"),
        (280, 1000, "USB 2 hub"),
        (94, 1000, "100 Mb/s link"),
        (9, 1000, "slower"),
        # a stand-in rack whose links are shaped to a tenth
        (95, 100, "full speed"),
        (30, 100, "USB 2 hub"),
        (9.5, 100, "100 Mb/s link"),
    ],
)
def test_the_class_of_a_link(mbits: float, nominal: float, kind: str) -> None:
    assert link_class(mbits, nominal) == kind


def flow(sender: str, receiver: str, mbits: float | None) -> Flow:
    return Flow(Pair(sender, receiver), mbits)


def test_the_slow_phone_is_named_and_not_its_neighbours() -> None:
    ring = [
        flow("a", "b", 94.0),
        flow("b", "c", 94.0),
        flow("c", "d", 940.0),
        flow("d", "a", 940.0),
    ]
    assert slow_phones(ring, 1000, {}) == {"b": "100 Mb/s link: carries 94 of 1000 Mb/s"}


def test_a_slow_phone_on_a_fast_link_is_told_from_a_slow_link() -> None:
    ring = [
        *(flow("a", "b", 94.0), flow("b", "c", 94.0), flow("c", "d", 940.0)),
        *(flow("d", "e", 94.0), flow("e", "a", 94.0), flow("a", "c", 940.0)),
    ]
    found = slow_phones(ring, 1000, {"b": 1000, "e": 100})
    assert found == {
        "b": "carries 94 Mb/s over a link of 1000 Mb/s",
        "e": "100 Mb/s link: carries 94 of 1000 Mb/s",
    }


def test_of_two_phones_only_the_switch_can_tell_which_is_slow() -> None:
    pair = [flow("a", "b", 94.0), flow("b", "a", 93.0)]
    what = "100 Mb/s link: carries 94 of 1000 Mb/s"
    assert slow_phones(pair, 1000, {"a": 1000, "b": 100}) == {"b": what}
    assert slow_phones(pair, 1000, {"a": 1000}) == {"a or b": what}
    assert slow_phones(pair, 1000, {"a": 1000, "b": 1000}) == {
        "a or b": "carries 94 Mb/s over two links of 1000 Mb/s"
    }
    assert slow_phones(pair, 1000, {}) == {"a or b": what}
    assert slow_phones([flow("a", "b", 940.0)], 1000, {}) == {}


def test_a_phone_between_two_slow_ones_is_measured_with_a_fast_one_and_cleared() -> None:
    ring = [
        *(flow("a", "b", 300.0), flow("b", "c", 300.0), flow("c", "d", 94.0)),
        *(flow("d", "e", 94.0), flow("e", "f", 940.0), flow("f", "a", 940.0)),
    ]
    # b and d are slow; c is between them, and a and e were fast with f.
    assert second_looks(ring, 1000) == [Pair("c", "a")]
    assert slow_phones(ring, 1000, {}).keys() == {"b", "c", "d"}
    assert slow_phones([*ring, flow("c", "a", 940.0)], 1000, {}) == {
        "b": "USB 2 hub: carries 300 of 1000 Mb/s",
        "d": "100 Mb/s link: carries 94 of 1000 Mb/s",
    }


def test_where_slow_and_good_phones_alternate_the_good_ones_meet() -> None:
    ring = [
        *(flow("a", "b", 94.0), flow("b", "c", 94.0)),
        *(flow("c", "d", 300.0), flow("d", "a", 300.0)),
    ]
    assert second_looks(ring, 1000) == [Pair("a", "c"), Pair("b", "d")]
    looked = [*ring, flow("a", "c", 940.0), flow("b", "d", 94.0)]
    assert slow_phones(looked, 1000, {}) == {
        "b": "100 Mb/s link: carries 94 of 1000 Mb/s",
        "d": "USB 2 hub: carries 300 of 1000 Mb/s",
    }


def test_of_a_slow_pair_each_is_measured_with_somebody_fast_if_there_is_anybody() -> None:
    pairs = [flow("a", "b", 94.0), flow("c", "d", 940.0)]
    assert second_looks(pairs, 1000) == [Pair("a", "c"), Pair("b", "c")]
    looked = [*pairs, flow("a", "c", 940.0), flow("b", "c", 94.0)]
    assert slow_phones(looked, 1000, {}) == {"b": "100 Mb/s link: carries 94 of 1000 Mb/s"}
    assert second_looks(looked, 1000) == []
    assert second_looks(pairs[:1], 1000) == []
    assert second_looks(pairs[1:], 1000) == []


def test_a_flow_that_failed_names_nobody_as_slow() -> None:
    assert slow_phones([flow("a", "b", None)], 1000, {}) == {}


@given(st.integers(0, 40), st.integers(1, 4))
def test_disjoint_pairs_have_each_phone_once(phones: int, switches: int) -> None:
    made = rack(phones, switches)
    pairs = disjoint_pairs(made, list(made.phones))
    members = [name for pair in pairs for name in (pair.sender, pair.receiver)]
    assert len(members) == len(set(members)) == phones - phones % 2


def test_pairs_cross_the_uplink() -> None:
    made = rack(8)
    for pair in disjoint_pairs(made, list(made.phones)):
        assert made.phones[pair.sender].switch != made.phones[pair.receiver].switch


@given(st.integers(2, 40))
def test_in_the_ring_every_phone_sends_once_and_receives_once(phones: int) -> None:
    made = rack(phones)
    pairs = ring_pairs(made, list(made.phones))
    assert sorted(pair.sender for pair in pairs) == sorted(made.phones)
    assert sorted(pair.receiver for pair in pairs) == sorted(made.phones)
    assert all(pair.sender != pair.receiver for pair in pairs)


def test_one_phone_is_no_ring() -> None:
    assert ring_pairs(rack(1), ["phone000"]) == []


@pytest.mark.parametrize(
    ("pairs", "found"),
    [(0, []), (1, [1]), (2, [1, 2]), (5, [1, 2, 4, 5]), (69, [1, 2, 4, 8, 16, 32, 64, 69])],
)
def test_steps_double_and_end_with_all(pairs: int, found: list[int]) -> None:
    assert steps(pairs) == found


def test_a_spread_is_of_what_was_carried() -> None:
    found = spread([flow("a", "b", 100.0), flow("c", "d", 200.0), flow("e", "f", None)])
    assert found == Spread(phones=6, mean_mbits=150.0, deviation_mbits=50.0, flows=2)
    assert spread([flow("a", "b", None)]) is None


def test_a_packet_of_the_mtu_holds_so_much() -> None:
    assert payload_bytes(1500) == 1472


PAIR = Pair("a", "b")


def test_a_report_of_iperf3() -> None:
    report = {"end": {"sum_received": {"bits_per_second": 9.4e8}, "sum_sent": {"retransmits": 3}}}
    assert read_report(PAIR, Result(0, json.dumps(report))) == Flow(PAIR, 940.0, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"error": "unable to connect to server: Connection refused"}', "Connection refused"),
        ("", "no report"),
    ],
)
def test_a_report_that_is_none_says_why(text: str, told: str) -> None:
    found = read_report(PAIR, Result(0, text))
    assert found.goodput_mbits is None
    assert told in (found.problem or "")


def test_a_report_tells_why_the_server_did_not_run() -> None:
    server = Result(127, stderr="iperf3: command not found\n")
    found = read_report(PAIR, Result(0, '{"error": "Connection refused"}'), server)
    assert "b: exit code 127: iperf3: command not found" in (found.problem or "")


def test_flaps_and_damaged_frames_are_trouble_and_discards_are_not() -> None:
    assert LinkCounters(transmit_discards=500).trouble == ""
    told = LinkCounters(flaps=3, receive_errors=12).trouble
    assert told == "its link came and went 3 times, 12 damaged frames came from it"
    assert LinkCounters(speed_bytes=12.5e6, full_duplex=0).trouble == "100 Mb/s link, half duplex"
    assert LinkCounters(speed_bytes=125e6, full_duplex=1).trouble == ""


def test_frames_that_could_not_be_sent_are_trouble() -> None:
    assert LinkCounters(transmit_errors=3).trouble == "3 frames could not be sent to it"
