"""The dashboard of one rack: `python -m exporters.dashboards.rack` prints rack.json."""

from __future__ import annotations

import json
from typing import Any

from exporters.dashboards.grafana import Panel, Query, Steps, document, several, variable

PHONES = 'rack="$rack", phone=~"$phone"'
CELSIUS_STEPS: Steps = (("green", None), ("orange", 40.0), ("red", 45.0))


def _of(metric: str) -> str:
    """The metric of the phones that are chosen."""
    return f"{metric}{{{PHONES}}}"


def _per_phone(metric: str) -> tuple[Query, ...]:
    return (Query(_of(metric)),)


def _number(
    title: str,
    description: str,
    unit: str,
    expression: str,
    steps: Steps = (("green", None),),
) -> Panel:
    return Panel(
        title,
        description,
        unit,
        (Query(expression, title),),
        "stat",
        width=4,
        height=4,
        steps=steps,
    )


_IMAGES_RATE = f"sum(rate({_of('phonerack_training_images_total')}[$__rate_interval]))"

SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Rack": (
        _number(
            "Phones up",
            "Phones whose exporter answers.",
            "none",
            f"sum({_of('up')})",
            steps=(("red", None), ("green", 1.0)),
        ),
        _number(
            "Phones known", "Phones of the rack file that are asked.", "none", f"count({_of('up')})"
        ),
        _number(
            "Hottest battery",
            "Highest battery temperature: from 40 °C on be careful, from 45 °C on stop.",
            "celsius",
            f"max({_of('phonerack_battery_temperature_celsius')})",
            steps=CELSIUS_STEPS,
        ),
        _number(
            "Emptiest battery",
            "Lowest charge. Falling while plugged in: the adapter gives less than training takes.",
            "percentunit",
            f"min({_of('phonerack_battery_charge_ratio')})",
            steps=(("red", None), ("orange", 0.2), ("green", 0.4)),
        ),
        _number(
            "Speed", "Images that all phones train on together.", "suffix: images/s", _IMAGES_RATE
        ),
        _number(
            "Test accuracy",
            "Share of the test images told right at the last evaluation.",
            "percentunit",
            f"max({_of('phonerack_training_test_accuracy_ratio')})",
        ),
    ),
    "Training": (
        Panel(
            "Loss",
            "Mean loss of each phone's own samples in the last iteration.",
            "none",
            (
                Query(f"avg({_of('phonerack_training_loss')})", "mean"),
                Query(_of("phonerack_training_loss")),
            ),
            least=0,
        ),
        Panel(
            "Accuracy",
            "Share of the test images told right, at each evaluation.",
            "percentunit",
            (Query(f"max({_of('phonerack_training_test_accuracy_ratio')})", "test"),),
            most=1,
        ),
        Panel(
            "Images per second",
            "Images trained on, by phone.",
            "suffix: images/s",
            (
                Query(
                    f"sum by (phone) "
                    f"(rate({_of('phonerack_training_images_total')}[$__rate_interval]))"
                ),
            ),
            least=0,
        ),
        Panel(
            "Where an iteration's time goes",
            "Mean over the phones: compute, the gradient exchange, and the part of the exchange "
            "that compute did not hide.",
            "s",
            (
                Query(f"avg({_of('phonerack_training_compute_seconds')})", "compute"),
                Query(f"avg({_of('phonerack_training_exchange_seconds')})", "exchange"),
                Query(f"avg({_of('phonerack_training_wait_seconds')})", "wait"),
            ),
            least=0,
        ),
        Panel(
            "Compute time by phone",
            "A phone above the others holds all of them up: compare its temperature and frequency.",
            "s",
            _per_phone("phonerack_training_compute_seconds"),
            least=0,
        ),
        Panel(
            "Progress",
            "Iterations done, of those that the run has.",
            "percentunit",
            (
                Query(
                    f"max({_of('phonerack_training_iteration')})"
                    f" / max({_of('phonerack_training_iterations')})",
                    "done",
                ),
            ),
            least=0,
            most=1,
        ),
    ),
    "Heat and power": (
        Panel(
            "Battery temperature",
            "As Android reports it.",
            "celsius",
            _per_phone("phonerack_battery_temperature_celsius"),
            steps=CELSIUS_STEPS,
        ),
        Panel(
            "Hottest thermal zone",
            "Highest of the phone's sensors; empty where neither kernel nor Android tells them.",
            "celsius",
            (Query(f"max by (phone) ({_of('phonerack_thermal_zone_celsius')})"),),
        ),
        Panel(
            "Frequency that heat leaves",
            "What each phone's most throttled cluster may reach, of what it is built for; empty "
            "where the vendor denies it.",
            "percentunit",
            (
                Query(
                    f"min by (phone) ({_of('phonerack_cpu_frequency_limit_hertz')}"
                    f" / {_of('phonerack_cpu_frequency_max_hertz')})"
                ),
            ),
            least=0,
            most=1,
        ),
        Panel(
            "Charge",
            "Batteries that are kept full age fastest; half is a good place to be.",
            "percentunit",
            _per_phone("phonerack_battery_charge_ratio"),
            least=0,
            most=1,
        ),
        Panel(
            "Battery power",
            "Through the battery, in either direction: vendors disagree on the sign.",
            "watt",
            _per_phone("phonerack_battery_power_watts"),
            least=0,
        ),
        Panel(
            "Plugged in",
            "Whether the phone sees its charger.",
            "bool_yes_no",
            _per_phone("phonerack_battery_plugged"),
            kind="state-timeline",
            steps=(("red", None), ("green", 1.0)),
        ),
    ),
    "Phones": (
        Panel(
            "Up",
            "Whether the phone's exporter answered.",
            "bool_yes_no",
            _per_phone("up"),
            kind="state-timeline",
            steps=(("red", None), ("green", 1.0)),
        ),
        Panel(
            "Sources that cannot be read",
            "Phones on which a source of the exporter failed, by source.",
            "none",
            (Query(f"sum by (source) (1 - {_of('phonerack_collector_success')})", "{{source}}"),),
            least=0,
        ),
        Panel(
            "Memory available",
            "What programs can still get.",
            "bytes",
            _per_phone("phonerack_memory_available_bytes"),
            least=0,
        ),
        Panel(
            "Storage free",
            "What is left where runs and data lie.",
            "bytes",
            _per_phone("phonerack_storage_free_bytes"),
            least=0,
        ),
        Panel(
            "Cores allowed",
            "Below 1, Android keeps Termux off the fast cores: it counts as a background app.",
            "percentunit",
            (Query(f"{_of('phonerack_cpus_allowed')} / {_of('phonerack_cpus_possible')}"),),
            least=0,
            most=1,
        ),
        Panel(
            "Processes",
            "Of Termux, by phone; Android 12 kills beyond 32 unless it is told not to.",
            "none",
            (Query(f"sum by (phone) ({_of('phonerack_processes')})"),),
            least=0,
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    return document(
        uid="phonerack-rack",
        title="phonerack: rack",
        description="The phones of one rack: what they train, how hot they are, what fails.",
        refresh="10s",
        since="now-30m",
        chosen=(
            variable("rack", "Rack", 'label_values(up{job="phone"}, rack)'),
            several("phone", "Phone", 'label_values(up{job="phone", rack="$rack"}, phone)'),
        ),
        sections=SECTIONS,
    )


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=2, ensure_ascii=False))
