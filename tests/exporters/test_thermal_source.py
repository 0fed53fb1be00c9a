"""Temperatures from the kernel's zones, or from Android's thermal service where they are denied."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporters.metrics import Sample
from exporters.sampler import Sampler
from exporters.sources import Layout, Unavailable, thermal

# As a Galaxy of Android 12 prints it: a sensor that is off, one that is no thermometer.
SAID = """\
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 1
\tkilled: false
Thermal Status: 1
Cached temperatures:
\tTemperature{mValue=0.0, mType=3, mName=SKIN, mStatus=0}
\tTemperature{mValue=61.0, mType=0, mName=AP, mStatus=0}
HAL Ready: true
HAL connection:
\tThermalHAL 2.0 connected: yes
Current temperatures from HAL:
\tTemperature{mValue=52.5, mType=0, mName=AP, mStatus=0}
\tTemperature{mValue=39.9, mType=3, mName=SKIN, mStatus=1}
\tTemperature{mValue=31.4, mType=2, mName=BAT, mStatus=0}
\tTemperature{mValue=0.0, mType=4, mName=USB, mStatus=0}
\tTemperature{mValue=-99.9, mType=5, mName=PA, mStatus=0}
\tTemperature{mValue=4.1, mType=6, mName=VBAT, mStatus=0}
\tTemperature{mValue=33.0, mType=77, mName=CF, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-0}
Temperature static thresholds from HAL:
\tTemperatureThreshold{mType=3, mName=SKIN, mHotThrottlingThresholds=[NaN, 40.0]}
"""
LIVE = {
    "thermal_zone_celsius AP cpu": 52.5,
    "thermal_zone_celsius SKIN skin": 39.9,
    "thermal_zone_celsius BAT battery": 31.4,
    "thermal_zone_celsius CF unknown": 33.0,
}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """A phone whose vendor denies the zones, and whose `dumpsys` prints SAID."""
    return Layout(
        tmp_path, tmp_path, tmp_path / "proc", tmp_path / "denied", dumpsys(tmp_path, SAID)
    )


def dumpsys(folder: Path, said: str) -> Path:
    program = folder / "dumpsys"
    (folder / "said").write_text(said)
    program.write_text(f'#!/bin/sh\n[ "$*" = thermalservice ] && exec cat {folder}/said\n')
    program.chmod(0o755)
    return program


def values(samples: list[Sample]) -> dict[str, float]:
    return {
        " ".join((s.metric.name.removeprefix("phonerack_"), *s.labels)): s.value for s in samples
    }


def test_the_live_section_counts_and_not_the_cached_one(layout: Layout) -> None:
    found = values(list(thermal.source(layout).read()))
    assert found == {"thermal_status": 1, "throttled_seconds_total thermal_status": 0, **LIVE}


def test_the_time_under_a_thermal_status_adds_up(layout: Layout) -> None:
    read = thermal.source(layout, ask_seconds=0).read
    name = "throttled_seconds_total thermal_status"
    first = values(list(read()))[name]
    second = values(list(read()))[name]
    assert 0 == first < second
    dumpsys(layout.home, SAID.replace("Thermal Status: 1", "Thermal Status: 0"))
    third = values(list(read()))[name]
    assert third > second, "it was slowed until this look"
    assert values(list(read()))[name] == third


def test_android_is_not_asked_at_every_look(layout: Layout) -> None:
    read = thermal.source(layout).read
    first = values(list(read()))
    dumpsys(layout.home, "nothing of the kind")
    assert values(list(read())) == first


def test_zones_that_hang_do_not_keep_the_exporter_from_starting(layout: Layout) -> None:
    """A pipe in the place of a zone is never read to its end."""
    zone = layout.sys / "class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    os.mkfifo(zone / "type")
    (zone / "temp").write_text("41500")
    hanging = replace(thermal.source(layout), limit_seconds=0.1)
    sampler = Sampler([hanging])
    sampler.tick()
    (reading,) = sampler.snapshot.readings
    assert reading.error == "no answer within 0.1 s"
    with (zone / "type").open("w"):  # lets the reader go
        pass


def test_where_zones_can_be_read_nothing_is_started(layout: Layout) -> None:
    zone = layout.sys / "class/thermal/thermal_zone0"
    zone.mkdir(parents=True)
    (zone / "type").write_text("BIG")
    (zone / "temp").write_text("41500")
    layout.dumpsys.unlink()
    assert values(list(thermal.source(layout).read())) == {"thermal_zone_celsius 0 BIG": 41.5}


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("Permission Denial: can't dump thermalservice from pid=1, uid=10101", "Permission Denial"),
        (SAID.replace("HAL Ready: true", "HAL Ready: false"), "HAL not ready"),
        (SAID.partition("HAL Ready")[0] + "HAL Ready: false\n", "HAL not ready"),
        ("", "no thermal service"),
        ("Can't find service: thermalservice\n", "no thermal service"),
        (SAID.partition("Current temp")[0], "no `Current temperatures"),
        (SAID.partition("\tTemperature{mValue=52.5")[0], "no sensor"),
    ],
)
def test_what_it_does_not_tell_is_unavailable_with_both_reasons(
    layout: Layout, said: str, why: str
) -> None:
    dumpsys(layout.home, said)
    with pytest.raises(Unavailable, match=f"{why}.*No such file.*denied"):
        thermal.source(layout).read()


def test_a_missing_dumpsys_is_unavailable(layout: Layout) -> None:
    layout.dumpsys.unlink()
    with pytest.raises(Unavailable, match="No such file"):
        thermal.source(layout).read()


numbers = st.one_of(
    st.sampled_from(["0.0", "-0.0", "NaN", "Infinity", "-99.9", "1e400", "", "x", "--1"]),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(str),
)
names = st.text(st.characters(codec="utf-8", exclude_characters=",}\n\r"), max_size=8)
sensors = st.lists(st.tuples(numbers, st.integers(-1, 12).map(str), names), max_size=8)


def section(found: list[tuple[str, str, str]]) -> str:
    return "".join(
        f"\tTemperature{{mValue={value}, mType={kind}, mName={name}, mStatus=0}}\n"
        for value, kind, name in found
    )


@given(cached=sensors, live=sensors)
@example(cached=[], live=[("1.0", "0", "0\x85")])
def test_only_live_sensors_are_told_each_once_and_none_as_0(
    cached: list[tuple[str, str, str]], live: list[tuple[str, str, str]]
) -> None:
    text = (
        f"Thermal Status: 2\nCached temperatures:\n{section(cached)}HAL Ready: true\n"
        f"{thermal.LIVE}\n{section(live)}Current cooling devices from HAL:\n{section(cached)}"
    )
    try:
        heat = thermal.parse(text)
    except Unavailable:
        return
    assert heat.status == 2
    told = [sensor.name for sensor in heat.sensors]
    assert len(set(told)) == len(told) > 0
    for sensor in heat.sensors:
        assert thermal.is_measured(sensor.celsius)
        assert sensor.name in {name for _, _, name in live}
        assert any(float(value) == sensor.celsius for value, _, _ in live if _is_number(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@given(st.text(max_size=400))
def test_whatever_is_printed_is_a_temperature_or_unavailable(said: str) -> None:
    for text in (said, f"HAL Ready: true\n{thermal.LIVE}\n{said}"):
        try:
            heat = thermal.parse(text)
        except Unavailable:
            continue
        assert all(thermal.is_measured(sensor.celsius) for sensor in heat.sensors)
