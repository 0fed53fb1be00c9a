"""Facts over fleetctl's own connection: the clock, and answers that are none."""

from __future__ import annotations

import json

import pytest

from fleetctl.checks.facts import read, with_offset
from fleetctl.remote import Result


@pytest.mark.parametrize(
    ("clock", "offset"), [(100.0, 0.0), (103.0, 0.0), (90.0, -10.0), (195.0, 90.0), (0.0, -100.0)]
)
def test_a_clock_is_off_by_what_the_round_trip_does_not_explain(clock, offset) -> None:
    facts = with_offset({"clock": {"time": clock}}, 100.0, 105.0)

    assert facts["clock"]["offset_seconds"] == offset
    assert facts["clock"]["uncertainty_seconds"] == 5.0


def test_a_clock_that_is_not_told_stays_unknown() -> None:
    assert with_offset({"clock": None}, 1.0, 2.0)["clock"] == {}


@pytest.mark.parametrize("said", ["", "Traceback", "[]"])
def test_an_answer_that_is_none_is_a_sentence(said) -> None:
    assert "p1: its facts are no JSON object" in read("p1", Result(0, said), (1.0, 2.0))


def test_a_python_that_fails_is_named_by_its_last_words() -> None:
    result = Result(1, "", "Traceback\nModuleNotFoundError: No module named 'json'\n")

    assert "ModuleNotFoundError" in read("p1", result, (1.0, 2.0))


def test_facts() -> None:
    said = {"clock": {"time": 1.5}, "processes": 3}

    assert read("p1", Result(0, json.dumps(said)), (1.0, 2.0))["processes"] == 3
