"""What the dashboards have in common: variables, links, annotations, places, states, limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from exporters.dashboards import grafana
from exporters.dashboards.grafana import PLAIN, Json, Panel, Query, Said, Steps, by_name

RACK = 'rack="$rack"'
PHONES = f'{RACK}, phone=~"$phone"'
ALERTS = 'ALERTS{alertstate="firing", rack=~"$rack|"}'
"""A few alerts are about no phone and no rack in particular: they bear no such label."""

CELSIUS: Steps = (("green", None), ("orange", 40.0), ("red", 45.0))
"""Of batteries: where guard warns and where it drains, unless the rack file says otherwise."""

GOOD_IS_ONE: Steps = (("red", None), ("green", 1.0))
GOOD_IS_ZERO: Steps = (("green", None), ("red", 1.0))
HOT: Steps = (("blue", None), ("green", 25.0), ("yellow", 35.0), ("orange", 40.0), ("red", 45.0))

NEEDS_SERVE = "Empty while nobody serves the rack (`fleetctl serve`)."
NEEDS_RUN = "Empty while no run is under way."
NEEDS_SWITCHES = "Empty where no switch is watched (role switch_exporter)."

STATES = (
    Said(1, "ready", "green"),
    Said(2, "busy", "blue"),
    Said(3, "draining", "yellow"),
    Said(4, "drained", "purple"),
    Said(5, "suspect", "orange"),
    Said(6, "lost", "red"),
    Said(7, "needs-hands", "dark-red"),
)
"""Of phones, as `fleetctl status` names them, and the number that stands for each here."""

RUNS = (
    f"max by (run) (phonerack_fleet_run_phones{{{RACK}}}) "
    f"or count by (run) (phonerack_training_info{{{RACK}}})"
)
"""Phones at work for each run: as serve knows it, or as the phones themselves tell it."""

DASHBOARDS = ("rack", "phone", "training", "network", "power")

_UP = f'up{{job="phone", {RACK}'
_UNPLACED = f'label_replace({_UP}, port=""}}, "switch", "none", "", "")'
PLACE = (
    f'({_UP}, port!=""}} or '
    f'label_replace({_UNPLACED}, "port", "$1", "phone", ".*?0*([0-9]+)")) * 0 + 1'
)
"""1 for each phone, with its switch and port; without a switch, its own number is its port."""


def uid(name: str) -> str:
    return f"phonerack-{name}"


def to_phone(phone: str) -> Json:
    """A way to the dashboard of one phone, whose name Grafana knows as `phone`."""
    chosen = f"var-phone=${{{phone}}}&${{rack:queryparam}}&${{__url_time_range}}"
    return {"title": "This phone", "url": f"/d/{uid('phone')}?{chosen}"}


def _linked(panel: Panel) -> Panel:
    """With a way to each phone from its line."""
    names = all("{{phone}}" in query.legend for query in panel.queries)
    if panel.kind == "table" or not names:
        return panel
    return replace(panel, links=(to_phone("__field.labels.phone"),))


ANNOTATIONS = (
    grafana.annotation("Jobs", "blue", RUNS, "{{run}}", "run"),
    grafana.annotation(
        "Drains",
        "purple",
        f"sum by (origin) (changes(phonerack_fleet_drains{{{RACK}}}[1m])) > 0",
        "drains set or lifted by a {{origin}}",
        "origin",
    ),
    grafana.annotation("Alerts", "red", ALERTS, "{{alertname}} {{phone}}{{switch}}", "severity"),
)


def dashboard(
    name: str,
    description: str,
    sections: Mapping[str, tuple[Panel, ...]],
    variables: Sequence[Json] = (),
    since: str = "now-1h",
    refresh: str = "10s",
) -> Json:
    """One of `DASHBOARDS`; the rack is a variable of all of them."""
    return grafana.document(
        uid=uid(name),
        title=f"phonerack: {name}",
        description=description,
        refresh=refresh,
        since=since,
        variables=[
            grafana.variable("rack", "Rack", 'label_values(up{job="phone"}, rack)'),
            *variables,
        ],
        annotations=ANNOTATIONS,
        links=[
            grafana.link(other, uid(other), "${rack:queryparam}")
            for other in DASHBOARDS
            if other != name
        ],
        sections={title: tuple(map(_linked, section)) for title, section in sections.items()},
    )


def of(metric: str, chosen: str = PHONES) -> str:
    """The metric of the phones, or whatever else is chosen."""
    return f"{metric}{{{chosen}}}"


def per_phone(metric: str) -> tuple[Query, ...]:
    return (Query(of(metric)),)


def state_code(chosen: str) -> str:
    """The number of `STATES` that each phone is in."""
    codes = " or ".join(
        f'phonerack_fleet_phone_state{{{chosen}, state="{state.text}"}} * {state.value}'
        for state in STATES
    )
    return f"sum by (rack, phone) ({codes})"


def number(
    title: str, description: str, unit: str, expression: str, steps: Steps = PLAIN, **more: Any
) -> Panel:
    """One number in large figures; six stand in a row unless a width is given."""
    given = {"width": 4, "height": 4, **more}
    queries = (Query(expression, title),)
    return Panel(title, description, unit, queries, "stat", steps=steps, **given)


def switched(title: str, description: str, metric: str, **more: Any) -> Panel:
    """Bars over time, a phone each, of what is 1 or 0; 1 is good."""
    queries = more.pop("queries", per_phone(metric))
    return Panel(
        title, description, "bool_yes_no", queries, "state-timeline", steps=GOOD_IS_ONE, **more
    )


def places(title: str, description: str, unit: str, expression: str, **more: Any) -> Panel:
    """The rack as it stands: a row a switch, a column a port, a cell a phone.

    `expression` has one value for each `rack` and `phone`.
    """
    placed = f"{expression} * on (rack, phone) group_left (switch, port) ({PLACE})"
    corner = "switch\\port"
    return Panel(
        title,
        description,
        unit,
        (Query(placed),),
        "table",
        width=24,
        height=7,
        has_gaps=True,
        cells={
            "cellOptions": {"type": "color-background", "mode": "basic"},
            "align": "center",
            "minWidth": 50,
        },
        transformations=(
            _changed(
                "convertFieldType",
                conversions=[{"targetField": "port", "destinationType": "number"}],
            ),
            _changed("sortBy", sort=[{"field": "port"}]),
            _changed(
                "groupingToMatrix",
                columnField="port",
                rowField="switch",
                valueField="Value",
                emptyValue="null",
            ),
            _changed("sortBy", sort=[{"field": corner}]),
        ),
        overrides=(
            by_name(
                corner,
                displayName="Switch",
                custom__cellOptions={"type": "auto"},
                custom__minWidth=90,
            ),
        ),
        **more,
    )


def listing(
    title: str, description: str, expression: str, labels: Sequence[str], **more: Any
) -> Panel:
    """A table: a line a series, a column for each of these labels, and the value."""
    shown = {"Value": more.pop("value", "")}
    columns = [*labels, *(["Value"] if shown["Value"] else [])]
    given = {"unit": "none", "width": 12, "height": 8, **more}
    unit = given.pop("unit")
    return Panel(
        title,
        description,
        unit,
        (Query(expression),),
        "table",
        cells={"cellOptions": {"type": "auto"}, "align": "auto"},
        transformations=(
            _changed("filterFieldsByName", include={"names": columns}),
            _changed(
                "organize",
                indexByName={name: index for index, name in enumerate(columns)},
                renameByName={name: text for name, text in shown.items() if text},
                excludeByName={},
            ),
        ),
        overrides=(by_name("phone", links=[to_phone("__value.text")]),)
        if "phone" in labels
        else (),
        **given,
    )


def _changed(kind: str, **options: Any) -> Json:
    return {"id": kind, "options": options}
