"""The dashboard of power: watts, charge and its window, how batteries are, energy per image."""

from __future__ import annotations

from exporters.dashboards.grafana import Json, Panel, Query, several
from exporters.dashboards.shared import (
    CELSIUS,
    GOOD_IS_ZERO,
    PHONES,
    RACK,
    dashboard,
    listing,
    number,
    of,
    per_phone,
    switched,
)

GOOD = of("phonerack_battery_health", f'{PHONES}, health="good"')
NOT_GOOD = of("phonerack_battery_health", f'{PHONES}, health!="good"')
CHARGE = of("phonerack_battery_charge_ratio")
WINDOW = f"phonerack_fleet_charge_window_ratio{{{RACK}"
UNKNOWN = "Power is known of phones that a switch feeds, and of phones on battery."
NO_WINDOW = (
    "Empty while nobody serves the rack, and where nothing switches power or the window is off."
)
NO_GUARD = "Empty while nobody serves the rack, and where no guard has ever watched it."
IMAGES = "phone:training_images:rate2m"
WATTS = "phone:power_watts:max"

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Rack": (
        number(
            "Power",
            "Of the phones whose power is known.",
            "watt",
            f"rack:power_watts:sum{{{RACK}}}",
            least=0,
            may_be_empty=UNKNOWN,
        ),
        number(
            "Known of",
            "Phones whose power is known.",
            "none",
            f"sum(rack:power_known:count{{{RACK}}}) or vector(0)",
        ),
        number(
            "Energy per image",
            "Of the phones that train and whose power is known.",
            "joule",
            f"rack:energy_per_image_joules:ratio{{{RACK}}}",
            least=0,
            may_be_empty=f"{UNKNOWN} Empty while no run is under way.",
        ),
        number(
            "Mean charge",
            "Over the batteries; half is a good place to be.",
            "percentunit",
            f"avg({CHARGE})",
            (("red", None), ("orange", 0.2), ("green", 0.4)),
            least=0,
            most=1,
        ),
        number(
            "Unplugged",
            "Phones that see no charger.",
            "none",
            f"count({of('phonerack_battery_plugged')} == 0) or vector(0)",
        ),
        number(
            "Unwell",
            "Phones whose battery Android does not find good: their power is cut, a person looks.",
            "none",
            f"count({GOOD} == 0) or vector(0)",
            GOOD_IS_ZERO,
        ),
    ),
    "Watts": (
        Panel(
            "Power by phone",
            "By the switch that feeds the phone; else through its battery, while nothing charges "
            "that.",
            "watt",
            (Query(of(WATTS)),),
            least=0,
            may_be_empty=UNKNOWN,
        ),
        Panel(
            "Power of the rack",
            "The phones together, and what the switches give to all their devices.",
            "watt",
            (
                Query(f"rack:power_watts:sum{{{RACK}}}", "phones"),
                Query(
                    f"sum by (switch) (phonerack_switch_poe_power_watts{{{RACK}}})", "{{switch}}"
                ),
            ),
            least=0,
            may_be_empty=UNKNOWN,
        ),
        Panel(
            "Battery power",
            "Through each battery, in either direction: vendors disagree on the sign.",
            "watt",
            per_phone("phonerack_battery_power_watts"),
            least=0,
        ),
        Panel(
            "Energy per image by phone",
            "A phone that takes much more than the others is throttled, or charges meanwhile.",
            "joule",
            (Query(f"{of(WATTS)} / on (rack, phone) ({of(IMAGES)} > 0)"),),
            least=0,
            may_be_empty=f"{UNKNOWN} Empty while no run is under way.",
        ),
    ),
    "Charge": (
        Panel(
            "Charge and window",
            "Each battery, and the window in which guard keeps the phones that have no job.",
            "percentunit",
            (
                Query(CHARGE),
                Query(f"max by (end) ({WINDOW}}})", "window, {{end}} end"),
            ),
            least=0,
            most=1,
        ),
        Panel(
            "Phones outside the window",
            "Above it batteries age; below it they need power. Phones at work rely on their own "
            "charge limit and may be above.",
            "none",
            (
                Query(
                    f'count({CHARGE} > on () group_left () max({WINDOW}, end="high"}})) or '
                    f'max({WINDOW}, end="high"}}) * 0',
                    "above",
                ),
                Query(
                    f'count({CHARGE} < on () group_left () max({WINDOW}, end="low"}})) or '
                    f'max({WINDOW}, end="low"}}) * 0',
                    "below",
                ),
            ),
            least=0,
            may_be_empty=NO_WINDOW,
        ),
        switched("Plugged in", "Whether the phone sees its charger.", "phonerack_battery_plugged"),
        Panel(
            "What batteries do",
            "Phones by what Android says of their battery.",
            "none",
            (Query(f"sum by (status) ({of('phonerack_battery_status')})", "{{status}}"),),
            least=0,
            stacked=True,
        ),
    ),
    "Batteries": (
        switched(
            "Health",
            "Whether Android finds the battery good.",
            "phonerack_battery_health",
            queries=(Query(GOOD),),
        ),
        listing(
            "Not good",
            "Batteries that Android finds not good, and what it calls them.",
            f"{NOT_GOOD} == 1",
            ("phone", "switch", "port", "health"),
            may_be_empty="Empty is good.",
        ),
        Panel(
            "Battery temperature",
            "As Android reports it.",
            "celsius",
            per_phone("phonerack_battery_temperature_celsius"),
            steps=CELSIUS,
        ),
        Panel(
            "Voltage",
            "Low for its charge: a worn battery.",
            "volt",
            per_phone("phonerack_battery_voltage_volts"),
        ),
        switched(
            "Fed by the switch",
            "Whether the phone's port feeds it.",
            "phonerack_switch_port_poe_feeding",
            may_be_empty="Empty where no switch feeds phones.",
        ),
    ),
    "Guard": (
        number(
            "Last decision",
            "Time since guard last decided anything: more than a minute, and nobody watches.",
            "s",
            f"time() - max(phonerack_fleet_guard_timestamp_seconds{{{RACK}}})",
            (("green", None), ("red", 60.0)),
            may_be_empty=NO_GUARD,
        ),
        number(
            "Latched",
            "Phones that guard keeps cut off until a person has looked: `fleetctl guard clear`.",
            "none",
            f"max(phonerack_fleet_guard_latched{{{RACK}}})",
            GOOD_IS_ZERO,
            may_be_empty=NO_GUARD,
        ),
        Panel(
            "Calls",
            "Phones for which guard calls a person, by the section of docs/runbooks that says why.",
            "none",
            (Query(f"phonerack_fleet_guard_calls{{{RACK}}}", "{{what}}"),),
            width=16,
            height=4,
            least=0,
            may_be_empty=f"Empty is good. {NO_GUARD}",
        ),
    ),
}


def build() -> Json:
    return dashboard(
        "power",
        "What the rack takes, how its batteries are and are kept, what an image costs.",
        SECTIONS,
        (several("phone", "Phone", 'label_values(up{job="phone", rack="$rack"}, phone)'),),
        since="now-6h",
        refresh="30s",
    )
