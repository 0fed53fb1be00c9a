"""Recording rules: what they compute from pages whose numbers can be checked by hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rulebook import promtool, rules
from troubles import as_scraped

RECORDS = {rule["record"]: rule for rule in rules() if "record" in rule}
ONE = 'rack="lab", switch="sw1", port="1", phone="phone001"'
TWO = 'rack="lab", switch="sw1", port="2", phone="phone002"'

SERIES = {
    f'up{{job="phone", {ONE}}}': "1x20",
    f'up{{job="phone", {TWO}}}': "1x20",
    f'up{{job="phone", {ONE.replace("001", "003")}}}': "0x20",
    'phonerack_fleet_targets_expected{rack="lab"}': "5x20",
    'phonerack_switch_poe_power_watts{rack="lab", switch="sw1"}': "370x20",
    'phonerack_switch_poe_limit_watts{rack="lab", switch="sw1"}': "740x20",
    'phonerack_fleet_phones{rack="lab", state="ready"}': "2x20",
    f'phonerack_collector_success{{source="battery", {ONE}}}': "1x20",
    f'phonerack_collector_success{{source="battery", {TWO}}}': "0x20",
    f"phonerack_clock_timestamp_seconds{{{ONE}}}": "-90+60x20",
    f"phonerack_memory_available_bytes{{{ONE}}}": "2x20",
    f"phonerack_memory_size_bytes{{{ONE}}}": "8x20",
    f"phonerack_storage_free_bytes{{{ONE}}}": "6x20",
    f"phonerack_storage_size_bytes{{{ONE}}}": "8x20",
    f"phonerack_battery_temperature_celsius{{{ONE}}}": "36x20",
    f"phonerack_battery_temperature_celsius{{{TWO}}}": "41x20",
    f"phonerack_battery_charge_ratio{{{ONE}}}": "0.5x20",
    f"phonerack_battery_charge_ratio{{{TWO}}}": "0.4x20",
    f'phonerack_thermal_zone_celsius{{{ONE}, zone="AP", type="cpu"}}': "60x20",
    f'phonerack_thermal_zone_celsius{{{ONE}, zone="SKIN", type="skin"}}': "38x20",
    f'phonerack_cpu_frequency_limit_hertz{{{ONE}, policy="0"}}': "2e9x20",
    f'phonerack_cpu_frequency_max_hertz{{{ONE}, policy="0"}}': "2e9x20",
    f'phonerack_cpu_frequency_limit_hertz{{{ONE}, policy="4"}}': "1e9x20",
    f'phonerack_cpu_frequency_max_hertz{{{ONE}, policy="4"}}': "2.5e9x20",
    f'phonerack_throttled_seconds_total{{{ONE}, by="frequency_limit"}}': "0+15x20",
    f'phonerack_throttled_seconds_total{{{TWO}, by="frequency_limit"}}': "7x20",
    # Phone 1 is fed by its switch; the power of phone 2 is that of its battery.
    f"phonerack_switch_port_poe_power_watts{{{ONE}}}": "9x20",
    f"phonerack_switch_port_poe_power_watts{{{TWO}}}": "0x20",
    f"phonerack_battery_power_watts{{{ONE}}}": "2x20",
    f"phonerack_battery_power_watts{{{TWO}}}": "6x20",
    f"phonerack_battery_plugged{{{ONE}}}": "1x20",
    f"phonerack_battery_plugged{{{TWO}}}": "0x20",
    # Phone 3 had power when it last told; phone 9 is not asked any more.
    f"phonerack_battery_plugged{{{ONE.replace('001', '003')}}}": "0 1x2 stale",
    f"phonerack_battery_plugged{{{ONE.replace('001', '009')}}}": "1x2 stale",
    # Phone 1 computes 6 s for 30 samples and waits 2 s; phone 2, 8 s for 20, twice as slow since
    # the tenth minute.
    f'phonerack_training_info{{{ONE}, run="digits-1", rank="0"}}': "1x20",
    f'phonerack_training_info{{{TWO}, run="digits-1", rank="1"}}': "1x20",
    f"phonerack_training_iteration{{{ONE}}}": "0+6x20",
    f"phonerack_training_iteration{{{TWO}}}": "0+6x20",
    f"phonerack_training_loss{{{ONE}}}": "1x20",
    f"phonerack_training_loss{{{TWO}}}": "2x20",
    f"phonerack_training_images_total{{{ONE}}}": "0+180x20",
    f"phonerack_training_images_total{{{TWO}}}": "0+120x20",
    f"phonerack_training_compute_seconds{{{ONE}}}": "6x20",
    f"phonerack_training_compute_seconds{{{TWO}}}": "4x10 8x9",
    f"phonerack_training_wait_seconds{{{ONE}}}": "2x20",
    f"phonerack_training_wait_seconds{{{TWO}}}": "0x20",
}

EXPECTED: dict[str, list[tuple[str, float]]] = {
    "rack:phones_up:sum": [('rack="lab"', 2)],
    "rack:phones_watched:count": [('rack="lab"', 3)],
    "rack:phones_down:ratio": [('rack="lab"', 1 - 2 / 3)],
    "rack:phones_down_alone:sum": [('rack="lab"', 1)],
    "rack:targets_missing:sum": [('rack="lab"', 2)],
    "switch:phones_up:sum": [('rack="lab", switch="sw1"', 2)],
    "switch:phones_watched:count": [('rack="lab", switch="sw1"', 3)],
    "switch:poe_power:ratio": [('rack="lab", switch="sw1"', 0.5)],
    "rack_state:phones:sum": [('rack="lab", state="ready"', 2)],
    "rack_source:sources_failing:sum": [('rack="lab", source="battery"', 1)],
    "phone:clock_offset_seconds:abs": [(ONE, 90)],
    "phone:memory_available:ratio": [(ONE, 0.25)],
    "phone:storage_free:ratio": [(ONE, 0.75)],
    "rack:battery_temperature_celsius:max": [('rack="lab"', 41)],
    "phone:battery_temperature_celsius:topk1": [(TWO, 41)],
    "phone:battery_plugged:last": [
        ('rack="lab", phone="phone001"', 1),
        ('rack="lab", phone="phone002"', 0),
        ('rack="lab", phone="phone003"', 1),
    ],
    "rack:battery_charge:min": [('rack="lab"', 0.4)],
    "phone:thermal_zone_celsius:max": [(ONE, 60)],
    "phone:frequency_limit:ratio": [(ONE, 0.4)],
    "phone:throttled:rate5m": [(ONE, 0.25), (TWO, 0)],
    "rack:phones_throttled:count": [('rack="lab"', 1)],
    "phone:power_watts:max": [(ONE, 9), (TWO, 6)],
    "rack:power_watts:sum": [('rack="lab"', 15)],
    "rack:power_known:count": [('rack="lab"', 2)],
    "phone:training_images:rate2m": [(ONE, 3), (TWO, 2)],
    "rack:training_images:rate2m": [('rack="lab"', 5)],
    "rack:energy_per_image_joules:ratio": [('rack="lab"', 3)],
    "phone:training_efficiency:ratio": [
        (f'{ONE}, run="digits-1", rank="0"', 0.75),
        (f'{TWO}, run="digits-1", rank="1"', 1),
    ],
    "run:training_efficiency:ratio": [('rack="lab", run="digits-1"', 14 / 16)],
    "rack:training_efficiency:ratio": [('rack="lab"', 14 / 16)],
    "run:training_iteration:max": [('rack="lab", run="digits-1"', 90)],
    "run:training_loss:avg": [('rack="lab", run="digits-1"', 1.5)],
    "phone:training_compute_seconds:avg2m": [
        (f'{ONE}, run="digits-1", rank="0"', 6),
        (f'{TWO}, run="digits-1", rank="1"', 8),
    ],
    "run:training_compute_seconds:min2m": [('rack="lab", run="digits-1"', 6)],
    "phone:straggler_of_fastest:ratio": [
        (f'{ONE}, run="digits-1", rank="0"', 1),
        (f'{TWO}, run="digits-1", rank="1"', 8 / 6),
    ],
    "phone:training_sample_seconds:avg2m": [
        (f'{ONE}, run="digits-1", rank="0"', 0.2),
        (f'{TWO}, run="digits-1", rank="1"', 0.4),
    ],
    "phone:straggler_of_own_best:ratio": [
        (f'{ONE}, run="digits-1", rank="0"', 1),
        (f'{TWO}, run="digits-1", rank="1"', 2),
    ],
}
"""Of each recording rule: what it says after 15 minutes."""


def record_tests() -> dict[str, Any]:
    return {
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": as_scraped(s), "values": v} for s, v in SERIES.items()],
                "promql_expr_test": [
                    {
                        "expr": f"round({record}, 1e-6)",
                        "eval_time": "15m",
                        "exp_samples": [
                            {"labels": f"{{{labels}}}", "value": float(f"{value:.6f}")}
                            for labels, value in expected
                        ],
                    }
                    for record, expected in EXPECTED.items()
                ],
            }
        ],
    }


def test_every_recording_rule_is_tried_here() -> None:
    assert sorted(EXPECTED) == sorted(RECORDS)


@pytest.mark.parametrize("name", list(RECORDS))
def test_a_name_is_level_metric_and_operation(name: str) -> None:
    assert re.fullmatch(r"(rack|switch|phone|run|rack_state|rack_source):[a-z_]+:[a-z0-9]+", name)


@pytest.mark.tools
@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")
def test_promtool_here_computes_what_a_person_would(tmp_path: Path) -> None:
    assert promtool(tmp_path, record_tests()) == ""
