"""What many phones say alike is one line."""

from __future__ import annotations

import pytest

from fleetctl.rack.nodesets import fold_sentences, same


def test_phones_that_share_a_sentence_stand_in_it_together() -> None:
    said = [(f"phone{n}", f"phone{n} (10.0.0.{n}) is unreachable") for n in (1, 2, 12)]
    assert fold_sentences(said) == ["phone[1-2,12] is unreachable"]


def test_what_was_measured_is_given_as_a_range() -> None:
    said = [
        ("phone001", "phone001: has 46 °C of 45 °C"),
        ("phone002", "phone002: loses 9.5% of its packets"),
        ("phone003", "phone003: has 101 °C of 45 °C"),
        ("phone004", "phone004: loses 10.5% of its packets"),
    ]
    assert fold_sentences(said) == [
        "phone[001,003]: has 46 to 101 °C of 45 °C",
        "phone[002,004]: loses 9.5 to 10.5% of its packets",
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("phone001: has Open MPI 5.0.3", "phone002: has Open MPI 5.0.4"),
        ("phone001: exit code 1", "phone002: exit code 2"),
        ("phone001: bears 10.0.0.7", "phone002: bears 10.0.0.8"),
        ("phone001 failed in run digits-1", "phone002 failed in run digits-2"),
    ],
)
def test_numbers_that_tell_what_and_not_how_much_keep_sentences_apart(one: str, other: str) -> None:
    assert fold_sentences([("phone001", one), ("phone002", other)]) == [one, other]
    assert not same(one.removeprefix("phone001"), other.removeprefix("phone002"))
