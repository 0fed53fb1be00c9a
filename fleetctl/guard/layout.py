"""What guard watches: phones, what feeds them, limits, and each outlet's own charge window."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from fleetctl.guard.actions import Action, Facts, Note
from fleetctl.guard.memory import Memory, OpenCall, Order, PhoneMemory
from fleetctl.rack import GuardLimits, Outlet, Rack
from fleetctl.rack.outlets import outlet_of

SPREAD_PERCENT = 3.0
"""By so much windows begin and end apart, so that phones do not switch all at once."""

NOBODY = Facts()


@dataclass(frozen=True, slots=True)
class Window:
    """Between which charges an outlet's phones are kept."""

    low_percent: float
    high_percent: float


def window_of(outlet: str, limits: GuardLimits) -> Window:
    """The same for an outlet each time, and never wider than what the rack file allows."""
    digest = hashlib.sha256(f"window/{outlet}".encode()).digest()
    low, high = limits.charge_low_percent, limits.charge_high_percent
    return Window(
        low + SPREAD_PERCENT * digest[0] / 255,
        high - (SPREAD_PERCENT * digest[1] / 255 if high < 100 else 0),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """`feeder` leads from a phone to its outlet's name."""

    phones: tuple[str, ...]
    outlets: Mapping[str, Outlet]
    limits: GuardLimits
    feeder: Mapping[str, str]
    windows: Mapping[str, Window]
    fans: Mapping[str, Outlet]

    @classmethod
    def of_rack(cls, rack: Rack) -> Layout:
        """Its enrolled phones."""
        return cls.of(rack.enrolled, rack.outlets, rack.guard, rack.fans)

    @classmethod
    def of(
        cls,
        phones: Iterable[str],
        outlets: Mapping[str, Outlet],
        limits: GuardLimits,
        fans: Mapping[str, Outlet] | None = None,
    ) -> Layout:
        """Outlets that feed none of the phones, such as those of empty places, are left out."""
        names = tuple(phones)
        used = _used(outlets, names)
        windows = {name: window_of(name, limits) for name in used}
        return cls(names, used, limits, outlet_of(used), windows, _used(fans or {}, names))

    def beside(self, phone: str) -> tuple[str, ...]:
        """All phones that lose their power with this one's, itself included."""
        outlet = self.feeder.get(phone)
        return self.outlets[outlet].phones if outlet else (phone,)


def _used(outlets: Mapping[str, Outlet], phones: tuple[str, ...]) -> dict[str, Outlet]:
    known = set(phones)
    return {
        name: replace(outlet, phones=tuple(phone for phone in outlet.phones if phone in known))
        for name, outlet in outlets.items()
        if known & set(outlet.phones)
    }


@dataclass(slots=True)
class Turn:
    """One decision while it is being made."""

    layout: Layout
    memory: Memory
    now: float
    facts: Mapping[str, Facts]
    actions: list[Action]
    dangers: dict[str, str | None] = field(default_factory=dict)
    """Outlet -> why it must be off, once it is known."""

    @property
    def limits(self) -> GuardLimits:
        return self.layout.limits

    def phone(self, name: str) -> PhoneMemory:
        return self.memory.phones[name]

    def run(self, name: str) -> str | None:
        return self.facts.get(name, NOBODY).run

    def drains(self, name: str) -> frozenset[str]:
        return self.facts.get(name, NOBODY).drains

    def note(self, name: str, text: str) -> None:
        self.actions.append(Note(name, text))

    def order(self, key: str, order: Order) -> None:
        """Give an order, unless it is given already."""
        self.memory.orders.setdefault(key, order)

    def call(self, what: str, phone: str, message: str) -> None:
        """Call a person, unless one was called for the same already."""
        key = f"{what}:{phone}"
        if key not in self.memory.calls:
            self.memory.calls[key] = OpenCall(what, phone, message, self.now)

    def settled(self, what: str, phone: str) -> None:
        """There is nothing to call a person for any more."""
        if self.memory.calls.pop(f"{what}:{phone}", None):
            self.note(phone, f"no longer needed: {what}")
