"""Every metric of the phone exporter: its name, its meaning, its labels.

Names carry base units. What is not known is absent, never 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

LABEL_LENGTH = 120
"""Longest label value; what a phone prints is not ours to trust."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["gauge", "counter"] = "gauge"
    least: float = -math.inf
    most: float = math.inf
    """Less or more than this no phone can have: the source is wrong, and the value is not told."""

    def is_possible(self, value: float) -> bool:
        return math.isfinite(value) and self.least <= value <= self.most

    def sample(self, value: float, *labels: str) -> Sample:
        """One value, with the values of `labels` in their order."""
        if len(labels) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, given {labels}")
        return Sample(self, float(value), tuple(_printable(label) for label in labels))

    def family(self) -> CounterMetricFamily | GaugeMetricFamily:
        """An empty family of prometheus_client."""
        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        return kind(self.name, self.help, labels=self.labels)


@dataclass(frozen=True, slots=True)
class Sample:
    metric: Metric
    value: float
    labels: tuple[str, ...]


def _printable(text: str) -> str:
    """A lone surrogate, which JSON allows, would fail the whole page when it is encoded."""
    return text.encode(errors="replace").decode()[:LABEL_LENGTH]


MOST_BYTES = 2.0**50
MOST_SECONDS = 1e10
"""Three centuries: of a clock, too, that a flat battery has sent astray."""

COLLECTOR_SUCCESS = Metric(
    "phonerack_collector_success",
    "1 if the last reading of this source succeeded.",
    ("source",),
    least=0,
    most=1,
)
COLLECTOR_DURATION = Metric(
    "phonerack_collector_duration_seconds",
    "How long that reading took.",
    ("source",),
    least=0,
    most=MOST_SECONDS,
)
COLLECTOR_LAST_SUCCESS = Metric(
    "phonerack_collector_last_success_timestamp_seconds",
    "Phone's time of the last successful reading of this source.",
    ("source",),
    least=0,
    most=MOST_SECONDS,
)

BATTERY_TEMPERATURE = Metric(
    "phonerack_battery_temperature_celsius", "Battery temperature.", least=-40, most=120
)
BATTERY_CHARGE = Metric("phonerack_battery_charge_ratio", "Charge, 1 is full.", least=0, most=1)
BATTERY_VOLTAGE = Metric("phonerack_battery_voltage_volts", "Battery voltage.", least=0.1, most=30)
BATTERY_CURRENT = Metric(
    "phonerack_battery_current_amperes",
    "Battery current. Which sign means charging differs by vendor.",
    least=-10,
    most=10,
)
BATTERY_POWER = Metric(
    "phonerack_battery_power_watts",
    "Voltage times current, without a sign: see phonerack_battery_status for the direction.",
    least=0,
    most=150,
)
BATTERY_PLUGGED = Metric(
    "phonerack_battery_plugged", "1 if the phone sees a charger.", least=0, most=1
)
BATTERY_STATUS = Metric(
    "phonerack_battery_status",
    "1 for what the battery is doing, else 0.",
    ("status",),
    least=0,
    most=1,
)
BATTERY_HEALTH = Metric(
    "phonerack_battery_health",
    "1 for the battery's health as Android sees it, else 0.",
    ("health",),
    least=0,
    most=1,
)

THERMAL_ZONE = Metric(
    "phonerack_thermal_zone_celsius",
    "Temperature of a thermal zone.",
    ("zone", "type"),
    least=-40,
    most=150,
)
THERMAL_STATUS = Metric(
    "phonerack_thermal_status",
    "How hot Android takes the phone for: 0 not, 1 light, 2 moderate, 3 severe, 4 critical, "
    "5 emergency, 6 shutdown. Absent where Android tells apps nothing.",
    least=0,
    most=6,
)
THROTTLED = Metric(
    "phonerack_throttled_seconds_total",
    "How long the phone was slowed down since its exporter began: by its thermal status of light "
    "or more, or by a frequency limit below the maximum.",
    ("by",),
    kind="counter",
    least=0,
    most=MOST_SECONDS,
)
CPU_FREQUENCY = Metric(
    "phonerack_cpu_frequency_hertz",
    "Frequency of a cluster of cores now.",
    ("policy",),
    least=1e6,
    most=2e10,
)
CPU_FREQUENCY_LIMIT = Metric(
    "phonerack_cpu_frequency_limit_hertz",
    "Frequency that the cluster may reach now; below the maximum while it is throttled.",
    ("policy",),
    least=1e6,
    most=2e10,
)
CPU_FREQUENCY_MAX = Metric(
    "phonerack_cpu_frequency_max_hertz",
    "Frequency that the cluster is built for.",
    ("policy",),
    least=1e6,
    most=2e10,
)
CPUS_ALLOWED = Metric(
    "phonerack_cpus_allowed",
    "Cores that Android lets the app use; fewer while in background.",
    least=1,
    most=1024,
)
CPUS_POSSIBLE = Metric("phonerack_cpus_possible", "Cores that the phone has.", least=1, most=1024)

MEMORY_SIZE = Metric(
    "phonerack_memory_size_bytes", "Memory of the phone.", least=1, most=MOST_BYTES
)
MEMORY_AVAILABLE = Metric(
    "phonerack_memory_available_bytes",
    "Memory that programs can still get without swapping.",
    least=0,
    most=MOST_BYTES,
)
SWAP_SIZE = Metric(
    "phonerack_swap_size_bytes",
    "Swap space, compressed memory on most phones.",
    least=0,
    most=MOST_BYTES,
)
SWAP_FREE = Metric(
    "phonerack_swap_free_bytes", "Swap space that is free.", least=0, most=MOST_BYTES
)
STORAGE_SIZE = Metric(
    "phonerack_storage_size_bytes",
    "Size of the file system that holds $HOME.",
    least=1,
    most=MOST_BYTES,
)
STORAGE_FREE = Metric(
    "phonerack_storage_free_bytes",
    "Space there that the app can still use.",
    least=0,
    most=MOST_BYTES,
)
CLOCK = Metric(
    "phonerack_clock_timestamp_seconds",
    "What the phone takes for the time.",
    least=0,
    most=MOST_SECONDS,
)
UPTIME = Metric(
    "phonerack_uptime_seconds",
    "Time since the phone booted, sleep included.",
    least=0,
    most=MOST_SECONDS,
)

PROCESSES = Metric(
    "phonerack_processes", "Processes of the app, by program.", ("program",), least=0, most=1e6
)
PROCESSES_RESIDENT = Metric(
    "phonerack_processes_resident_bytes",
    "Resident memory of these processes; shared pages count in each.",
    ("program",),
    least=0,
    most=MOST_BYTES,
)
EXPORTER_CPU = Metric(
    "process_cpu_seconds_total",
    "CPU time of the exporter.",
    kind="counter",
    least=0,
    most=MOST_SECONDS,
)
EXPORTER_RESIDENT = Metric(
    "process_resident_memory_bytes", "Resident memory of the exporter.", least=1, most=MOST_BYTES
)

RELEASE_INFO = Metric(
    "phonerack_release_info",
    "The phonerack release that the phone runs.",
    ("version", "target"),
    least=1,
    most=1,
)
PACKAGE_INFO = Metric(
    "phonerack_package_info",
    "Installed version of a Termux package.",
    ("package", "version"),
    least=1,
    most=1,
)

TERMUX_INFO = Metric(
    "phonerack_termux_info", "Version of the Termux app.", ("version",), least=1, most=1
)

TRAINING_INFO = Metric(
    "phonerack_training_info",
    "The run that the phone works on, and its rank.",
    ("run", "rank"),
    least=1,
    most=1,
)
TRAINING_ITERATION = Metric("phonerack_training_iteration", "Iterations done.", least=0, most=1e12)
TRAINING_ITERATIONS = Metric(
    "phonerack_training_iterations", "Iterations that the run has.", least=0, most=1e12
)
TRAINING_EPOCH = Metric("phonerack_training_epoch", "Epoch that the run is in.", least=0, most=1e12)
TRAINING_LOSS = Metric(
    "phonerack_training_loss", "Mean loss of this phone's samples in the last iteration."
)
TRAINING_ACCURACY = Metric(
    "phonerack_training_test_accuracy_ratio",
    "Accuracy on the test data at the last evaluation.",
    least=0,
    most=1,
)
TRAINING_COMPUTE = Metric(
    "phonerack_training_compute_seconds", "Compute time of the last iteration.", least=0, most=1e6
)
TRAINING_EXCHANGE = Metric(
    "phonerack_training_exchange_seconds",
    "Time the gradient exchange of it took.",
    least=0,
    most=1e6,
)
TRAINING_WAIT = Metric(
    "phonerack_training_wait_seconds",
    "The part of the exchange that compute did not hide.",
    least=0,
    most=1e6,
)
TRAINING_IMAGES = Metric(
    "phonerack_training_images_total",
    "Images this phone has trained on.",
    kind="counter",
    least=0,
    most=1e15,
)
TRAINING_UPDATED = Metric(
    "phonerack_training_updated_timestamp_seconds",
    "Phone's time of the last progress record.",
    least=0,
    most=MOST_SECONDS,
)

TEXTFILE_MODIFIED = Metric(
    "phonerack_textfile_modified_timestamp_seconds",
    "Phone's time of the last change of a file of the operator's own metrics.",
    ("file",),
    least=0,
    most=MOST_SECONDS,
)
TEXTFILE_REFUSED = Metric(
    "phonerack_textfile_refused",
    "1 for a file of the operator's own metrics that is not shown, and why.",
    ("file", "reason"),
    least=1,
    most=1,
)

CATALOGUE: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
