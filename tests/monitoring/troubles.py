"""A rack in which nothing is wrong but much is nearly so, and what goes wrong for each alert."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

LENGTH = 200
"""Minutes for which there are samples."""

SHORTER = {
    "monitoring_charge_hours": {"warning": 1, "critical": 2},
    "monitoring_phones_down_ratio": {"warning": 0.5, "critical": 0.6},
}
"""Limits that would need days, or more than six phones."""

type Series = Mapping[str, str]


def phone(number: int) -> str:
    """Labels of one of six phones on two switches."""
    switch, port = (1, number) if number < 4 else (2, number - 3)
    return f'rack="lab", switch="sw{switch}", port="{port}", phone="phone00{number}"'


def up(number: int) -> str:
    return f'up{{job="phone", {phone(number)}}}'


def always(value: float | str) -> str:
    return f"{value}x{LENGTH}"


def then(before: str, minutes: int, after: str) -> str:
    """`before` for so many minutes, then `after`; each a start with a step, as promtool has it."""
    return f"{before}x{minutes} {after}x{LENGTH - minutes}"


ONE, TWO, THREE = phone(1), phone(2), phone(3)
RACK = 'rack="lab"'
PORT = f'job="switches", {ONE}'
RUN = 'run="digits-1"'
ROOT = 'mountpoint="/"'

_PHONES: Series = {
    **{up(number): always(1) for number in range(1, 7)},
    # The vendor denies thermal zones.
    f'phonerack_collector_success{{source="thermal", {ONE}}}': always(0),
    f'phonerack_collector_success{{source="battery", {ONE}}}': always(1),
    f'phonerack_collector_last_success_timestamp_seconds{{source="battery", {ONE}}}': (
        always("-869+60")
    ),
    f"phonerack_clock_timestamp_seconds{{{ONE}}}": always("30+60"),
    f"phonerack_clock_timestamp_seconds{{{THREE}}}": always("-30+60"),
    **{f"phonerack_battery_temperature_celsius{{{phone(n)}}}": always(30) for n in range(2, 7)},
    f"phonerack_battery_temperature_celsius{{{ONE}}}": always(39.9),
    f'phonerack_battery_health{{health="good", {ONE}}}': always(1),
    f'phonerack_battery_health{{health="overheat", {ONE}}}': always(0),
    f'phonerack_battery_health{{health="unknown", {TWO}}}': always(1),
    # A busy phone may be full, an idle one is within the window and its margin.
    f"phonerack_battery_charge_ratio{{{ONE}}}": always(1),
    f"phonerack_battery_charge_ratio{{{TWO}}}": always(0.2),
    f"phonerack_battery_charge_ratio{{{THREE}}}": always(0.65),
    f"phonerack_battery_charge_ratio{{{phone(4)}}}": always(0.35),
    f"phonerack_battery_plugged{{{ONE}}}": always(1),
    f"phonerack_battery_plugged{{{TWO}}}": "0x5 stale",
    f'phonerack_throttled_seconds_total{{by="frequency_limit", {ONE}}}': always("0+29"),
    f"phonerack_storage_free_bytes{{{ONE}}}": always(2 << 30),
    f"phonerack_memory_available_bytes{{{ONE}}}": always(256 << 20),
    f"phonerack_cpus_allowed{{{ONE}}}": always(8),
    f"phonerack_cpus_possible{{{ONE}}}": always(8),
    f"phonerack_cpus_allowed{{{THREE}}}": always(4),
    f"phonerack_cpus_possible{{{THREE}}}": always(8),
    f'phonerack_release_info{{version="1", {ONE}}}': always(1),
    f'phonerack_release_info{{version="1", {TWO}}}': always(1),
    f'phonerack_package_info{{package="python", version="3", {ONE}}}': always(1),
    f'phonerack_package_info{{package="python", version="3", {TWO}}}': always(1),
    f'phonerack_package_info{{package="openmpi", version="5", {TWO}}}': always(1),
}

_TRAINING: Series = {
    f'phonerack_training_info{{{RUN}, rank="0", {ONE}}}': always(1),
    f'phonerack_training_info{{{RUN}, rank="1", {TWO}}}': always(1),
    f"phonerack_training_iteration{{{ONE}}}": always("0+6"),
    f"phonerack_training_iteration{{{TWO}}}": always("0+6"),
    f"phonerack_training_images_total{{{ONE}}}": always("0+180"),
    f"phonerack_training_images_total{{{TWO}}}": always("0+120"),
    f"phonerack_training_compute_seconds{{{ONE}}}": always(6),
    f"phonerack_training_compute_seconds{{{TWO}}}": always(7.7),
    f"phonerack_training_wait_seconds{{{ONE}}}": always(7),
    f"phonerack_training_wait_seconds{{{TWO}}}": always(6),
}

_FLEET: Series = {
    'up{job="fleet", rack="lab"}': always(1),
    f"phonerack_fleet_targets_expected{{{RACK}}}": always(6),
    f"phonerack_fleet_clock_timestamp_seconds{{{RACK}}}": always("0+60"),
    f"phonerack_fleet_turn_timestamp_seconds{{{RACK}}}": always("-170+60"),
    f"phonerack_fleet_guard_timestamp_seconds{{{RACK}}}": always("-89+60"),
    f'phonerack_fleet_run_phones{{{RACK}, run="digits-1"}}': always(2),
    f'phonerack_fleet_run_trains{{{RACK}, run="digits-1"}}': always(1),
    # A program that is no trainer of ours tells no iterations.
    f'phonerack_fleet_run_phones{{{RACK}, run="program-1"}}': always(1),
    f'phonerack_fleet_failed_runs{{{RACK}, cause="not-finite"}}': always(0),
    f'phonerack_fleet_failed_runs{{{RACK}, cause="other"}}': always(0),
    f"phonerack_fleet_queue_failing{{{RACK}}}": always(0),
    f'phonerack_fleet_phone_state{{{RACK}, phone="phone001", state="busy"}}': always(1),
    f'phonerack_fleet_check_findings{{{RACK}, check="cables"}}': always(0),
    f'phonerack_fleet_check_findings{{{RACK}, check="packages"}}': always(0),
}

_SWITCHES: Series = {
    'up{job="switches", rack="lab"}': always(1),
    f'phonerack_switch_up{{{RACK}, switch="sw1"}}': always(1),
    f'phonerack_switch_up{{{RACK}, switch="sw2"}}': always(1),
    f'phonerack_switch_uptime_seconds{{{RACK}, switch="sw1"}}': always("1000+60"),
    f'phonerack_switch_temperature_celsius{{{RACK}, switch="sw1", sensor="inlet"}}': always(70),
    f'phonerack_switch_poe_power_watts{{{RACK}, switch="sw1"}}': always(665),
    f'phonerack_switch_poe_limit_watts{{{RACK}, switch="sw1"}}': always(740),
    f'phonerack_switch_drift{{{PORT}, setting="vlan"}}': always(0),
    f"phonerack_switch_port_speed_bytes{{{PORT}}}": always(125000000),
    f"phonerack_switch_port_full_duplex{{{PORT}}}": always(1),
    f"phonerack_switch_port_flaps_total{{{PORT}}}": always(5),
    f"phonerack_switch_port_receive_errors_total{{{PORT}}}": always("100+1"),
}

_PROMETHEUS: Series = {
    f"prometheus_config_last_reload_successful{{{RACK}}}": always(1),
    f'prometheus_rule_evaluation_failures_total{{{RACK}, rule_group="one"}}': always(3),
    f"prometheus_tsdb_wal_writes_failed_total{{{RACK}}}": always(1),
    f"prometheus_tsdb_compactions_failed_total{{{RACK}}}": always(1),
    f"prometheus_target_scrapes_exceeded_sample_limit_total{{{RACK}}}": always(2),
    f"prometheus_target_scrapes_sample_duplicate_timestamp_total{{{RACK}}}": always(2),
}

_SERVICES: Series = {
    'up{job="alertmanager", rack="lab"}': always(1),
    'up{job="services", rack="lab"}': always(1),
    f"prometheus_notifications_dropped_total{{{RACK}}}": always(4),
    f'alertmanager_notifications_failed_total{{{RACK}, integration="webhook"}}': always(4),
    f"alertmanager_config_last_reload_successful{{{RACK}}}": always(1),
    f'node_filesystem_avail_bytes{{{RACK}, {ROOT}, fstype="ext4"}}': always(15),
    f'node_filesystem_size_bytes{{{RACK}, {ROOT}, fstype="ext4"}}': always(100),
    f'node_filesystem_avail_bytes{{{RACK}, mountpoint="/run", fstype="tmpfs"}}': always(1),
    f'node_filesystem_size_bytes{{{RACK}, mountpoint="/run", fstype="tmpfs"}}': always(100),
}

NEARLY: Series = {**_PHONES, **_TRAINING, **_FLEET, **_SWITCHES, **_PROMETHEUS, **_SERVICES}
"""All is well, and most of it only just."""


NEVER = always("_")
"""No sample at all."""


def unserved(minutes: int) -> Series:
    """Who serves the rack ends after so many minutes, and all that only that one tells with it."""
    told = {name: values for name, values in _FLEET.items() if name.startswith("phonerack_fleet")}
    ends = {
        name: values.replace(f"x{LENGTH}", f"x{minutes} stale") for name, values in told.items()
    }
    return {**ends, f'up{{job="fleet", {RACK}}}': then("1", minutes, "0")}


def as_scraped(series: str) -> str:
    """With the labels that Prometheus adds, of which rules must not fall over."""
    if "job=" in series and "instance=" in series:
        return series
    jobs = {"phonerack_fleet": "fleet", "phonerack_switch": "switches", "phonerack": "phone"}
    job = next((job for stem, job in jobs.items() if series.startswith(stem)), "prometheus")
    found = re.search(r'phone="(\w+)"', series)
    instance = f"{found[1]}:9865" if found and job == "phone" else f"{job}:9000"
    added = f'instance="{instance}"' + ("" if "job=" in series else f', job="{job}"')
    return series.replace("{", f"{{{added}, ", 1)


@dataclass(frozen=True)
class Trouble:
    """What is different from NEARLY, and what fires after so many minutes."""

    minutes: int
    series: Series
    fires: frozenset[tuple[str, str]] = frozenset()


def warns(alert: str, minutes: int, series: str, values: str, *more: tuple[str, str]) -> Trouble:
    """One series is different, and this alert warns, or all of `more` fire beside it."""
    return Trouble(minutes, {series: values}, frozenset({(alert, "warning"), *more}))


def worsens(alert: str, minutes: int, series: str, values: str) -> Trouble:
    """It warns, and it is critical."""
    return warns(alert, minutes, series, values, (alert, "critical"))


def cries(alert: str, minutes: int, series: str, values: str, *more: tuple[str, str]) -> Trouble:
    """An alert that is critical only."""
    return Trouble(minutes, {series: values}, frozenset({(alert, "critical"), *more}))


def down(minutes: int, numbers: Iterable[int], *fires: tuple[str, str]) -> Trouble:
    """These phones do not answer; each by itself is told, and `fires` beside."""
    series = {up(number): always(0) for number in numbers}
    return Trouble(minutes, series, frozenset({("PhoneDown", "warning"), *fires}))
