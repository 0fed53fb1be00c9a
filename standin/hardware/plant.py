"""The hardware of a rack as it stands: the model's states, and the containers they act on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import cpu_count

from fleetctl.errors import FleetError
from standin.android.state import StateFile
from standin.faults import FaultFile
from standin.hardware.battery import EMPTY_PERCENT
from standin.hardware.cgroups import Group
from standin.hardware.files import kept_state, write_hardware
from standin.hardware.hub import Hub, fed_by
from standin.hardware.model import HOT_CELSIUS, Outside, advance, ambient_celsius, neighbours, speed
from standin.hardware.settings import Change
from standin.hardware.state import CHARGE_LIMIT_PERCENT, HardwareState
from standin.hardware.thermal import SHUTDOWN, STATUS_CELSIUS
from standin.rig import Rig
from standin.share import QUOTA_PHONES_LIMIT

STARTABLE_PERCENT = 5.0
"""Nobody starts a phone whose battery is empty before it has been charged to this."""

FULL_PERCENT = 100
HUB = "hub.json"

log = logging.getLogger(__name__)


class Plant:
    """Goes forward in real time (`tick`) or in model time (`step`); see `orders` for the rest."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.beside = neighbours(rig.rack)
        self.has_shares = len(rig.rack.phones) <= QUOTA_PHONES_LIMIT
        self.share = (cpu_count() or 1) / len(rig.rack.phones)
        self.hub = Hub.load(rig.folders.root / HUB)
        self.groups: Mapping[str, Group] = {}
        self.states = {name: self._kept(name) for name in rig.rack.phones}
        self._faults = FaultFile(rig.folders.faults)
        self._faults.changed()
        self._androids = {name: StateFile(rig.folders.hardware(name)) for name in rig.rack.phones}
        self._used: dict[str, float] = {}
        self._written: dict[str, dict[str, str]] = {}
        self._loads: dict[str, float | None] = dict.fromkeys(rig.rack.phones)

    def _kept(self, name: str) -> HardwareState:
        state = kept_state(self.rig.folders.hardware(name))
        if state is None:
            raise FleetError(f"{name} has no hardware files: `fleetctl standin up` makes them")
        return state

    def read_faults(self) -> None:
        """Take up new faults, and what they do at once: a hot phone is hot, a healed one is not."""
        before = self._faults.faults
        if not self._faults.changed():
            return
        for name, state in self.states.items():
            was, now = ("hot" in each.get(name, {}) for each in (before, self._faults.faults))
            if now and not was:
                self._set_heat(name, max(state.heat.body_celsius, HOT_CELSIUS))
            elif was and not now:
                self._set_heat(name, state.surroundings.ambient_celsius + 1)

    def _set_heat(self, name: str, celsius: float) -> None:
        state = self.states[name]
        heat = replace(
            state.heat, processor_celsius=celsius, body_celsius=celsius, battery_celsius=celsius
        )
        self.states[name] = replace(state, heat=heat)

    def outside(self, name: str, load: float | None) -> Outside:
        faults = self._faults.faults.get(name, {})
        lying = {
            self.states[each].surroundings.outlet
            for each, kinds in self._faults.faults.items()
            if "hub-lies" in kinds and each in self.states
        }
        slow = faults.get("slow")
        return Outside(
            load=load,
            slow=slow if isinstance(slow, float) else 1.0,
            is_fed=self._has_power(name, lying),
            is_hot="hot" in faults,
            can_throttle=self.has_shares,
        )

    def _has_power(self, name: str, lying: set[str]) -> bool:
        """By the only port of a phone, which leads to the hub, the controller, or nowhere."""
        android = self._androids[name].state
        if android is not None and android.usb != "hub":
            return android.usb == "controller"
        return self.hub.feeds(self.states[name].surroundings.outlet, lying)

    def read_charge_limits(self) -> None:
        """Follow Android's setting, where nobody has set another limit by hand."""
        for name, android in self._androids.items():
            battery = self.states[name].battery
            if not android.changed() or android.state is None:
                continue
            if battery.charge_limit_percent in (CHARGE_LIMIT_PERCENT, FULL_PERCENT):
                protects = android.state.setting("global", "protect_battery") == "1"
                limit = CHARGE_LIMIT_PERCENT if protects else FULL_PERCENT
                battery = replace(battery, charge_limit_percent=limit)
                self.states[name] = replace(self.states[name], battery=battery)

    def tick(self, seconds: float) -> list[str]:
        """Go on by `seconds` of real time; returns phones whose hardware has just switched off."""
        self.read_faults()
        self.read_charge_limits()
        self._measure(seconds)
        outsides = {name: self.outside(name, self._loads[name]) for name in self.states}
        self.states = advance(self.states, outsides, self.beside, seconds * self.hub.pace)
        return self._show(outsides)

    def step(self, seconds: float, load: float | None) -> list[str]:
        """Go on by `seconds` of model time, under what the phones use now or under `load`.

        A phone that throttles uses no more than it may; one that is off stays off.
        """
        self.read_faults()
        left = seconds
        while left > 0:
            outsides = {name: self._stepped(name, load) for name in self.states}
            self.states = advance(self.states, outsides, self.beside, min(5.0, left))
            left -= 5.0
        return self._show({name: self._stepped(name, load) for name in self.states})

    def _stepped(self, name: str, load: float | None) -> Outside:
        now = self._loads[name]
        wanted = load if load is not None and now is not None else now
        outside = self.outside(name, wanted)
        may = speed(self.states[name], outside)
        return outside if wanted is None else replace(outside, load=min(wanted, may))

    def refresh(self) -> None:
        """Let what has just been set show, without any time passing."""
        self.read_faults()
        outsides = {name: self.outside(name, self._loads[name]) for name in self.states}
        self.states = advance(self.states, outsides, self.beside, 1e-6)
        self._show(outsides)

    def _measure(self, seconds: float) -> None:
        for name in self.states.keys() & self.groups.keys():
            group = self.groups[name]
            used = group.used_seconds()
            if used is None:
                self._loads[name] = None
                self._used.pop(name, None)
                continue
            if self._loads[name] is None:
                self._start(name)
            before = self._used.get(name, used)
            self._used[name] = used
            part = max(0.0, used - before) / (self.share * seconds) if seconds > 0 else 0.0
            self._loads[name] = min(1.0, part)

    def _start(self, name: str) -> None:
        """Somebody has started the phone: it has cooled down and been charged before."""
        state = self.states[name]
        if state.heat.status == SHUTDOWN:
            self._set_heat(name, min(STATUS_CELSIUS[0], state.heat.body_celsius))
        charge = max(state.battery.charge_percent, STARTABLE_PERCENT)
        battery = replace(self.states[name].battery, charge_percent=charge)
        self.states[name] = replace(self.states[name], battery=battery)

    def _show(self, outsides: Mapping[str, Outside]) -> list[str]:
        """Files and processor limits follow the states; returns phones that switch off."""
        ending = []
        for name, state in self.states.items():
            folder = self.rig.folders.hardware(name)
            self._written[name] = write_hardware(folder, state, self._written.get(name))
            if outsides[name].load is None:
                continue
            group = self.groups.get(name)
            limit = self.rig.cpu(name, speed(state, outsides[name]))
            if group and limit and group.limit(limit):
                log.info("%s: speed %.2f", name, speed(state, outsides[name]))
            empty = state.battery.charge_percent <= EMPTY_PERCENT
            if state.heat.status == SHUTDOWN or (empty and state.battery.current_amperes <= 0):
                ending.append(name)
        return ending

    # --- what a person does

    def change(self, names: Iterable[str], change: Change) -> None:
        for name in names:
            self.states[name] = change(self.states[name])

    def set_pace(self, pace: float) -> None:
        self.hub = replace(self.hub, pace=pace)
        self.hub.save(self.rig.folders.root / HUB)

    def switch(self, names: Iterable[str], on: bool | None) -> dict[str, tuple[bool, list[str]]]:
        """Switch the outlets of phones, or only look at them; returns whether each says that it is
        on, and all phones that it feeds."""
        fed = fed_by(self.states)
        outlets = {self.states[name].surroundings.outlet for name in names}
        if on is not None:
            self.hub = self.hub.switched(outlets, on)
            self.hub.save(self.rig.folders.root / HUB)
        return {
            outlet: (outlet not in self.hub.off, phones)
            for outlet, phones in fed.items()
            if outlet in outlets
        }

    def describe(self, name: str) -> dict[str, object]:
        """One phone as `fleetctl standin hardware` shows it."""
        state, outside = self.states[name], self.outside(name, self._loads[name])
        return {
            "name": name,
            "is_on": outside.load is not None,
            "ambient_celsius": ambient_celsius(state, outside),
            "has_fan": state.surroundings.has_fan,
            "charger_watts": state.surroundings.charger_watts,
            "outlet": state.surroundings.outlet,
            "load": round(state.load, 3),
            "power_watts": round(state.watts, 2),
            "speed": round(speed(state, outside), 3),
            "thermal_status": state.heat.status,
            "processor_celsius": round(state.heat.processor_celsius, 1),
            "skin_celsius": round(state.heat.body_celsius, 1),
            "battery_celsius": round(state.heat.battery_celsius, 1),
            "charge_percent": round(state.battery.charge_percent, 2),
            "charge_limit_percent": state.battery.charge_limit_percent,
            "current_amperes": round(state.battery.current_amperes, 3),
            "battery_status": state.battery.status,
            "is_plugged": state.battery.is_plugged,
            "health_percent": round(state.battery.health_percent, 1),
            "defect": state.battery.defect,
            "cycles": round(state.battery.cycles, 1),
        }
