"""The dashboard of one phone: all that it tells of itself, and its port of the switch."""

from __future__ import annotations

from typing import Any

from exporters.dashboards.grafana import Json, Panel, Query, Said, Steps, variable
from exporters.dashboards.shared import (
    CELSIUS,
    GOOD_IS_ONE,
    NEEDS_RUN,
    NEEDS_SERVE,
    NEEDS_SWITCHES,
    RACK,
    STATES,
    dashboard,
    listing,
    number,
    of,
    state_code,
)

PHONE = f'{RACK}, phone="$phone"'
DENIED = "Empty where the vendor denies it."

HEAT = tuple(
    Said(value, text, color)
    for value, text, color in (
        (0, "none", "green"),
        (1, "light", "yellow"),
        (2, "moderate", "orange"),
        (3, "severe", "red"),
        (4, "critical", "dark-red"),
        (5, "emergency", "purple"),
        (6, "shutdown", "dark-purple"),
    )
)
"""Android's thermal status."""

LOW_IS_BAD: Steps = (("red", None), ("orange", 0.2), ("green", 0.4))


def _of(metric: str) -> str:
    return of(metric, PHONE)


def _line(title: str, description: str, unit: str, *series: tuple[str, str], **more: Any) -> Panel:
    """Metrics and their names in the legend, from 0 on."""
    queries = tuple(Query(_of(metric), legend) for metric, legend in series)
    return Panel(title, description, unit, queries, least=0, **more)


def _port(title: str, description: str, unit: str, *series: tuple[str, str]) -> Panel:
    """Counters of the phone's port, by the second."""
    queries = tuple(
        Query(f"rate({_of(f'phonerack_switch_port_{metric}')}[$__rate_interval])", legend)
        for metric, legend in series
    )
    return Panel(title, description, unit, queries, least=0, may_be_empty=NEEDS_SWITCHES)


SECTIONS: dict[str, tuple[Panel, ...]] = {
    "$phone": (
        number(
            "Up",
            "Whether its exporter answers.",
            "bool_yes_no",
            f'up{{job="phone", {PHONE}}}',
            GOOD_IS_ONE,
        ),
        number(
            "State",
            "In the words of `fleetctl status`.",
            "none",
            state_code(PHONE),
            said=STATES,
            may_be_empty=NEEDS_SERVE,
        ),
        number(
            "Battery temperature",
            "As Android reports it: from 40 °C on be careful, from 45 °C on stop.",
            "celsius",
            _of("phonerack_battery_temperature_celsius"),
            CELSIUS,
        ),
        number(
            "Charge",
            "Of the battery; 1 is full.",
            "percentunit",
            _of("phonerack_battery_charge_ratio"),
            LOW_IS_BAD,
        ),
        number(
            "Since it booted",
            "Sleep included. A phone that boots by itself has a worn battery or too much heat.",
            "s",
            _of("phonerack_uptime_seconds"),
        ),
        number(
            "Sources failing",
            "Sources of its exporter that cannot be read now.",
            "none",
            f"sum(1 - {_of('phonerack_collector_success')})",
            (("green", None), ("orange", 1.0)),
        ),
        listing(
            "Place",
            "The switch and the port that the rack file gives it; neither where it has none.",
            f'up{{job="phone", {PHONE}}}',
            ("phone", "switch", "port", "instance"),
            height=4,
        ),
        listing(
            "Release",
            "What it runs.",
            _of("phonerack_release_info"),
            ("version", "target"),
            height=4,
        ),
    ),
    "Heat and speed": (
        Panel(
            "Temperature",
            "Of its battery and of each sensor that it shows.",
            "celsius",
            (
                Query(_of("phonerack_battery_temperature_celsius"), "battery"),
                Query(_of("phonerack_thermal_zone_celsius"), "{{zone}} {{type}}"),
            ),
            steps=CELSIUS,
        ),
        Panel(
            "Frequency",
            "Of each cluster of cores: what it runs at, what it may reach, what it is built for.",
            "hertz",
            (
                Query(_of("phonerack_cpu_frequency_hertz"), "{{policy}} now"),
                Query(_of("phonerack_cpu_frequency_limit_hertz"), "{{policy}} limit"),
                Query(_of("phonerack_cpu_frequency_max_hertz"), "{{policy}} built for"),
            ),
            least=0,
            may_be_empty=DENIED,
        ),
        Panel(
            "Thermal status",
            "How hot Android takes the phone for; from light on it slows down.",
            "none",
            (Query(_of("phonerack_thermal_status"), "status"),),
            "state-timeline",
            said=HEAT,
            may_be_empty="Empty where Android tells apps nothing.",
        ),
        Panel(
            "Time throttled",
            "Share of the time in which it was slowed down, by how that is known.",
            "percentunit",
            (
                Query(
                    f"rate({_of('phonerack_throttled_seconds_total')}[$__rate_interval])", "{{by}}"
                ),
            ),
            least=0,
            may_be_empty="Empty where the phone tells neither.",
        ),
        _line(
            "Cores",
            "Cores that Android lets Termux use, of those that the phone has.",
            "none",
            ("phonerack_cpus_allowed", "allowed"),
            ("phonerack_cpus_possible", "there are"),
        ),
        Panel(
            "Clock",
            "How far its clock is from Prometheus's; some seconds may be the age of the sample.",
            "s",
            (
                Query(
                    f"{_of('phonerack_clock_timestamp_seconds')}"
                    f" - timestamp({_of('phonerack_clock_timestamp_seconds')})",
                    "ahead",
                ),
            ),
        ),
    ),
    "Battery": (
        Panel(
            "Charge over time",
            "Falling while plugged in: the adapter gives less than the phone takes.",
            "percentunit",
            (Query(_of("phonerack_battery_charge_ratio"), "charge"),),
            least=0,
            most=1,
        ),
        _line(
            "Battery power",
            "Through the battery, in either direction: vendors disagree on the sign.",
            "watt",
            ("phonerack_battery_power_watts", "power"),
        ),
        Panel(
            "Current",
            "Which sign means charging differs by vendor.",
            "amp",
            (Query(_of("phonerack_battery_current_amperes"), "current"),),
        ),
        _line("Voltage", "Of the battery.", "volt", ("phonerack_battery_voltage_volts", "voltage")),
        Panel(
            "Charging",
            "What the battery does, and whether the phone sees its charger.",
            "bool_yes_no",
            (
                Query(f"{_of('phonerack_battery_status')} == 1", "{{status}}"),
                Query(_of("phonerack_battery_plugged"), "plugged in"),
            ),
            "state-timeline",
            steps=GOOD_IS_ONE,
        ),
        Panel(
            "Health",
            "As Android sees the battery; anything but good cuts its power and calls a person.",
            "bool_yes_no",
            (Query(f"{_of('phonerack_battery_health')} == 1", "{{health}}"),),
            "state-timeline",
            steps=GOOD_IS_ONE,
        ),
    ),
    "Memory, storage and programs": (
        _line(
            "Memory",
            "What programs can still get, of all.",
            "bytes",
            ("phonerack_memory_available_bytes", "available"),
            ("phonerack_memory_size_bytes", "size"),
        ),
        _line(
            "Storage",
            "What Termux can still use where runs and data lie, of all.",
            "bytes",
            ("phonerack_storage_free_bytes", "free"),
            ("phonerack_storage_size_bytes", "size"),
        ),
        _line(
            "Swap",
            "Compressed memory on most phones; nearly none left means that Android kills programs.",
            "bytes",
            ("phonerack_swap_free_bytes", "free"),
            ("phonerack_swap_size_bytes", "size"),
            may_be_empty="Empty where the kernel hides it.",
        ),
        _line(
            "Processes",
            "Of Termux, by program; Android 12 kills beyond 32 unless it is told not to.",
            "none",
            ("phonerack_processes", "{{program}}"),
        ),
        _line(
            "Memory by program",
            "Resident; shared pages count in each process.",
            "bytes",
            ("phonerack_processes_resident_bytes", "{{program}}"),
        ),
        listing(
            "Packages",
            "Versions of what training depends on.",
            _of("phonerack_package_info"),
            ("package", "version"),
        ),
    ),
    "Training": (
        Panel(
            "An iteration's time",
            "Compute, the gradient exchange, and the part of it that compute did not hide.",
            "s",
            (
                Query(_of("phonerack_training_compute_seconds"), "compute"),
                Query(_of("phonerack_training_exchange_seconds"), "exchange"),
                Query(_of("phonerack_training_wait_seconds"), "wait"),
            ),
            least=0,
            may_be_empty=NEEDS_RUN,
        ),
        listing(
            "Run",
            "What it works on, and its rank.",
            _of("phonerack_training_info"),
            ("run", "rank"),
            may_be_empty=NEEDS_RUN,
        ),
    ),
    "Link": (
        Panel(
            "Carrier and speed",
            "Of its port, as the switch sees it: below a gigabit change the cable, then the "
            "adapter.",
            "Bps",
            (Query(_of("phonerack_switch_port_speed_bytes"), "{{switch}} {{port}}"),),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
        _port(
            "Traffic",
            "Bytes that come from the phone and that go to it.",
            "Bps",
            ("receive_bytes_total", "from the phone"),
            ("transmit_bytes_total", "to the phone"),
        ),
        _port(
            "Damaged and dropped",
            "Damaged frames mean cable or adapter; dropped ones that too many send to one.",
            "suffix: frames/s",
            ("receive_errors_total", "damaged, from the phone"),
            ("transmit_errors_total", "damaged, to the phone"),
            ("receive_discards_total", "dropped, from the phone"),
            ("transmit_discards_total", "dropped, to the phone"),
        ),
        Panel(
            "Flaps",
            "How often the carrier went within ten minutes.",
            "none",
            (
                Query(
                    f"increase({_of('phonerack_switch_port_flaps_total')}[10m])",
                    "{{switch}} {{port}}",
                ),
            ),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
    ),
    "Exporter": (
        Panel(
            "Sources",
            "Whether each source could be read; the reason of a failure is in the service's log.",
            "bool_yes_no",
            (Query(_of("phonerack_collector_success"), "{{source}}"),),
            "state-timeline",
            steps=GOOD_IS_ONE,
        ),
        _line(
            "Time to read",
            "How long each source took; one that hangs is given up after some seconds.",
            "s",
            ("phonerack_collector_duration_seconds", "{{source}}"),
        ),
        Panel(
            "Age of values",
            "Time since each source was read, by the phone's own clock.",
            "s",
            (
                Query(
                    f"max by (source) ({_of('phonerack_clock_timestamp_seconds')}"
                    " - on (phone) group_right () "
                    f"{_of('phonerack_collector_last_success_timestamp_seconds')})",
                    "{{source}}",
                ),
            ),
        ),
        Panel(
            "Own cost",
            "Processor time that the exporter takes, of one core.",
            "percentunit",
            (
                Query(
                    f'rate(process_cpu_seconds_total{{job="phone", {PHONE}}}[$__rate_interval])',
                    "exporter",
                ),
            ),
            least=0,
        ),
    ),
}


def build() -> Json:
    return dashboard(
        "phone",
        "One phone: all that it tells of itself, and its port of the switch.",
        SECTIONS,
        (variable("phone", "Phone", 'label_values(up{job="phone", rack="$rack"}, phone)'),),
    )
