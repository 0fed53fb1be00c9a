"""The dashboard of one rack: its phones in their places, their state, heat, power and alerts."""

from __future__ import annotations

from exporters.dashboards.grafana import Json, Panel, Query, several
from exporters.dashboards.shared import (
    ALERTS,
    CELSIUS,
    GOOD_IS_ONE,
    GOOD_IS_ZERO,
    HOT,
    NEEDS_RUN,
    NEEDS_SERVE,
    PHONES,
    RACK,
    STATES,
    dashboard,
    listing,
    number,
    of,
    per_phone,
    places,
    state_code,
    switched,
)

IMAGES_RATE = f"sum(rate({of('phonerack_training_images_total')}[$__rate_interval]))"
UP = f'up{{job="phone", {PHONES}}}'
CLOCK = "phonerack_clock_timestamp_seconds"

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Rack": (
        number("Phones up", "Phones whose exporter answers.", "none", f"sum({UP})", GOOD_IS_ONE),
        number("Phones known", "Phones of the rack file that are asked.", "none", f"count({UP})"),
        number(
            "Alerts",
            "Alerts that fire now; below they are listed.",
            "none",
            f"count({ALERTS}) or vector(0)",
            GOOD_IS_ZERO,
        ),
        number(
            "Hottest battery",
            "Highest battery temperature: from 40 °C on be careful, from 45 °C on stop.",
            "celsius",
            f"max({of('phonerack_battery_temperature_celsius')})",
            CELSIUS,
        ),
        number(
            "Emptiest battery",
            "Lowest charge. Falling while plugged in: the adapter gives less than training takes.",
            "percentunit",
            f"min({of('phonerack_battery_charge_ratio')})",
            (("red", None), ("orange", 0.2), ("green", 0.4)),
        ),
        number(
            "Speed",
            "Images that all phones train on together.",
            "suffix: images/s",
            IMAGES_RATE,
            may_be_empty=NEEDS_RUN,
        ),
    ),
    "Places": (
        places(
            "Temperature by place",
            "Battery temperature of each phone in its place: a row a switch, a column a port. A "
            "hot corner is a matter of air, a hot phone one of the phone. A phone that does not "
            "answer has no colour. Phones without a switch stand in a row of their own, by number.",
            "celsius",
            f"max by (rack, phone) ({of('phonerack_battery_temperature_celsius', RACK)})",
            steps=HOT,
            decimals=0,
        ),
        places(
            "State by place",
            "State of each phone in its place, in the words of `fleetctl status`.",
            "none",
            state_code(RACK),
            said=STATES,
            may_be_empty=NEEDS_SERVE,
        ),
    ),
    "Alerts": (
        listing(
            "Firing",
            "What is wrong now; docs/runbooks tells for each alert what to do. Empty is good.",
            ALERTS,
            ("alertname", "severity", "phone", "switch", "port"),
        ),
        listing(
            "Findings of checks",
            "What the last `fleetctl check cables`, `check packages` and the like found wrong.",
            f"phonerack_fleet_check_findings{{{RACK}}}",
            ("check",),
            value="findings",
            may_be_empty="Empty until serve has seen such a check.",
        ),
    ),
    "State": (
        Panel(
            "Phones by state",
            "How many phones are ready, busy, drained and so on.",
            "none",
            (Query(f"phonerack_fleet_phones{{{RACK}}}", "{{state}}"),),
            least=0,
            stacked=True,
            may_be_empty=NEEDS_SERVE,
        ),
        Panel(
            "State of each phone",
            "In the words of `fleetctl status`, over time.",
            "none",
            (Query(state_code(PHONES)),),
            "state-timeline",
            said=STATES,
            may_be_empty=NEEDS_SERVE,
        ),
        Panel(
            "Drains",
            "Drains that hold, by who has set them; a phone may have several.",
            "none",
            (Query(f"phonerack_fleet_drains{{{RACK}}}", "{{origin}}"),),
            least=0,
            may_be_empty=NEEDS_SERVE,
        ),
        Panel(
            "Jobs",
            "Jobs at work, in the queue, and failed within the hour; and how many phones those in "
            "the queue need at least.",
            "none",
            (
                Query(f"phonerack_fleet_jobs{{{RACK}}}", "{{state}}"),
                Query(f"phonerack_fleet_queue_phones{{{RACK}}}", "phones wanted"),
                Query(f"phonerack_fleet_failed_runs{{{RACK}}}", "failed: {{cause}}"),
            ),
            least=0,
            may_be_empty=NEEDS_SERVE,
        ),
        Panel(
            "Longest wait",
            "How long the oldest job in the queue has waited.",
            "s",
            (Query(f"phonerack_fleet_queue_longest_wait_seconds{{{RACK}}}", "oldest job"),),
            least=0,
            may_be_empty=NEEDS_SERVE,
        ),
        switched(
            "Up",
            "Whether the phone's exporter answered.",
            "up",
            queries=(Query(UP),),
        ),
    ),
    "Heat": (
        Panel(
            "Battery temperature",
            "As Android reports it.",
            "celsius",
            per_phone("phonerack_battery_temperature_celsius"),
            steps=CELSIUS,
        ),
        Panel(
            "Hottest thermal zone",
            "Highest of the phone's sensors.",
            "celsius",
            (Query(f"max by (phone) ({of('phonerack_thermal_zone_celsius')})"),),
            may_be_empty="Empty where neither kernel nor Android tells them.",
        ),
        Panel(
            "Frequency that heat leaves",
            "What each phone's most throttled cluster may reach, of what it is built for.",
            "percentunit",
            (
                Query(
                    f"min by (phone) ({of('phonerack_cpu_frequency_limit_hertz')}"
                    f" / {of('phonerack_cpu_frequency_max_hertz')})"
                ),
            ),
            least=0,
            most=1,
            may_be_empty="Empty where the vendor denies it.",
        ),
        Panel(
            "Time throttled",
            "Share of the time in which a thermal status or a frequency limit slowed the phone.",
            "percentunit",
            (
                Query(
                    "max by (phone) "
                    f"(rate({of('phonerack_throttled_seconds_total')}[$__rate_interval]))"
                ),
            ),
            least=0,
            may_be_empty="Empty where the phone tells neither.",
        ),
    ),
    "Power": (
        Panel(
            "Charge",
            "Batteries that are kept full age fastest; half is a good place to be.",
            "percentunit",
            per_phone("phonerack_battery_charge_ratio"),
            least=0,
            most=1,
        ),
        switched(
            "Plugged in",
            "Whether the phone sees its charger.",
            "phonerack_battery_plugged",
        ),
    ),
    "Phones": (
        Panel(
            "Sources that cannot be read",
            "Phones on which a source of the exporter failed, by source.",
            "none",
            (Query(f"sum by (source) (1 - {of('phonerack_collector_success')})", "{{source}}"),),
            least=0,
        ),
        Panel(
            "Memory available",
            "What programs can still get.",
            "bytes",
            per_phone("phonerack_memory_available_bytes"),
            least=0,
        ),
        Panel(
            "Storage free",
            "What is left where runs and data lie.",
            "bytes",
            per_phone("phonerack_storage_free_bytes"),
            least=0,
        ),
        Panel(
            "Cores allowed",
            "Below 1, Android keeps Termux off the fast cores: it counts as a background app.",
            "percentunit",
            (Query(f"{of('phonerack_cpus_allowed')} / {of('phonerack_cpus_possible')}"),),
            least=0,
            most=1,
        ),
        Panel(
            "Processes",
            "Of Termux, by phone; Android 12 kills beyond 32 unless it is told not to.",
            "none",
            (Query(f"sum by (phone) ({of('phonerack_processes')})"),),
            least=0,
        ),
        Panel(
            "Clock",
            "How far the phone's clock is from Prometheus's; some seconds may be the sample's age.",
            "s",
            (Query(f"{of(CLOCK)} - timestamp({of(CLOCK)})"),),
        ),
    ),
}


def build() -> Json:
    return dashboard(
        "rack",
        "The phones of one rack in their places: how they are, how hot, what is wrong.",
        SECTIONS,
        (several("phone", "Phone", 'label_values(up{job="phone", rack="$rack"}, phone)'),),
        since="now-30m",
    )
