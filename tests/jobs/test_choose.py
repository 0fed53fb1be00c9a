"""Which phones a job gets, and what is said when they are too few."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.errors import ExitCode
from fleetctl.jobs.choose import (
    Again,
    Candidates,
    Wish,
    batches,
    candidates,
    enough,
    pick,
    read_wish,
    too_few,
)
from fleetctl.jobs.jobfile import JobError
from fleetctl.rack import Network, Phone, Rack, RackError, Switch
from fleetctl.state import Contact, Drain, Health, PhoneFacts

NOW = 1000.0
RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={
        f"phone00{n}": Phone(f"phone00{n}", f"10.0.0.{n}", switch=f"sw{n % 2}", port=n)
        for n in range(1, 7)
    },
    switches={"sw0": Switch("sw0"), "sw1": Switch("sw1")},
)
FACTS = {
    "phone001": PhoneFacts(drains=(Drain("ana", "screen broken", "person", 1.0),)),
    "phone002": PhoneFacts(run="digits-1"),
    "phone003": PhoneFacts(health=Health("CRITICAL", "hangs", 1.0)),
    "phone004": PhoneFacts(contact=Contact(seen=1.0, missed_since=999.0)),
    "phone005": PhoneFacts(contact=Contact(seen=999.0)),
    "phone006": PhoneFacts(health=Health("OK", "", 999.0)),
}


def test_ready_phones_first_in_ring_order_then_those_that_a_preflight_may_redeem() -> None:
    choice = candidates(RACK, FACTS, NOW)
    assert choice.first == ("phone006", "phone005")
    assert choice.second == ("phone004", "phone003")
    assert choice.held == {"phone002": "digits-1"}


def test_too_few_names_the_numbers_and_every_reason() -> None:
    choice = candidates(RACK, FACTS, NOW)
    error = too_few(6, ["phone005"], choice, {"phone006": "free disk is 1 MiB"})
    for part in ("6 phones wanted, 1 ready", "ana (screen broken)", "digits-1", "free disk"):
        assert part in str(error)
    assert error.exit_code == ExitCode.PREFLIGHT_REFUSED


def test_when_only_another_run_is_in_the_way_the_exit_code_says_so() -> None:
    choice = candidates(RACK, {"phone002": PhoneFacts(run="digits-1")}, NOW)
    ready = [name for name in RACK.phones if name != "phone002"]
    assert too_few(6, ready, choice, {}).exit_code == ExitCode.HELD


def test_a_wish_is_a_number_or_a_node_set() -> None:
    assert read_wish(RACK, None, {}) == Wish()
    assert read_wish(RACK, "3", {}) == Wish(count=3)
    assert read_wish(RACK, "phone[001-002]", {}) == Wish(named=("phone002", "phone001"))


@pytest.mark.parametrize("phones", ["7", "0", "phone[001-002]&phone003"])
def test_a_wish_that_the_rack_cannot_have_is_bad_input(phones: str) -> None:
    with pytest.raises(JobError):
        read_wish(RACK, phones, {})


def test_an_unknown_phone_is_bad_input() -> None:
    with pytest.raises(RackError, match="phone009"):
        read_wish(RACK, "phone009", {})


def test_a_further_attempt_keeps_its_phones_and_leaves_out_those_that_failed() -> None:
    held = {f"phone00{n}": PhoneFacts(run="digits-1") for n in (1, 2, 3)}
    facts = {f"phone00{n}": PhoneFacts(health=Health("OK", "", 1.0)) for n in (4, 5, 6)} | held
    again = Again("digits-1", ("phone003", "phone001"), {"phone002": "it hung"})
    choice = candidates(RACK, facts, NOW, (), again)
    assert choice.refused == {"phone002": "left out: it hung"}
    wish = Wish(limit=3, minimum=2)
    first, *rest = batches(choice, wish, again)
    assert first[:2] == ("phone003", "phone001")
    assert len(first) == 3
    assert {*first, *rest[0], *rest[1]} == {*RACK.phones} - {"phone002"}
    other = candidates(RACK, facts, NOW, (), Again("other-1", ()))
    assert other.held == dict.fromkeys(held, "digits-1")


@given(
    st.permutations(list(RACK.phones)),
    st.integers(1, 6),
    st.integers(0, 3),
    st.integers(0, 6),
)
def test_a_pick_takes_what_the_run_holds_first_and_nothing_twice(
    ready: list[str], most: int, spares: int, kept: int
) -> None:
    keep, wish = ready[:kept], Wish(limit=most, minimum=1, spares=spares)
    train, spare = pick(RACK.ring(ready), wish, keep)
    taken = [*train, *spare]
    assert len({*taken}) == len(taken) == min(most + spares, 6)
    assert len(train) == most
    assert [*train][: min(kept, most)] == keep[:most]
    assert enough(len(taken), wish) == (len(taken) == most + spares)


# Three phones are free on sw1, all of sw2 is.
SWITCHES = {f"phone{n:03}": "sw1" if n <= 3 else "sw2" for n in range(1, 14)}
FREE = list(SWITCHES)


def test_phones_are_taken_on_as_few_switches_as_can_be() -> None:
    train, spare = pick(FREE, Wish(count=8, spares=1), switches=SWITCHES)
    assert (train, spare) == (tuple(FREE[3:11]), (FREE[11],))
    assert pick(FREE, Wish(limit=3, minimum=1), switches=SWITCHES)[0] == tuple(FREE[:3])


def test_replacements_and_spares_are_taken_beside_those_that_train() -> None:
    keep = ("phone009", "phone010")
    taken = pick(FREE, Wish(limit=3, minimum=1, spares=1), keep, switches=SWITCHES)
    assert taken == ((*keep, "phone004"), ("phone005",))


def test_a_cool_phone_elsewhere_is_better_than_a_hot_one_beside() -> None:
    hot = [phone for phone in FREE[3:] if phone != "phone013"]
    taken = pick(FREE, Wish(count=4), hot=hot, switches=SWITCHES)
    assert taken == ((*FREE[:3], "phone013"), ())


def test_a_further_attempt_asks_those_that_stand_beside_its_own_first() -> None:
    choice = Candidates(tuple(FREE), (), {}, {})
    again = Again("digits-1", ("phone009", "phone010"))
    lead, *rest = batches(choice, Wish(limit=4, minimum=2), again, SWITCHES)
    assert lead == ("phone009", "phone010", "phone004", "phone005")
    assert {*lead, *rest[0]} == {*FREE}


def test_spares_of_named_phones_are_others_that_never_train_in_their_place() -> None:
    wish = Wish(named=("phone004", "phone005"), minimum=1, spares=1)
    assert pick(FREE, wish, switches=SWITCHES) == (wish.named, ("phone006",))
    without = [phone for phone in FREE if phone != "phone004"]
    assert pick(without, wish, switches=SWITCHES) == (("phone005",), ("phone006",))


def test_hot_phones_are_taken_last() -> None:
    ready = ["phone001", "phone002", "phone003", "phone004"]
    hot = {"phone001": "its battery has 41 °C", "phone003": "its battery has 42 °C"}
    assert pick(ready, Wish(count=2), (), hot) == (("phone002", "phone004"), ())
    assert pick(ready, Wish(count=2), ("phone001",), hot) == (("phone002", "phone004"), ())
    assert pick(ready, Wish(count=3), (), hot)[0] == ("phone002", "phone004", "phone001")
    assert pick(ready, Wish(count=1, spares=1), (), hot) == (("phone002",), ("phone004",))
    named = Wish(named=("phone001", "phone002"))
    assert pick(["phone001", "phone002"], named, (), hot) == (("phone002", "phone001"), ())


def test_a_job_that_takes_what_there_is_goes_without_the_hot_ones_if_half_are_cool() -> None:
    ready = ["phone001", "phone002", "phone003", "phone004"]
    hot = ["phone001", "phone003"]
    assert pick(ready, Wish(), (), hot) == (("phone002", "phone004"), ())
    assert pick(ready, Wish(minimum=3), (), hot)[0] == (
        *("phone002", "phone004"),
        *("phone001", "phone003"),
    )
    assert len(pick(ready, Wish(), (), [*hot, "phone002"])[0]) == 4
    assert pick(ready, Wish(limit=4), (), hot)[0] == ("phone002", "phone004")


def test_all_that_are_ready_train_but_the_spares() -> None:
    ready = RACK.ring()
    assert pick(ready, Wish(spares=2)) == (tuple(ready[:4]), tuple(ready[4:]))
    assert pick(ready[:1], Wish(spares=2)) == (tuple(ready[:1]), ())


def test_a_minimum_is_what_a_start_may_do_with() -> None:
    assert read_wish(RACK, "4", {}, minimum=2, spares=1) == Wish(count=4, minimum=2, spares=1)
    assert read_wish(RACK, "4", {}, minimum=2).least == 2
    with pytest.raises(JobError, match="more than the 4 phones"):
        read_wish(RACK, "4", {}, minimum=5)
