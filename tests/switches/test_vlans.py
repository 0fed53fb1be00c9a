"""Sets of VLANs as text, and the way from one list of a trunk to another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.switches.plan import ALLOWED, list_change
from fleetctl.switches.vlans import ALL, chunked_vlans, fold_vlans, parse_vlans

sets = st.frozensets(st.integers(min_value=1, max_value=4094), max_size=400)


@given(sets)
def test_folding_and_parsing_are_inverse(vlans: frozenset[int]) -> None:
    assert parse_vlans(fold_vlans(vlans)) == vlans


@given(sets, st.integers(min_value=9, max_value=80))
def test_parts_are_short_and_hold_everything_once(vlans: frozenset[int], most: int) -> None:
    parts = list(chunked_vlans(vlans, most))
    assert all(len(part) <= most for part in parts)
    found = [vlan for part in parts for vlan in sorted(parse_vlans(part))]
    assert found == sorted(vlans)


def test_words_for_sets() -> None:
    assert parse_vlans("all") == ALL
    assert parse_vlans("none") == frozenset()
    assert parse_vlans("except 5,7-9") == ALL - {5, 7, 8, 9}


@pytest.mark.parametrize("text", ["", "x", "0", "4095", "9-5", "1,,2", "1-2-3"])
def test_what_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  int() words it
        parse_vlans(text)


def lists_on_the_way(before: frozenset[int], after: frozenset[int]) -> list[frozenset[int]]:
    """The list after each command, as a switch takes them."""
    now, found = before, [before]
    for command in list_change(before, after):
        assert len(command) < 254
        how, _, what = command.removeprefix(f"{ALLOWED} ").rpartition(" ")
        vlans = parse_vlans(what)
        now = {"add": now | vlans, "remove": now - vlans, "": vlans}[how]
        found.append(now)
    return found


@given(sets | st.just(ALL), sets)
def test_a_list_changes_without_losing_what_stays_or_letting_all_in(
    before: frozenset[int], after: frozenset[int]
) -> None:
    way = lists_on_the_way(before, after)
    assert way[-1] == after
    assert all(now >= before & after for now in way)
    assert all(now <= before | after for now in way)
    # Each command has an effect, so none is too many.
    assert all(one != other for one, other in pairwise(way))


@given(sets, sets)
def test_a_list_that_is_there_is_never_replaced(
    before: frozenset[int], after: frozenset[int]
) -> None:
    for command in list_change(before, after):
        assert command.startswith((f"{ALLOWED} add ", f"{ALLOWED} remove "))


def test_the_list_10_20_30_becomes_10_20_40_by_one_addition_and_one_removal() -> None:
    before, after = frozenset({10, 20, 30}), frozenset({10, 20, 40})
    assert list(list_change(before, after)) == [f"{ALLOWED} add 40", f"{ALLOWED} remove 30"]


def test_a_trunk_that_carried_everything_gets_its_list_in_one_line() -> None:
    assert list(list_change(ALL, frozenset({10, 20}))) == [f"{ALLOWED} 10,20"]
