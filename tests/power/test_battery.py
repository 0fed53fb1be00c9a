"""What phones say of their batteries: three sources, each of which may say nonsense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.power.battery import Battery, read
from fleetctl.remote import Result
from standin.hardware.files import render
from standin.hardware.state import HardwareState

STATE = HardwareState.plausible("R58M1", "SM-G975F", 31)
FILES = render(STATE)


def said(source: str, text: str) -> Battery:
    return read("phone001", Result(0, f"{source}\n{text}"))


def snapshot(age_seconds: float = 3.0, **metrics: Any) -> str:
    values = {"battery_temperature_celsius": 31.5, "battery_plugged": 1.0, **metrics}
    samples = {f"phonerack_{n}": [{"labels": {}, "value": v}] for n, v in values.items()}
    samples["phonerack_battery_health"] = [
        {"labels": {"health": "good"}, "value": 0.0},
        {"labels": {"health": "dead"}, "value": 1.0},
    ]
    samples["phonerack_collector_last_success_timestamp_seconds"] = [
        {"labels": {"source": "thermal"}, "value": 1000.0},
        {"labels": {"source": "battery"}, "value": 1000.0 - age_seconds},
    ]
    return json.dumps({"time": 1000.0, "metrics": samples})


def test_android_and_termux_say_the_same() -> None:
    by_dumpsys = said("dumpsys", FILES["dumpsys_battery.txt"])
    by_termux = said("termux", FILES["battery_status.json"])
    assert by_dumpsys == by_termux
    assert by_dumpsys.celsius == round(STATE.heat.battery_celsius, 1)
    assert by_dumpsys.plugged is True
    assert by_dumpsys.health == "GOOD"
    assert by_dumpsys.percent == round(STATE.battery.charge_percent)


def test_values_that_somebody_froze_are_unknown() -> None:
    """`dumpsys battery unplug` proves no cut, and `set temp` no health."""
    first, _, rest = FILES["dumpsys_battery.txt"].partition("\n")
    stopped = "  (UPDATES STOPPED -- use 'reset' to restart)"
    found = said("dumpsys", "\n".join([first, stopped, rest]))
    assert found == Battery(
        problem="phone001: somebody froze what Android tells of its battery; run "
        "`dumpsys battery reset` in `adb shell`, or restart it"
    )


def test_the_exporters_word_counts_for_a_while_and_tells_its_age() -> None:
    found = said("exporter 1000", snapshot())
    assert (found.celsius, found.plugged, found.health) == (31.5, True, "DEAD")
    assert found.age_seconds == 3
    assert said("exporter 1000", snapshot(age_seconds=300)).problem
    assert said("exporter 1000", snapshot(age_seconds=-300)).problem, "its clock was set back"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("dumpsys", ""),
        ("dumpsys", "  temperature: 99999999\n  AC powered: true\n"),
        ("dumpsys", "  temperature: -9999\n  AC powered: true\n"),
        ("dumpsys", "  temperature: 310\n"),
        ("termux", "{}"),
        ("termux", "[1, 2"),
        ("termux", "[]"),
        ("termux", "null"),
        ("termux", '{"temperature": NaN, "plugged": "UNPLUGGED"}'),
        ("termux", '{"temperature": 1e999, "plugged": "UNPLUGGED"}'),
        ("termux", '{"temperature": "31", "plugged": "UNPLUGGED"}'),
        ("termux", '{"temperature": 31, "plugged": "maybe"}'),
        ("termux", '{"temperature": true, "plugged": "UNPLUGGED"}'),
        ("termux", "[" * 100_000),
        ("exporter 1000", ""),
        ("exporter", snapshot()),
        ("exporter x", snapshot()),
        ("exporter 1000", '{"metrics": null}'),
        ("exporter 1000", '{"metrics": {"phonerack_battery_plugged": [{}]}}'),
        ("", ""),
        ("something else", "at all"),
    ],
)
def test_nonsense_is_unknown_and_never_zero(source: str, text: str) -> None:
    found = said(source, text)
    assert found.problem == "phone001 does not tell the state of its battery"
    assert found.celsius is None
    assert found.plugged is None


@given(st.sampled_from(["dumpsys", "termux", "exporter 1000"]), st.text())
def test_no_answer_breaks_the_reader(source: str, text: str) -> None:
    said(source, text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["temperature", "plugged", "percentage", "health", "status"]), JSON
    )
)
def test_whatever_termux_says_is_plausible_or_unknown(status: dict[str, Any]) -> None:
    found = said("termux", json.dumps(status))
    assert found.celsius is None or -40 <= found.celsius <= 120
    assert found.percent is None or 0 <= found.percent <= 100
    assert found.health in (None, "GOOD", "OVERHEAT", "DEAD", "OVER_VOLTAGE", "COLD",
                            "UNSPECIFIED_FAILURE")  # fmt: skip
