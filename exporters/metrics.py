"""Every metric of the phone exporter: its name, its meaning, its labels.

Names carry base units. What is not known is absent, never 0.
"""

from __future__ import annotations

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


COLLECTOR_SUCCESS = Metric(
    "phonerack_collector_success", "1 if the last reading of this source succeeded.", ("source",)
)
COLLECTOR_DURATION = Metric(
    "phonerack_collector_duration_seconds", "How long that reading took.", ("source",)
)
COLLECTOR_LAST_SUCCESS = Metric(
    "phonerack_collector_last_success_timestamp_seconds",
    "Phone's time of the last successful reading of this source.",
    ("source",),
)

BATTERY_TEMPERATURE = Metric("phonerack_battery_temperature_celsius", "Battery temperature.")
BATTERY_CHARGE = Metric("phonerack_battery_charge_ratio", "Charge, 1 is full.")
BATTERY_VOLTAGE = Metric("phonerack_battery_voltage_volts", "Battery voltage.")
BATTERY_CURRENT = Metric(
    "phonerack_battery_current_amperes",
    "Battery current. Which sign means charging differs by vendor.",
)
BATTERY_POWER = Metric(
    "phonerack_battery_power_watts",
    "Voltage times current, without a sign: see phonerack_battery_status for the direction.",
)
BATTERY_PLUGGED = Metric("phonerack_battery_plugged", "1 if the phone sees a charger.")
BATTERY_STATUS = Metric(
    "phonerack_battery_status", "1 for what the battery is doing, else 0.", ("status",)
)
BATTERY_HEALTH = Metric(
    "phonerack_battery_health",
    "1 for the battery's health as Android sees it, else 0.",
    ("health",),
)

THERMAL_ZONE = Metric(
    "phonerack_thermal_zone_celsius", "Temperature of a thermal zone.", ("zone", "type")
)
THERMAL_STATUS = Metric(
    "phonerack_thermal_status",
    "How hot Android takes the phone for: 0 not, 1 light, 2 moderate, 3 severe, 4 critical, "
    "5 emergency, 6 shutdown. Absent where Android tells apps nothing.",
)
THROTTLED = Metric(
    "phonerack_throttled_seconds_total",
    "How long the phone was slowed down since its exporter began: by its thermal status of light "
    "or more, or by a frequency limit below the maximum.",
    ("by",),
    kind="counter",
)
CPU_FREQUENCY = Metric(
    "phonerack_cpu_frequency_hertz", "Frequency of a cluster of cores now.", ("policy",)
)
CPU_FREQUENCY_LIMIT = Metric(
    "phonerack_cpu_frequency_limit_hertz",
    "Frequency that the cluster may reach now; below the maximum while it is throttled.",
    ("policy",),
)
CPU_FREQUENCY_MAX = Metric(
    "phonerack_cpu_frequency_max_hertz", "Frequency that the cluster is built for.", ("policy",)
)
CPUS_ALLOWED = Metric(
    "phonerack_cpus_allowed", "Cores that Android lets the app use; fewer while in background."
)
CPUS_POSSIBLE = Metric("phonerack_cpus_possible", "Cores that the phone has.")

MEMORY_SIZE = Metric("phonerack_memory_size_bytes", "Memory of the phone.")
MEMORY_AVAILABLE = Metric(
    "phonerack_memory_available_bytes", "Memory that programs can still get without swapping."
)
SWAP_SIZE = Metric("phonerack_swap_size_bytes", "Swap space, compressed memory on most phones.")
SWAP_FREE = Metric("phonerack_swap_free_bytes", "Swap space that is free.")
STORAGE_SIZE = Metric("phonerack_storage_size_bytes", "Size of the file system that holds $HOME.")
STORAGE_FREE = Metric("phonerack_storage_free_bytes", "Space there that the app can still use.")
CLOCK = Metric("phonerack_clock_timestamp_seconds", "What the phone takes for the time.")
UPTIME = Metric("phonerack_uptime_seconds", "Time since the phone booted, sleep included.")

PROCESSES = Metric("phonerack_processes", "Processes of the app, by program.", ("program",))
PROCESSES_RESIDENT = Metric(
    "phonerack_processes_resident_bytes",
    "Resident memory of these processes; shared pages count in each.",
    ("program",),
)
EXPORTER_CPU = Metric("process_cpu_seconds_total", "CPU time of the exporter.", kind="counter")
EXPORTER_RESIDENT = Metric("process_resident_memory_bytes", "Resident memory of the exporter.")

RELEASE_INFO = Metric(
    "phonerack_release_info", "The phonerack release that the phone runs.", ("version", "target")
)
PACKAGE_INFO = Metric(
    "phonerack_package_info", "Installed version of a Termux package.", ("package", "version")
)

TRAINING_INFO = Metric(
    "phonerack_training_info", "The run that the phone works on, and its rank.", ("run", "rank")
)
TRAINING_ITERATION = Metric("phonerack_training_iteration", "Iterations done.")
TRAINING_ITERATIONS = Metric("phonerack_training_iterations", "Iterations that the run has.")
TRAINING_EPOCH = Metric("phonerack_training_epoch", "Epoch that the run is in.")
TRAINING_LOSS = Metric(
    "phonerack_training_loss", "Mean loss of this phone's samples in the last iteration."
)
TRAINING_ACCURACY = Metric(
    "phonerack_training_test_accuracy_ratio", "Accuracy on the test data at the last evaluation."
)
TRAINING_COMPUTE = Metric(
    "phonerack_training_compute_seconds", "Compute time of the last iteration."
)
TRAINING_EXCHANGE = Metric(
    "phonerack_training_exchange_seconds", "Time the gradient exchange of it took."
)
TRAINING_WAIT = Metric(
    "phonerack_training_wait_seconds", "The part of the exchange that compute did not hide."
)
TRAINING_IMAGES = Metric(
    "phonerack_training_images_total", "Images this phone has trained on.", kind="counter"
)
TRAINING_UPDATED = Metric(
    "phonerack_training_updated_timestamp_seconds", "Phone's time of the last progress record."
)

CATALOGUE: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
