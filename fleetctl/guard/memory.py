"""What guard knows from one decision to the next, and over a restart."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from fleetctl.guard.actions import Sample
from fleetctl.rack import InputError

VERSION = 1


@dataclass(slots=True)
class Latch:
    """Cut off until a person clears it. Times are seconds since the epoch."""

    why: str
    since: float


@dataclass(slots=True)
class PhoneMemory:
    """`level`: 0 cool, 1 warm, 2 hot. `heard`: when it last told all that safety needs, or since
    when it is expected to. `hot_since`: when it became hot. `leaving`: since when its run shall
    do without it."""

    heard: float
    sample: Sample | None = None
    level: int = 0
    hot_since: float | None = None
    latch: Latch | None = None
    silent: bool = False
    unfed: float = 0.0
    cleared: float | None = None
    leaving: float | None = None
    problem: str | None = None
    asked: tuple[str, float] | None = None
    """The drain that was last asked for, and when: the state may be slow to show it."""


@dataclass(slots=True)
class Order:
    """Something that was ordered and is not proven yet. `safety` waits for nothing.

    `sent` is when it was last tried, `answered` when that try came back; `ok` and `said` are of
    that try. `told`: a person was called for it. `denied`: a phone said that it still had power
    after the hub had said that it was off.
    """

    why: str
    first: float
    safety: bool = True
    on: bool = False
    tries: int = 0
    sent: float | None = None
    answered: float | None = None
    ok: bool = False
    said: str = ""
    told: bool = False
    denied: bool = False

    def begin_anew(self) -> None:
        """Be sent at once and tried as eagerly as a new one."""
        self.tries, self.sent, self.answered = 0, None, None


@dataclass(slots=True)
class OutletMemory:
    """`on`: whether it feeds its phones, by their word or else by what was ordered.
    `switched`: when it was last. `distrust`: why it is not used for charging."""

    on: bool = True
    switched: float = 0.0
    distrust: str | None = None


@dataclass(slots=True)
class OpenCall:
    """A person was called, or is about to be.

    `sent`: its command was begun, as the call of that `number`, and has not failed; `reached`: it
    ended well. `failed` is when it last did not, after so many `tries`; `said` is of the last.
    """

    what: str
    phone: str
    message: str
    since: float
    sent: bool = False
    number: int = 0
    reached: bool = False
    tries: int = 0
    failed: float | None = None
    said: str = ""


@dataclass(slots=True)
class Memory:
    """`now` is the time of the last decision. `orders` by key, `calls` by what and phone; `called`
    calls have been made so far."""

    now: float
    phones: dict[str, PhoneMemory] = field(default_factory=dict)
    outlets: dict[str, OutletMemory] = field(default_factory=dict)
    fans: dict[str, bool] = field(default_factory=dict)
    """Whether a fan was last told to run."""
    fans_told: dict[str, float] = field(default_factory=dict)
    """When it was last told anything."""
    orders: dict[str, Order] = field(default_factory=dict)
    calls: dict[str, OpenCall] = field(default_factory=dict)
    called: int = 0

    def document(self) -> dict[str, Any]:
        """As plain values."""
        return {"version": VERSION, **asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.document(), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str, now: float) -> Self:
        """What was kept; what was under way when it was kept is tried again.

        Raises InputError for what is damaged or of another version.
        """
        try:
            return cls.from_document(json.loads(text), now)
        except (ValueError, RecursionError) as problem:
            raise InputError(f"it is damaged: {problem}") from None

    @classmethod
    def from_document(cls, kept: Any, now: float) -> Self:
        """`from_json` of what JSON has been read."""
        try:
            if kept["version"] != VERSION:
                raise InputError(f"it is of version {kept['version']}, not {VERSION}")
            memory = cls(
                now=float(kept["now"]),
                phones={name: _phone(each) for name, each in kept["phones"].items()},
                outlets={name: OutletMemory(**each) for name, each in kept["outlets"].items()},
                fans={name: bool(on) for name, on in kept["fans"].items()},
                fans_told={name: float(at) for name, at in kept.get("fans_told", {}).items()},
                orders={key: Order(**each) for key, each in kept["orders"].items()},
                calls={key: OpenCall(**each) for key, each in kept["calls"].items()},
                called=int(kept.get("called", 0)),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as problem:
            raise InputError(f"it is damaged: {type(problem).__name__} {problem}") from None
        memory._set_back(now)
        for order in memory.orders.values():
            order.sent = order.answered = None
        for call in memory.calls.values():
            if not call.reached:
                call.sent, call.failed = False, None
        return memory

    def _set_back(self, now: float) -> None:
        """The clock may be another one now. What is kept stays as old as it was then, so that
        nothing is of the future, before which no sample would be news."""
        back, kept = max(0.0, self.now - now), self.now
        self.now = kept - back

        def then(moment: float) -> float:
            return min(moment, kept) - back

        for phone in self.phones.values():
            phone.heard, phone.unfed = then(phone.heard), then(phone.unfed)
            if phone.sample is not None:
                phone.sample = replace(phone.sample, time=then(phone.sample.time))
            if phone.hot_since is not None:
                phone.hot_since = then(phone.hot_since)
            if phone.latch is not None:
                phone.latch.since = then(phone.latch.since)
            if phone.cleared is not None:
                phone.cleared = then(phone.cleared)
            if phone.leaving is not None:
                phone.leaving = then(phone.leaving)
        for outlet in self.outlets.values():
            outlet.switched = then(outlet.switched)
        self.fans_told = {name: then(moment) for name, moment in self.fans_told.items()}
        for order in self.orders.values():
            order.first = then(order.first)
        for call in self.calls.values():
            call.since = then(call.since)


def _phone(kept: dict[str, Any]) -> PhoneMemory:
    phone = PhoneMemory(**kept)
    phone.latch = Latch(**kept["latch"]) if kept["latch"] else None
    phone.sample = Sample(**kept["sample"]) if kept["sample"] else None
    phone.asked = None
    return phone
