"""What the battery source makes of the answers that Termux:API gives on real phones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from exporters.metrics import Sample
from exporters.sources import Layout, Unavailable, battery
from exporters.sources.battery import Asker, parse, parse_dumpsys

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
    return named(parse(json.dumps(answer).encode()))


def named(samples: list[Sample]) -> dict[str, float]:
    return {
        " ".join((s.metric.name.removeprefix("phonerack_battery_"), *s.labels)): s.value
        for s in samples
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


DUMPSYS = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Max charging current: 500000
  Charge counter: 1700000
  status: 2
  health: 3
  present: true
  level: 150
  scale: 200
  voltage: 4123
  temperature: 458
  technology: Li-ion
"""
DENIED = "Permission Denial: can't dump BatteryService from pid=1, uid=10123 due to missing DUMP\n"


def test_android_tells_the_same_but_for_the_current() -> None:
    found = {name: value for name, value in named(parse_dumpsys(DUMPSYS)).items() if value}
    assert found == {
        "temperature_celsius": 45.8,
        "charge_ratio": 0.75,
        "voltage_volts": 4.123,
        "plugged": 1,
        "status charging": 1,
        "health overheat": 1,
    }


def test_what_somebody_froze_is_unknown() -> None:
    """As after `dumpsys battery set` or `unplug`: it may have grown hot since."""
    frozen = DUMPSYS.replace("\n", "\n  (UPDATES STOPPED -- use 'reset' to restart)\n", 1)
    with pytest.raises(Unavailable, match="dumpsys battery reset"):
        parse_dumpsys(frozen)


def test_what_android_does_not_say_is_absent() -> None:
    found = named(parse_dumpsys("  temperature: -55\n  level: 50\n  scale: 0\n  health: 9\n"))
    assert found == {"temperature_celsius": -5.5}
    for text in ("", DENIED, "  temperature: 99999\n", "temperature: warm"):
        with pytest.raises(Unavailable):
            parse_dumpsys(text)


@dataclass
class Tools:
    """The two programs of a phone."""

    folder: Path

    @property
    def layout(self) -> Layout:
        return Layout(self.folder, self.folder, dumpsys=self.folder / "dumpsys")

    def make(self, name: str, prints: str, ends_with: int = 0) -> None:
        """It notes each call."""
        program = self.folder / name
        program.parent.mkdir(exist_ok=True)
        (self.folder / f"{program.name}.txt").write_text(prints)
        program.write_text(
            f"#!/bin/sh\necho >>{program}.calls\ncat {self.folder}/{program.name}.txt\n"
            f"exit {ends_with}\n"
        )
        program.chmod(0o755)

    def termux(self, prints: str, ends_with: int = 0) -> None:
        self.make("bin/termux-battery-status", prints, ends_with)

    def calls(self, name: str) -> int:
        calls = self.folder / f"{name}.calls"
        return len(calls.read_text().splitlines()) if calls.exists() else 0


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def test_where_termux_api_never_worked_android_is_asked(tools: Tools) -> None:
    tools.make("dumpsys", DUMPSYS)
    asker = Asker(tools.layout)
    assert named(asker.read())["temperature_celsius"] == 45.8
    tools.termux("", ends_with=1)
    for _ in range(3):
        assert named(asker.read())["plugged"] == 1
    assert tools.calls("bin/termux-battery-status") == 0, "not again at once"


def test_termux_api_is_asked_again_later(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(battery, "AGAIN_SECONDS", 0.0)
    tools.make("dumpsys", DUMPSYS)
    tools.termux("", ends_with=1)
    asker = Asker(tools.layout)
    asker.read()
    tools.termux(json.dumps(ANSWER))
    assert named(asker.read())["temperature_celsius"] == 31.4


def test_where_termux_api_tells_all_android_is_left_alone(tools: Tools) -> None:
    tools.make("dumpsys", DUMPSYS)
    tools.termux(json.dumps(ANSWER))
    assert named(Asker(tools.layout).read())["current_amperes"] == 0.5
    assert tools.calls("dumpsys") == 0


def test_what_safety_needs_and_termux_api_leaves_out_android_adds(tools: Tools) -> None:
    tools.termux(json.dumps({**ANSWER, "temperature": None}))
    asker = Asker(tools.layout)
    assert named(asker.read())["charge_ratio"] == 0.85, "better than nothing"
    tools.make("dumpsys", DUMPSYS)
    found = named(asker.read())
    assert (found["temperature_celsius"], found["charge_ratio"]) == (45.8, 0.85)


def test_where_neither_tells_both_reasons_are_said_and_both_asked_again(tools: Tools) -> None:
    tools.make("dumpsys", DENIED)
    tools.termux("", ends_with=1)
    asker = Asker(tools.layout)
    for calls in (1, 2):
        with pytest.raises(Unavailable, match=r"termux-battery-status: ended with 1; .*Permission"):
            asker.read()
        assert tools.calls("bin/termux-battery-status") == calls
    tools.termux(json.dumps(ANSWER))
    assert asker.read()
