"""From a switch's tables to samples. Pure, but for the memory of what was seen before."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from exporters.metrics import Metric, Sample
from exporters.switches import metrics
from exporters.switches.settings import Port, Switch
from exporters.switches.tables import Column, Oid, Tables

_UP = 1
_TICKS_A_SECOND = 100
_BYTES_A_MEGABIT = 125_000
_FULL_DUPLEX, _HALF_DUPLEX = 3, 2
_DISABLED, _FORWARDING = 1, 5
_FEEDING, _NEVER = 3, 2
_CUT_MARK = "-off"
_CELSIUS, _SENSOR_OK = 8, 1
_SCALES = {7: -9, 8: -3, 9: 0, 10: 3, 11: 6}
"""Powers of ten; 8 is milli, 9 is units."""

_COUNTERS = (
    (metrics.PORT_RECEIVED, "ifHCInOctets"),
    (metrics.PORT_SENT, "ifHCOutOctets"),
    (metrics.PORT_RECEIVE_ERRORS, "ifInErrors"),
    (metrics.PORT_SEND_ERRORS, "ifOutErrors"),
    (metrics.PORT_RECEIVE_DISCARDS, "ifInDiscards"),
    (metrics.PORT_SEND_DISCARDS, "ifOutDiscards"),
)


@dataclass
class Memory:
    """What was seen of one switch before: its carriers, and how often each went."""

    uptime: int = 0
    links: dict[int, tuple[bool, int]] = field(default_factory=dict)
    """By port: whether it had a carrier, and when that had last changed (ticks)."""

    flaps: dict[int, int] = field(default_factory=dict)

    def see(
        self, uptime: int, links: dict[int, tuple[bool, int]], shut: Container[int] = ()
    ) -> None:
        """Count the carriers that have gone, also those that were back before anybody looked; not
        those of ports that somebody has `shut`."""
        if uptime >= self.uptime:  # else it has started anew, and its ticks with it
            for number, (up, changed) in links.items():
                was_up, was_changed = self.links.get(number, (False, 0))
                if was_up and (not up or changed != was_changed) and number not in shut:
                    self.flaps[number] = self.flaps.get(number, 0) + 1
        self.uptime, self.links = uptime, links


def samples(switch: Switch, tables: Tables, memory: Memory) -> Iterator[Sample]:
    """Everything that one reading of a switch says."""
    index = {_text(name): number for number, name in tables["ifDescr"].items()}
    ports = {port.number: index[port.interface] for port in switch.ports if port.interface in index}
    uptime = _first(tables["sysUpTime"]) or 0
    memory.see(
        uptime,
        {
            number: (tables["ifOperStatus"].get(at) == _UP, _int(tables["ifLastChange"], at) or 0)
            for number, at in ports.items()
        },
        {number for number, at in ports.items() if tables["ifAdminStatus"].get(at) != _UP},
    )
    yield metrics.UPTIME.sample(uptime / _TICKS_A_SECOND, switch.name)
    yield from _temperatures(switch, tables, ("entPhySensor", "OperStatus"))
    yield from _temperatures(switch, tables, ("ciscoSensor", "Status"))
    yield from _whole(switch, tables)
    bridge = {at: port for port, at in tables["dot1dBasePortIfIndex"].items()}
    for port in switch.ports:
        if port.number in ports:
            at = ports[port.number]
            here = _Port(switch.name, port)
            yield from _link(here, tables, at, memory.flaps.get(port.number, 0))
            yield from _tree(here, tables, bridge.get(at[0]))
            yield from _poe(here, tables)
            yield from _drift(here, tables, at, bridge.get(at[0]))


@dataclass(frozen=True)
class _Port:
    """One port, to make samples of."""

    switch: str
    port: Port

    def sample(self, metric: Metric, value: float, *more: str) -> Sample:
        return metric.sample(value, self.switch, str(self.port.number), self.port.phone, *more)

    def maybe(self, metric: Metric, value: float | None) -> Iterator[Sample]:
        if value is not None:
            yield self.sample(metric, value)


def _whole(switch: Switch, tables: Tables) -> Iterator[Sample]:
    for metric, column in (
        (metrics.POE_POWER, "pethMainPseConsumptionPower"),
        (metrics.POE_LIMIT, "pethMainPsePower"),
        (metrics.TOPOLOGY_CHANGES, "dot1dStpTopChanges"),
    ):
        if tables[column]:  # a stack has one power supply a member
            total = sum(int(value) for value in tables[column].values())
            yield metric.sample(total, switch.name)
    name = b"".join(bytes(value) for value in tables["sysName"].values() if value).decode("latin-1")
    wrong = name.partition(".")[0] != switch.hostname
    yield metrics.DRIFT.sample(wrong, switch.name, "", "", "hostname")


def _temperatures(switch: Switch, tables: Tables, naming: tuple[str, str]) -> Iterator[Sample]:
    stem, status = naming
    for at, kind in tables.get(f"{stem}Type", {}).items():
        value = _int(tables[f"{stem}Value"], at)
        if kind != _CELSIUS or value is None or tables[f"{stem}{status}"].get(at) != _SENSOR_OK:
            continue
        scale = _SCALES.get(_int(tables[f"{stem}Scale"], at) or 0)
        if scale is not None:
            power = scale - (_int(tables[f"{stem}Precision"], at) or 0)
            name = _text(tables["entPhysicalDescr"].get(at, b"")) or f"sensor {at[-1]}"
            yield metrics.TEMPERATURE.sample(value * 10.0**power, switch.name, name)


def _link(here: _Port, tables: Tables, at: Oid, flaps: int) -> Iterator[Sample]:
    yield here.sample(metrics.PORT_INFO, 1, here.port.role, here.port.interface)
    yield here.sample(metrics.PORT_ENABLED, tables["ifAdminStatus"].get(at) == _UP)
    up = tables["ifOperStatus"].get(at) == _UP
    yield here.sample(metrics.PORT_UP, up)
    yield here.sample(metrics.PORT_FLAPS, flaps)
    megabits, duplex = _int(tables["ifHighSpeed"], at), tables["dot3StatsDuplexStatus"].get(at)
    if up and megabits:
        yield here.sample(metrics.PORT_SPEED, megabits * _BYTES_A_MEGABIT)
    if up and duplex in (_FULL_DUPLEX, _HALF_DUPLEX):
        yield here.sample(metrics.PORT_FULL_DUPLEX, duplex == _FULL_DUPLEX)
    for metric, column in _COUNTERS:
        yield from here.maybe(metric, _int(tables[column], at))


def _tree(here: _Port, tables: Tables, bridge_port: Oid | None) -> Iterator[Sample]:
    state = tables["dot1dStpPortState"].get(bridge_port or ())
    if state not in (None, _DISABLED):  # it has no carrier, and so no state
        yield here.sample(metrics.PORT_FORWARDING, state == _FORWARDING)


def _poe(here: _Port, tables: Tables) -> Iterator[Sample]:
    """PoE counts ports by power supply and number, as the interface's name does."""
    at = _poe_at(here.port)
    enabled = tables["pethPsePortAdminEnable"].get(at)
    if enabled is None:
        return
    yield here.sample(metrics.PORT_POE_ENABLED, enabled == 1)
    status = tables["pethPsePortDetectionStatus"].get(at)
    if status is not None:
        yield here.sample(metrics.PORT_POE_FEEDING, status == _FEEDING)
    milliwatts = _int(tables.get("cpeExtPsePortPwrConsumption", {}), at)
    if milliwatts is not None:
        yield here.sample(metrics.PORT_POE_POWER, milliwatts / 1000)


def _poe_at(port: Port) -> Oid:
    numbers = [int(part) for part in _digits(port.interface).split("/")]
    return (numbers[0] if len(numbers) > 1 else 1, numbers[-1])


def _drift(here: _Port, tables: Tables, at: Oid, bridge_port: Oid | None) -> Iterator[Sample]:
    """What SNMP tells of the configuration, against the rack file.

    `fleetctl power` marks the description of a port that it cuts off, so that this is no drift.
    """
    port = here.port
    if port.role == "reserved":
        return
    is_shut = tables["ifAdminStatus"].get(at) != _UP
    said = _text(tables["ifAlias"].get(at, b""))
    is_marked = port.role == "phone" and said == f"{port.label}{_CUT_MARK}"
    yield here.sample(metrics.DRIFT, is_shut == port.enabled and not is_marked, "enabled")
    if at in tables["ifAlias"]:
        starves = tables["pethPsePortAdminEnable"].get(_poe_at(port)) == _NEVER
        is_right = said == port.label or (is_marked and (is_shut or starves))
        yield here.sample(metrics.DRIFT, not is_right, "description")
    if port.vlan is not None:
        vlan = _int(tables.get("vmVlan", {}), at) or _int(tables["dot1qPvid"], bridge_port or ())
        if vlan:
            yield here.sample(metrics.DRIFT, vlan != port.vlan, "vlan")


def _first(column: Column) -> int | None:
    return next((int(value) for value in column.values()), None)


def _int(column: Column, at: Oid) -> int | None:
    value = column.get(at)
    return value if isinstance(value, int) else None


def _text(value: int | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _digits(interface: str) -> str:
    return interface.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-") or "0"


def ports_without_interface(switch: Switch, tables: Tables) -> Iterable[Port]:
    """Ports of the rack file whose interface the switch does not have."""
    names = {_text(name) for name in tables["ifDescr"].values()}
    return [port for port in switch.ports if port.interface not in names]
