"""The dashboard of a rack's switches: `python -m exporters.dashboards.switches` prints it."""

from __future__ import annotations

import json
from typing import Any

from exporters.dashboards.grafana import Panel, Query, Steps, document, several, variable

CHOSEN = 'rack="$rack", switch=~"$switch"'
PHONES = f'{CHOSEN}, phone!=""'
PORT_LEGEND = "{{switch}} {{port}} {{phone}}"
GIGABIT_BYTES = 125_000_000.0
GOOD_IS_ONE: Steps = (("red", None), ("green", 1.0))
GOOD_IS_ZERO: Steps = (("green", None), ("red", 1.0))


def _of(metric: str) -> str:
    return f"{metric}{{{CHOSEN}}}"


def _number(
    title: str, description: str, expression: str, steps: Steps, unit: str = "none"
) -> Panel:
    queries = (Query(expression, title),)
    return Panel(title, description, unit, queries, "stat", width=4, height=4, steps=steps)


def _rate(title: str, description: str, unit: str, metric: str) -> Panel:
    """A counter of all ports that have anything to say."""
    expression = f"rate(phonerack_switch_port_{metric}{{{CHOSEN}}}[$__rate_interval]) > 0"
    return Panel(title, description, unit, (Query(expression, PORT_LEGEND),), least=0)


SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Switches": (
        _number("Read", "Switches that answer.", f"sum({_of('phonerack_switch_up')})", GOOD_IS_ONE),
        _number(
            "Links of phones",
            "Ports of phones with a carrier.",
            f"sum(phonerack_switch_port_up{{{PHONES}}})",
            GOOD_IS_ONE,
        ),
        _number(
            "Slow links",
            "Links of phones below a gigabit.",
            f"count(phonerack_switch_port_speed_bytes{{{PHONES}}} < {GIGABIT_BYTES:.0f})"
            " or vector(0)",
            GOOD_IS_ZERO,
        ),
        _number(
            "Drift",
            "Settings that are not as the rack file says.",
            f"sum({_of('phonerack_switch_drift')})",
            GOOD_IS_ZERO,
        ),
        _number(
            "Hottest",
            "Highest temperature inside a switch.",
            f"max({_of('phonerack_switch_temperature_celsius')})",
            (("green", None), ("orange", 60.0), ("red", 70.0)),
            "celsius",
        ),
        _number(
            "Power given",
            "Power over Ethernet that all devices take.",
            f"sum({_of('phonerack_switch_poe_power_watts')})",
            (("green", None),),
            "watt",
        ),
    ),
    "Links of phones": (
        Panel(
            "Carrier",
            "Whether the port of each phone has a carrier.",
            "bool_yes_no",
            (Query(f"phonerack_switch_port_up{{{PHONES}}}", PORT_LEGEND),),
            kind="state-timeline",
            steps=GOOD_IS_ONE,
        ),
        Panel(
            "Speed",
            "Negotiated speed of each phone's link.",
            "Bps",
            (Query(f"phonerack_switch_port_speed_bytes{{{PHONES}}}", PORT_LEGEND),),
            least=0,
        ),
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
        _rate("Flaps", "How often a carrier goes.", "suffix: /s", "flaps_total"),
        Panel(
            "Power by port",
            "What each port gives to its device; empty where the switch does not tell.",
            "watt",
            (Query(f"{_of('phonerack_switch_port_poe_power_watts')} > 0", PORT_LEGEND),),
            least=0,
        ),
    ),
    "Inside": (
        Panel(
            "Temperature",
            "Each sensor of each switch.",
            "celsius",
            (Query(_of("phonerack_switch_temperature_celsius"), "{{switch}} {{sensor}}"),),
        ),
        Panel(
            "What differs from the rack file",
            "Settings that somebody changed; `fleetctl provision switches -C -D` shows all.",
            "none",
            (Query(f"{_of('phonerack_switch_drift')} == 1", "{{switch}} {{port}} {{setting}}"),),
            least=0,
        ),
        Panel(
            "Spanning tree",
            "Ports with a carrier that it does not let forward.",
            "none",
            (
                Query(
                    f"count by (switch) ({_of('phonerack_switch_port_forwarding')} == 0)",
                    "{{switch}}",
                ),
            ),
            least=0,
        ),
        Panel(
            "Time to read",
            "How long a switch takes to answer; 20 s is the limit.",
            "s",
            (Query(_of("phonerack_switch_reading_duration_seconds"), "{{switch}}"),),
            least=0,
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    return document(
        uid="phonerack-switches",
        title="phonerack: switches",
        description="The switches of one rack and the links of its phones.",
        refresh="30s",
        since="now-3h",
        chosen=(
            variable("rack", "Rack", "label_values(phonerack_switch_up, rack)"),
            several("switch", "Switch", 'label_values(phonerack_switch_up{rack="$rack"}, switch)'),
        ),
        sections=SECTIONS,
    )


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=2, ensure_ascii=False))
