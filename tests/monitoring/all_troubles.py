"""For each alert, and each of its severities, the trouble that it is for."""

from __future__ import annotations

from troubles import (
    NEVER,
    ONE,
    PORT,
    RACK,
    ROOT,
    RUN,
    THREE,
    TWO,
    Trouble,
    always,
    cries,
    down,
    phone,
    then,
    unserved,
    up,
    warns,
    worsens,
)

TEMPERATURE = f"phonerack_battery_temperature_celsius{{{ONE}}}"
HOT = {("PhoneBatteryHot", "warning"), ("PhoneBatteryHot", "critical")}
DOWN = ("PhoneDown", "warning")
PLUGGED = f"phonerack_battery_plugged{{{ONE}}}"
UNSEEN = f"phonerack_battery_temperature_celsius{{{phone(4)}}}"
CLOCK = f"phonerack_clock_timestamp_seconds{{{ONE}}}"
READ = f'phonerack_collector_last_success_timestamp_seconds{{source="battery", {ONE}}}'
BATTERY = f'phonerack_collector_success{{source="battery", {ONE}}}'
IDLE_CHARGE = f"phonerack_battery_charge_ratio{{{THREE}}}"
THROTTLED = f'phonerack_throttled_seconds_total{{by="frequency_limit", {ONE}}}'
STORAGE = f"phonerack_storage_free_bytes{{{ONE}}}"
MEMORY = f"phonerack_memory_available_bytes{{{ONE}}}"
COMPUTE = f"phonerack_training_compute_seconds{{{TWO}}}"
WAIT = f"phonerack_training_wait_seconds{{{ONE}}}"
TURN = f"phonerack_fleet_turn_timestamp_seconds{{{RACK}}}"
GUARD = f"phonerack_fleet_guard_timestamp_seconds{{{RACK}}}"
UNSERVED = frozenset({("FleetServiceDown", "warning"), ("GuardUnseen", "critical")})
STALLED = frozenset({("TrainingStalled", "warning"), ("TrainingStalled", "critical")})
LASTING: tuple[tuple[dict[str, str], frozenset[tuple[str, str]]], ...] = (
    ({'up{job="fleet", rack="lab"}': "1 0x300"}, UNSERVED),
    ({up(1): "1 0x300", PLUGGED: "1 stale"}, frozenset({("PhoneChargesUnseen", "critical")})),
    ({up(4): "1x300", UNSEEN: "30 stale"}, frozenset({("PhoneBatteryUnseen", "critical")})),
    (
        {
            f"phonerack_fleet_run_phones{{{RACK}, {RUN}}}": "2x300",
            f"phonerack_fleet_run_trains{{{RACK}, {RUN}}}": "1x300",
            f"phonerack_training_iteration{{{ONE}}}": "1 2 3 stale",
        },
        STALLED,
    ),
    ({BATTERY: "1 0x300", READ: "0x300"}, frozenset({("PhoneSourceFailing", "warning")})),
)
"""What is still told after a day and more; a sample every five minutes."""


TRAINS = f"phonerack_fleet_run_trains{{{RACK}, {RUN}}}"
UNBEGUN = {f"phonerack_training_iteration{{{one}}}": NEVER for one in (ONE, TWO)}


def stands(minutes: int, *more: tuple[str, str]) -> Trouble:
    """No rank has done an iteration since the thirtieth minute."""
    series = dict.fromkeys(UNBEGUN, then("0+6", 30, "180"))
    return Trouble(minutes, series, frozenset({("TrainingStalled", "warning"), *more}))


OF_PHONES = {
    "down": down(10, [1]),
    "down for long": down(35, [1], ("PhoneDown", "critical")),
    "a source that worked fails": warns("PhoneSourceFailing", 20, BATTERY, then("1", 5, "0")),
    "a reader is stuck": warns("PhoneSourceOld", 15, READ, then("-869+60", 5, "-569")),
    "warm": warns("PhoneBatteryHot", 5, TEMPERATURE, always(40)),
    "hot": worsens("PhoneBatteryHot", 5, TEMPERATURE, always(45)),
    "far too hot": cries("PhoneBatteryDanger", 5, TEMPERATURE, always(50), *HOT),
    "swollen": cries(
        "PhoneBatteryUnhealthy",
        5,
        f'phonerack_battery_health{{health="overheat", {ONE}}}',
        always(1),
    ),
    "nearly empty": warns(
        "PhoneChargeLow", 10, f"phonerack_battery_charge_ratio{{{ONE}}}", always(0.19)
    ),
    "empty": worsens(
        "PhoneChargeLow", 10, f"phonerack_battery_charge_ratio{{{ONE}}}", always(0.09)
    ),
    "full for hours": warns("PhoneChargeOutside", 65, IDLE_CHARGE, always(0.66)),
    "full for days": worsens("PhoneChargeOutside", 125, IDLE_CHARGE, always(0.66)),
    "low for hours": warns("PhoneChargeOutside", 65, IDLE_CHARGE, always(0.34)),
    "dead while it charged": Trouble(
        60,
        {up(1): then("1", 5, "0"), PLUGGED: "1x5 stale"},
        frozenset({DOWN, ("PhoneDown", "critical"), ("PhoneChargesUnseen", "critical")}),
    ),
    "dead while it did not": Trouble(
        15, {up(1): then("1", 5, "0"), PLUGGED: "1x3 0x2 stale"}, frozenset({DOWN})
    ),
    "silent while it charges": cries("PhoneChargesUnseen", 15, PLUGGED, "1x5 stale"),
    "its battery was never seen": cries("PhoneBatteryUnseen", 10, UNSEEN, NEVER),
    "its battery is not seen any more": cries("PhoneBatteryUnseen", 15, UNSEEN, "30x5 stale"),
    "its exporter begins anew": Trouble(8, {UNSEEN: "30x3 _ _ 30x200"}),
    "slowed down": warns("PhoneThrottled", 25, THROTTLED, always("0+31")),
    "slowed down nearly always": worsens("PhoneThrottled", 25, THROTTLED, always("0+55")),
    "storage short": warns("PhoneStorageShort", 10, STORAGE, always((2 << 30) - 1)),
    "storage shorter": worsens("PhoneStorageShort", 10, STORAGE, always((1 << 30) - 1)),
    "memory short": warns("PhoneMemoryShort", 5, MEMORY, always((256 << 20) - 1)),
    "memory shorter": worsens("PhoneMemoryShort", 5, MEMORY, always((64 << 20) - 1)),
    "clock ahead": warns("PhoneClockOff", 5, CLOCK, always("31+60")),
    "clock in 1970": worsens(
        "PhoneClockOff",
        5,
        f"phonerack_clock_timestamp_seconds{{{THREE}}}",
        always("-1764450000+60"),
    ),
}

OF_TRAINING = {
    "no iteration": stands(45),
    "the record is gone": Trouble(
        45,
        dict.fromkeys(UNBEGUN, "0+6x30 stale"),
        frozenset({("TrainingStalled", "warning")}),
    ),
    "no iteration for long": stands(70, ("TrainingStalled", "critical")),
    "no iteration for hours": stands(150, ("TrainingStalled", "critical")),
    "stuck before its first iteration": Trouble(
        15, UNBEGUN, frozenset({("TrainingStalled", "warning")})
    ),
    "nothing but its first record": Trouble(
        15, {name: always(0) for name in UNBEGUN}, frozenset({("TrainingStalled", "warning")})
    ),
    "its data is on the way": Trouble(15, {**UNBEGUN, TRAINS: NEVER}),
    "began a moment ago": Trouble(15, {**UNBEGUN, TRAINS: "_x8 1x200"}),
    "one rank stands": Trouble(
        45, {f"phonerack_training_iteration{{{ONE}}}": then("0+6", 30, "180")}
    ),
    "the second attempt trains": Trouble(
        45,
        {
            f'phonerack_training_info{{run="digits-1.2", rank="{rank}", {one}}}': "_x30 1x170"
            for rank, one in enumerate((ONE, TWO))
        }
        | {
            f'phonerack_training_info{{{RUN}, rank="{rank}", {one}}}': "1x29 stale"
            for rank, one in enumerate((ONE, TWO))
        },
    ),
    "not a number": cries(
        "TrainingNotFinite",
        1,
        f'phonerack_fleet_failed_runs{{{RACK}, cause="not-finite"}}',
        always(1),
    ),
    "a run failed": warns(
        "RunFailed", 1, f'phonerack_fleet_failed_runs{{{RACK}, cause="other"}}', always(1)
    ),
    "a job cannot start": warns(
        "JobFailing", 10, f"phonerack_fleet_queue_failing{{{RACK}}}", always(1)
    ),
    "slower than others": warns("TrainingStraggler", 15, COMPUTE, always(7.9)),
    "twice as slow": worsens("TrainingStraggler", 15, COMPUTE, always(12)),
    "slower than before": warns("TrainingSlowed", 75, COMPUTE, then("6.2", 60, "7.7")),
    "much slower than before": worsens("TrainingSlowed", 75, COMPUTE, then("4.7", 60, "7.7")),
    "waits": warns("TrainingWaits", 25, WAIT, always(8)),
    "hardly computes": worsens("TrainingWaits", 25, WAIT, always(40)),
    "kept off cores": warns(
        "PhoneCpusetRestricted", 10, f"phonerack_cpus_allowed{{{ONE}}}", always(4)
    ),
}

OF_THE_FLEET = {
    "all dead": down(10, range(1, 7), ("RackDown", "critical"), ("SwitchDown", "critical")),
    "a switch is dead": down(10, (1, 2, 3), ("SwitchDown", "critical")),
    "some here and there": down(10, (1, 2, 4), ("PhonesDown", "warning")),
    "many here and there": down(
        10, (1, 2, 4, 5), ("PhonesDown", "warning"), ("PhonesDown", "critical")
    ),
    "two here and there": down(10, (1, 4)),
    "needs hands": warns(
        "PhoneNeedsHands",
        10,
        f'phonerack_fleet_phone_state{{{RACK}, phone="phone003", state="needs-hands"}}',
        always(1),
    ),
    "nobody serves": Trouble(15, unserved(5), UNSERVED),
    "nobody has served for hours": Trouble(150, unserved(5), UNSERVED),
    "serves and does nothing": warns("FleetServiceStuck", 15, TURN, then("-170+60", 5, "130")),
    "serves and has never looked at anything": warns("FleetServiceStuck", 15, TURN, NEVER),
    "no guard": cries("GuardDown", 10, GUARD, then("-89+60", 5, "211")),
    "no guard, and whoever serves fails": Trouble(
        15,
        {GUARD: then("-89+60", 5, "211"), TURN: then("-170+60", 5, "130")},
        frozenset({("GuardDown", "critical"), ("FleetServiceStuck", "warning")}),
    ),
    "guard never ran": cries("GuardUnseen", 10, GUARD, NEVER),
    "guard's memory cannot be read any more": cries("GuardUnseen", 15, GUARD, "-89+60x5 stale"),
    "guard calls": cries(
        "GuardCalls", 1, f'phonerack_fleet_guard_calls{{{RACK}, what="latched"}}', always(1)
    ),
    "a phone is in no list": warns(
        "TargetsMissing", 10, f"phonerack_fleet_targets_expected{{{RACK}}}", always(7)
    ),
    "no phone is in a list": Trouble(
        15,
        {up(number): "1x1 stale" for number in range(1, 7)},
        frozenset({("TargetsMissing", "warning")}),
    ),
    "a phone is asked twice": warns(
        "TargetTwice", 10, f'up{{job="phone", instance="another", {phone(1)}}}', always(1)
    ),
    "cables swapped": warns(
        "CablingWrong", 1, f'phonerack_fleet_check_findings{{{RACK}, check="cables"}}', always(2)
    ),
    "packages drifted": warns(
        "PackagesDrifted",
        1,
        f'phonerack_fleet_check_findings{{{RACK}, check="packages"}}',
        always(1),
    ),
    "another release": warns(
        "ReleasesDiffer", 65, f'phonerack_release_info{{version="2", {THREE}}}', always(1)
    ),
    "another package": warns(
        "PackageVersionsDiffer",
        65,
        f'phonerack_package_info{{package="python", version="4", {THREE}}}',
        always(1),
    ),
}

SW1 = f'{RACK}, switch="sw1"'
OF_SWITCHES = {
    "no exporter": warns("SwitchExporterDown", 5, 'up{job="switches", rack="lab"}', always(0)),
    "no answer": warns("SwitchNotRead", 5, f"phonerack_switch_up{{{SW1}}}", always(0)),
    "in no list": warns("SwitchMissing", 15, f'phonerack_switch_up{{{RACK}, switch="sw2"}}', "1"),
    "began anew": warns(
        "SwitchRestarted",
        15,
        f"phonerack_switch_uptime_seconds{{{SW1}}}",
        then("1000+60", 10, "5+60"),
    ),
    "switch warm": warns(
        "SwitchHot",
        10,
        f'phonerack_switch_temperature_celsius{{{SW1}, sensor="inlet"}}',
        always(71),
    ),
    "switch hot": worsens(
        "SwitchHot",
        10,
        f'phonerack_switch_temperature_celsius{{{SW1}, sensor="inlet"}}',
        always(81),
    ),
    "power short": warns(
        "SwitchPowerShort", 10, f"phonerack_switch_poe_power_watts{{{SW1}}}", always(700)
    ),
    "power shorter": worsens(
        "SwitchPowerShort", 10, f"phonerack_switch_poe_power_watts{{{SW1}}}", always(735)
    ),
    "a setting changed": warns(
        "SwitchDrift", 15, f'phonerack_switch_drift{{{PORT}, setting="vlan"}}', always(1)
    ),
    "100 Mb/s": warns(
        "PhoneLinkSlow", 5, f"phonerack_switch_port_speed_bytes{{{PORT}}}", always(12500000)
    ),
    "half duplex": warns(
        "PhoneLinkHalfDuplex", 5, f"phonerack_switch_port_full_duplex{{{PORT}}}", always(0)
    ),
    "comes and goes": warns(
        "PhoneLinkFlaps", 15, f"phonerack_switch_port_flaps_total{{{PORT}}}", then("5", 10, "9")
    ),
    "damaged frames": warns(
        "PhoneLinkErrors",
        15,
        f"phonerack_switch_port_receive_errors_total{{{PORT}}}",
        always("100+5"),
    ),
}

OF_PROMETHEUS = {
    "configuration refused": warns(
        "PrometheusConfigRefused",
        5,
        f"prometheus_config_last_reload_successful{{{RACK}}}",
        always(0),
    ),
    "rules fail": cries(
        "PrometheusRulesFail",
        10,
        f'prometheus_rule_evaluation_failures_total{{{RACK}, rule_group="one"}}',
        then("0", 3, "0+1"),
    ),
    "rules failed while the disk was full": Trouble(
        7,
        {
            f'prometheus_rule_evaluation_failures_total{{{RACK}, rule_group="one"}}': then(
                "0", 3, "240"
            )
        },
    ),
    "cannot write": cries(
        "PrometheusNotWriting",
        5,
        f"prometheus_tsdb_wal_writes_failed_total{{{RACK}}}",
        always("1+1"),
    ),
    "a page is too long": warns(
        "PrometheusPageRefused",
        15,
        f"prometheus_target_scrapes_exceeded_sample_limit_total{{{RACK}}}",
        always("2+1"),
    ),
}

FREE = f'node_filesystem_avail_bytes{{{RACK}, {ROOT}, fstype="ext4"}}'
OF_SERVICES = {
    "no Alertmanager": cries(
        "MonitoringPartDown", 5, 'up{job="alertmanager", rack="lab"}', always(0)
    ),
    "not handed on": cries(
        "AlertsNotSent", 5, f"prometheus_notifications_dropped_total{{{RACK}}}", always("4+1")
    ),
    "not posted": cries(
        "AlertsNotDelivered",
        10,
        f'alertmanager_notifications_failed_total{{{RACK}, integration="webhook"}}',
        always("4+1"),
    ),
    "receivers refused": warns(
        "AlertmanagerConfigRefused",
        5,
        f"alertmanager_config_last_reload_successful{{{RACK}}}",
        always(0),
    ),
    "disk short": warns("ServicesDiskShort", 10, FREE, always(14)),
    "disk shorter": worsens("ServicesDiskShort", 10, FREE, always(4)),
}

WELL = {f"all well after {minutes} min": Trouble(minutes, {}) for minutes in (6, 44, 75)}

TROUBLES: dict[str, Trouble] = {
    **WELL,
    **OF_PHONES,
    **OF_TRAINING,
    **OF_THE_FLEET,
    **OF_SWITCHES,
    **OF_PROMETHEUS,
    **OF_SERVICES,
}
