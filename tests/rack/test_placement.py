"""Where a job is put: as few switches as possible, in ring order."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.rack.placement import Floor

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def floor_of(*sizes: int) -> Floor:
    switches = [f"sw{i}" for i, size in enumerate(sizes) for _ in range(size)]
    return Floor(tuple(f"phone{i:03}" for i in range(len(switches))), tuple(switches))


def switches_of(floor: Floor, bits: int) -> set[str]:
    return {floor.switches[floor.names.index(name)] for name in floor.phones(bits)}


@given(SIZES, st.data())
def test_no_choice_of_as_many_phones_touches_fewer_switches(
    sizes: list[int], data: st.DataObject
) -> None:
    floor = floor_of(*sizes)
    open_names = data.draw(st.sets(st.sampled_from(floor.names), min_size=1))
    count = data.draw(st.integers(1, len(open_names)))
    open_bits = floor.bits(open_names)

    chosen = floor.place(open_bits, count)

    assert chosen & ~open_bits == 0
    assert chosen.bit_count() == count
    fewest = min(
        len(switches_of(floor, floor.bits(some)))
        for some in combinations(sorted(open_names), count)
    )
    assert len(switches_of(floor, chosen)) == fewest


def test_a_small_job_leaves_the_large_room_whole() -> None:
    floor = floor_of(6, 3)

    assert floor.phones(floor.place(floor.bits(floor.names), 3)) == floor.names[6:]


def test_spares_are_taken_beside_the_phones_that_they_replace() -> None:
    floor = floor_of(4, 2)
    mine = floor.bits(floor.names[:2])

    spare = floor.place(floor.bits(floor.names) & ~mine, 1, beside=mine)

    assert floor.phones(spare) == ("phone002",)


def test_phones_that_the_rack_does_not_have_are_left_out() -> None:
    floor = floor_of(2)

    assert floor.phones(floor.bits(["phone001", "stranger"])) == ("phone001",)
    with pytest.raises(ValueError, match="3 phones wanted, 2 are open"):
        floor.place(floor.bits(floor.names), 3)
