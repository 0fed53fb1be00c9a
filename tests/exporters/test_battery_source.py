"""What the battery source makes of the answers that Termux:API gives on real phones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporters.sources import Unavailable
from exporters.sources.battery import parse

ANSWER: dict[str, Any] = {
    "present": True,
    "technology": "Li-ion",
    "health": "GOOD",
    "plugged": "PLUGGED_USB",
    "status": "CHARGING",
    "temperature": 31.4,
    "voltage": 4000,
    "current": 500000,
    "percentage": 85,
}


def values(**changes: Any) -> dict[str, float]:
    """Metric name (with its label value) -> value; a change to ... leaves the key out."""
    answer = {key: value for key, value in (ANSWER | changes).items() if value is not ...}
    return {
        " ".join((s.metric.name.removeprefix("phonerack_battery_"), *s.labels)): s.value
        for s in parse(json.dumps(answer).encode())
    }


def test_a_whole_answer_comes_in_base_units() -> None:
    found = values()
    assert found["temperature_celsius"] == 31.4
    assert found["charge_ratio"] == 0.85
    assert found["voltage_volts"] == 4.0
    assert found["current_amperes"] == 0.5
    assert found["power_watts"] == 2.0
    assert found["plugged"] == 1
    assert {name for name, value in found.items() if name.startswith("status") and value} == {
        "status charging"
    }
    assert {name for name, value in found.items() if name.startswith("health") and value} == {
        "health good"
    }


@pytest.mark.parametrize(
    ("key", "metric"),
    [
        ("temperature", "temperature_celsius"),
        ("percentage", "charge_ratio"),
        ("voltage", "voltage_volts"),
        ("current", "current_amperes"),
        ("plugged", "plugged"),
        ("status", "status charging"),
        ("health", "health good"),
    ],
)
@pytest.mark.parametrize("rubbish", [..., None, [], {}, True, "rubbish", "", float("nan"), 10**400])
def test_a_key_that_is_missing_or_rubbish_takes_only_its_own_metric_away(
    key: str, metric: str, rubbish: Any
) -> None:
    found = values(**{key: rubbish})
    assert metric not in found
    others = {"temperature_celsius", "charge_ratio", "voltage_volts"} - {metric}
    assert others <= set(found)


@pytest.mark.parametrize(
    ("key", "sentinel", "metric"),
    [
        ("temperature", -214748364.8, "temperature_celsius"),
        ("voltage", -1000, "voltage_volts"),
        ("voltage", 0, "voltage_volts"),
        ("percentage", -1, "charge_ratio"),
        ("percentage", 255, "charge_ratio"),
        ("plugged", "-1", "plugged"),
        ("health", "-1", "health good"),
    ],
)
def test_androids_sentinels_are_not_values(key: str, sentinel: Any, metric: str) -> None:
    assert metric not in values(**{key: sentinel})


def test_power_has_no_sign_because_vendors_disagree_on_it() -> None:
    assert values(current=-500000)["power_watts"] == values(current=500000)["power_watts"]


def test_milliamperes_of_a_vendor_are_told_from_microamperes() -> None:
    assert values(current=1500)["current_amperes"] == 1.5
    assert values(current=-1500, status="DISCHARGING")["current_amperes"] == -1.5
    assert values(current=15000)["current_amperes"] == 0.015


def test_a_current_that_could_be_either_is_unknown() -> None:
    found = values(current=1500, status="FULL")
    assert "current_amperes" not in found
    assert "power_watts" not in found


def test_a_cold_battery_is_a_value() -> None:
    assert values(temperature=-5.0)["temperature_celsius"] == -5.0
    assert values(temperature=0.0)["temperature_celsius"] == 0.0
    assert values(percentage=0)["charge_ratio"] == 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00",
        b"null",
        b"[1, 2]",
        b"{}",
        b'{"temperature": null}',
        b'{"temperature": 31.4',
        b"[" * 100_000,
        b'{"error": "Termux:API is not installed"}',
    ],
)
def test_an_answer_without_any_value_is_unavailable(text: bytes) -> None:
    with pytest.raises(Unavailable):
        parse(text)
