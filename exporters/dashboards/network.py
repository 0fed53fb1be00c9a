"""The dashboard of the network: the switches, the links of the phones, what flows."""

from __future__ import annotations

from exporters.dashboards.grafana import PLAIN, Json, Panel, Query, several
from exporters.dashboards.shared import (
    GOOD_IS_ONE,
    GOOD_IS_ZERO,
    NEEDS_SWITCHES,
    RACK,
    dashboard,
    listing,
    number,
    of,
)

CHOSEN = f'{RACK}, switch=~"$switch"'
PHONES = f'{CHOSEN}, phone!=""'
PORT = "{{switch}} {{port}} {{phone}}"
GIGABIT_BYTES = 125_000_000.0
POE = "Empty where the switch feeds no device or does not tell."


def _of(metric: str) -> str:
    return of(f"phonerack_switch_{metric}", CHOSEN)


def _of_phones(metric: str) -> str:
    return of(f"phonerack_switch_port_{metric}", PHONES)


def _rate(title: str, description: str, unit: str, metric: str) -> Panel:
    """A counter by the second: of each switch as a whole, and of the ports that are not quiet."""
    rate = f"rate({_of(f'port_{metric}')}[$__rate_interval])"
    queries = (
        Query(f"sum by (switch) ({rate})", "{{switch}} all ports"),
        Query(f"{rate} > 0", PORT),
    )
    return Panel(title, description, unit, queries, least=0, may_be_empty=NEEDS_SWITCHES)


SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Switches": (
        number(
            "Read",
            "Switches that answer.",
            "none",
            f"sum({_of('up')})",
            GOOD_IS_ONE,
            may_be_empty=NEEDS_SWITCHES,
        ),
        number(
            "Links of phones",
            "Ports of phones with a carrier.",
            "none",
            f"sum({_of_phones('up')})",
            GOOD_IS_ONE,
            may_be_empty=NEEDS_SWITCHES,
        ),
        number(
            "Slow links",
            "Links of phones below a gigabit.",
            "none",
            f"count({_of_phones('speed_bytes')} < {GIGABIT_BYTES:.0f}) or vector(0)",
            GOOD_IS_ZERO,
        ),
        number(
            "Drift",
            "Settings that are not as the rack file says.",
            "none",
            f"sum({_of('drift')})",
            GOOD_IS_ZERO,
            may_be_empty=NEEDS_SWITCHES,
        ),
        number(
            "Hottest",
            "Highest temperature inside a switch.",
            "celsius",
            f"max({_of('temperature_celsius')})",
            (("green", None), ("orange", 60.0), ("red", 70.0)),
            may_be_empty=NEEDS_SWITCHES,
        ),
        number(
            "Power given",
            "Power over Ethernet that all devices take.",
            "watt",
            f"sum({_of('poe_power_watts')})",
            PLAIN,
            least=0,
            may_be_empty=POE,
        ),
    ),
    "Links of phones": (
        Panel(
            "Carrier",
            "Whether the port of each phone has a carrier.",
            "bool_yes_no",
            (Query(_of_phones("up"), PORT),),
            "state-timeline",
            steps=GOOD_IS_ONE,
            may_be_empty=NEEDS_SWITCHES,
        ),
        Panel(
            "Speed",
            "Negotiated speed of each phone's link: 125 MB/s is a gigabit.",
            "Bps",
            (Query(_of_phones("speed_bytes"), PORT),),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
        listing(
            "Ports out of order",
            "Links of phones that are slow, at half duplex, or blocked by the spanning tree.",
            f'label_replace({_of_phones("speed_bytes")} < {GIGABIT_BYTES:.0f}, "why", "slow", "", '
            f'"") or label_replace({_of_phones("full_duplex")} == 0, "why", "half duplex", "", "") '
            f'or label_replace({_of_phones("forwarding")} == 0, "why", "blocked", "", "")',
            ("switch", "port", "phone", "why"),
            may_be_empty="Empty is good.",
        ),
        Panel(
            "Flaps",
            "How often each carrier went within ten minutes.",
            "none",
            (
                Query(
                    f"increase({_of_phones('flaps_total')}[10m]) > 0",
                    PORT,
                ),
            ),
            least=0,
            may_be_empty="Empty is good.",
        ),
    ),
    "Traffic": (
        _rate("From phones", "Bytes that come in, by port.", "Bps", "receive_bytes_total"),
        _rate("To phones", "Bytes that go out, by port.", "Bps", "transmit_bytes_total"),
        _rate(
            "Damaged frames",
            "Frames that come in damaged: cable or adapter.",
            "suffix: frames/s",
            "receive_errors_total",
        ),
        _rate(
            "Dropped frames",
            "Frames that found no room on the way out: too many send to one.",
            "suffix: frames/s",
            "transmit_discards_total",
        ),
        _rate(
            "Dropped on entry",
            "Whole frames that the switch did not take.",
            "suffix: frames/s",
            "receive_discards_total",
        ),
        _rate(
            "Not sent",
            "Frames that could not be sent for an error.",
            "suffix: frames/s",
            "transmit_errors_total",
        ),
    ),
    "Power over Ethernet": (
        Panel(
            "Power by port",
            "What each port gives to its device.",
            "watt",
            (Query(f"{_of('port_poe_power_watts')} > 0", PORT),),
            least=0,
            may_be_empty=POE,
        ),
        Panel(
            "Power of switches",
            "What each switch gives, and what it can: beyond that it cuts ports off by itself.",
            "watt",
            (
                Query(_of("poe_power_watts"), "{{switch}} gives"),
                Query(_of("poe_limit_watts"), "{{switch}} can give"),
            ),
            least=0,
            may_be_empty=POE,
        ),
        Panel(
            "Feeding",
            "Whether the port of each phone feeds it.",
            "bool_yes_no",
            (Query(_of_phones("poe_feeding"), PORT),),
            "state-timeline",
            steps=GOOD_IS_ONE,
            may_be_empty=POE,
        ),
    ),
    "Inside": (
        Panel(
            "Temperature",
            "Each sensor of each switch.",
            "celsius",
            (Query(_of("temperature_celsius"), "{{switch}} {{sensor}}"),),
            may_be_empty=NEEDS_SWITCHES,
        ),
        listing(
            "What differs from the rack file",
            "Settings that somebody changed; `fleetctl provision switches -C -D` shows all.",
            f"{_of('drift')} == 1",
            ("switch", "port", "phone", "setting"),
            may_be_empty="Empty is good.",
        ),
        Panel(
            "Spanning tree",
            "Ports with a carrier that may not forward, and its changes within ten minutes.",
            "none",
            (
                Query(
                    f"sum by (switch) (1 - {_of('port_forwarding')})",
                    "{{switch}} held back",
                ),
                Query(
                    f"increase({_of('topology_changes_total')}[10m])",
                    "{{switch}} changes",
                ),
            ),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
        Panel(
            "Since it started",
            "A fall to 0 is a restart: the switch then runs what was saved.",
            "s",
            (Query(_of("uptime_seconds"), "{{switch}}"),),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
        Panel(
            "Time to read",
            "How long a switch takes to answer; 20 s is the limit.",
            "s",
            (Query(_of("reading_duration_seconds"), "{{switch}}"),),
            least=0,
            may_be_empty=NEEDS_SWITCHES,
        ),
        Panel(
            "Age of values",
            "Time since each switch was last read.",
            "s",
            (Query(f"time() - {_of('last_success_timestamp_seconds')}", "{{switch}}"),),
            may_be_empty=NEEDS_SWITCHES,
        ),
    ),
}


def build() -> Json:
    return dashboard(
        "network",
        "The switches of one rack, the links of its phones, what flows and what fails.",
        SECTIONS,
        (several("switch", "Switch", 'label_values(phonerack_switch_up{rack="$rack"}, switch)'),),
        since="now-3h",
        refresh="30s",
    )
