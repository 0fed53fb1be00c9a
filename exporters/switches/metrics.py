"""Every metric of the switch exporter. What a switch does not tell is absent, never 0."""

from __future__ import annotations

from exporters.metrics import Metric

PORT = ("switch", "port", "phone")
"""`port` as in the rack file; `phone` is empty where none belongs, and so no label then."""


def _port(name: str, help_text: str, counter: bool = False) -> Metric:
    whole_name = f"phonerack_switch_port_{name}"
    return Metric(whole_name, help_text, PORT, "counter" if counter else "gauge")


UP = Metric("phonerack_switch_up", "1 if the last reading of this switch succeeded.", ("switch",))
DURATION = Metric(
    "phonerack_switch_reading_duration_seconds", "How long that reading took.", ("switch",)
)
LAST_SUCCESS = Metric(
    "phonerack_switch_last_success_timestamp_seconds",
    "Time of the last successful reading of this switch.",
    ("switch",),
)
UPTIME = Metric("phonerack_switch_uptime_seconds", "Time since it started.", ("switch",))
TEMPERATURE = Metric(
    "phonerack_switch_temperature_celsius", "Temperature inside the switch.", ("switch", "sensor")
)
POE_POWER = Metric(
    "phonerack_switch_poe_power_watts", "Power over Ethernet that all ports take.", ("switch",)
)
POE_LIMIT = Metric(
    "phonerack_switch_poe_limit_watts", "Power over Ethernet that it can give.", ("switch",)
)
TOPOLOGY_CHANGES = Metric(
    "phonerack_switch_topology_changes_total",
    "Changes of the spanning tree.",
    ("switch",),
    "counter",
)
DRIFT = Metric(
    "phonerack_switch_drift",
    "1 if this setting is not as the rack file says; `port` is empty for the whole switch.",
    (*PORT, "setting"),
)

PORT_INFO = Metric(
    "phonerack_switch_port_info",
    "What a port is for, and what the switch calls it.",
    (*PORT, "role", "interface"),
)
PORT_ENABLED = _port("enabled", "1 if the port is not shut.")
PORT_UP = _port("up", "1 if the port has a carrier.")
PORT_SPEED = _port("speed_bytes", "Speed of the link in bytes a second, while it has a carrier.")
PORT_FULL_DUPLEX = _port("full_duplex", "1 if both ends may send at once, 0 if not.")
PORT_RECEIVED = _port("receive_bytes_total", "Bytes that came in from the phone.", True)
PORT_SENT = _port("transmit_bytes_total", "Bytes that went out to the phone.", True)
PORT_RECEIVE_ERRORS = _port("receive_errors_total", "Frames that came in damaged.", True)
PORT_SEND_ERRORS = _port("transmit_errors_total", "Frames that could not be sent.", True)
PORT_RECEIVE_DISCARDS = _port("receive_discards_total", "Whole frames dropped on entry.", True)
PORT_SEND_DISCARDS = _port("transmit_discards_total", "Whole frames dropped on exit.", True)
PORT_FLAPS = _port(
    "flaps_total", "How often the carrier was seen to go since the exporter started.", True
)
PORT_FORWARDING = _port(
    "forwarding", "1 if the spanning tree lets the port forward, 0 if it blocks it or learns."
)
PORT_POE_ENABLED = _port("poe_enabled", "1 if the port may feed a device.")
PORT_POE_FEEDING = _port("poe_feeding", "1 if the port feeds a device.")
PORT_POE_POWER = _port("poe_power_watts", "Power that the device takes.")

CATALOGUE: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
