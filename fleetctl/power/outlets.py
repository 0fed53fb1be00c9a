"""Outlets off and on for a person: phones drained first, and believed only when they say so.

An outlet may feed several phones; all of them are drained, and held back while a run has one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetctl.power import battery
from fleetctl.power.actuator import Actuator, Ran
from fleetctl.power.battery import Battery
from fleetctl.power.errors import BusyError, LatchedError
from fleetctl.rack import InputError, Outlet, Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.outlets import outlet_of
from fleetctl.remote import Fleet
from fleetctl.state import State

OFF_DRAIN = "outlet-off"
"""Who drains phones whose outlet a person has switched off. guard gives them no power."""

LATCH_DRAIN = "guard-latch"
"""Who drains phones that guard has cut off until a person clears them."""

SETTLE_SECONDS = 8.0
"""So long a phone may take to notice that its power came or went."""

ANSWER_SECONDS = 40.0
"""So long it may take to answer at all: its adapter may have lost the link with the power."""

PAUSE_SECONDS = 5.0

type Verdict = Literal["done", "power not cut", "power not given", "unverified"]


@dataclass(frozen=True, slots=True)
class Fed:
    """One phone of an outlet: what it says itself, and what became of the order.

    `verdict` is None where nothing was ordered. `hub` is what the outlet's command said, `problem`
    why the phone's own state is not known.
    """

    phone: str
    outlet: str
    plugged: bool | None
    verdict: Verdict | None = None
    hub: str | None = None
    problem: str | None = None

    @property
    def ok(self) -> bool:
        return self.verdict in (None, "done")


@dataclass
class OutletPower:
    """`who` acts, for the record; `say` tells what is done."""

    rack: Rack
    state: State
    fleet: Fleet
    actuator: Actuator
    who: str
    say: Callable[[str], None] = lambda _: None
    settle_seconds: float = SETTLE_SECONDS
    answer_seconds: float = ANSWER_SECONDS
    pause_seconds: float = PAUSE_SECONDS

    def outlets(self, phones: Sequence[str]) -> list[Outlet]:
        """The outlets that feed `phones`. Raises InputError if one has none."""
        feeder = outlet_of(self.rack.outlets)
        if bare := [phone for phone in phones if phone not in feeder]:
            raise InputError(
                f"{', '.join(bare)}: the rack file gives no outlet; add `power:` "
                "(examples are in examples/power/)"
            )
        names = dict.fromkeys(feeder[phone] for phone in phones)
        return [self.rack.outlets[name] for name in names]

    async def show(self, phones: Sequence[str]) -> list[Fed]:
        """Whether phones are plugged, by their own word. Raises InputError."""
        feeder = {phone: outlet.name for outlet in self.outlets(phones) for phone in outlet.phones}
        looks = await battery.look(self.fleet, phones)
        return [
            Fed(name, feeder[name], found.plugged, problem=found.problem)
            for name, found in looks.items()
        ]

    async def off(self, phones: Sequence[str]) -> list[Fed]:
        """Drain all phones of the outlets, switch these off, and ask the phones.

        Raises InputError, and BusyError before anything is switched.
        """
        outlets = self.outlets(phones)
        self._drain(outlets)
        outcomes, _ = await self._switch(outlets, on=False)
        return outcomes

    async def on(self, phones: Sequence[str]) -> list[Fed]:
        """Switch outlets on, ask the phones, and lift the drains that `off` set, but for outlets
        that give no power.

        Raises InputError, and LatchedError before anything is switched.
        """
        outlets = self.outlets(phones)
        self._refuse_latched(outlets)
        outcomes, ran = await self._switch(outlets, on=True)
        given = [each for each in outlets if _gives(each, outcomes, ran[each.name])]
        self._lift(given)
        return outcomes

    async def cycle(self, phones: Sequence[str]) -> list[Fed]:
        """`off`, a pause, `on`; the outcome of `off` where that did not do it. Whatever happens in
        between, outlets are switched on."""
        outlets = self.outlets(phones)
        self._refuse_latched(outlets)
        try:
            gone = await self.off(phones)
            await asyncio.sleep(self.pause_seconds)
            back = await self.on(phones)
        except BusyError:
            raise
        except BaseException:
            await self._restore(outlets)
            raise
        return back if all(each.ok for each in gone) else gone

    # --- steps ----------------------------------------------------------------------------------

    def _drain(self, outlets: Sequence[Outlet]) -> None:
        """First drained, so that no job takes them meanwhile; then looked whether one had."""
        names = [phone for outlet in outlets for phone in outlet.phones]
        before = self.state.phones()
        mine = [
            name
            for name in names
            if name not in before or all(each.who != OFF_DRAIN for each in before[name].drains)
        ]
        for outlet in outlets:
            why = f"{self.who} switched outlet {outlet.name} off"
            self.state.drain(outlet.phones, who=OFF_DRAIN, why=why, origin="check")
        facts = self.state.phones()
        busy = {name: run for name in names if (run := facts[name].run)}
        if busy:
            self.state.undrain(mine, check=OFF_DRAIN)
            held = ", ".join(f"{name} by run {run}" for name, run in busy.items())
            raise BusyError(
                f"held: {held}; `fleetctl stop {next(iter(busy.values()))}` first, "
                "or wait for its end"
            )

    def _refuse_latched(self, outlets: Sequence[Outlet]) -> None:
        facts = self.state.phones()
        for outlet in outlets:
            for name in outlet.phones:
                for drain in facts[name].drains if name in facts else ():
                    if drain.who == LATCH_DRAIN:
                        raise LatchedError(
                            f"{name}: {drain.why}; look at it, then "
                            f"`fleetctl guard clear {name} --why …`"
                        )

    def _lift(self, outlets: Sequence[Outlet]) -> None:
        self.state.undrain([name for each in outlets for name in each.phones], check=OFF_DRAIN)

    async def _restore(self, outlets: Sequence[Outlet]) -> None:
        """Switch outlets on and do not wait for what phones say; those that may be off are told."""
        off = {name: outlet for outlet in outlets for name in outlet.phones}
        try:
            for outlet, done in zip(outlets, await self._order(outlets, on=True), strict=True):
                if done.ok:
                    self._lift([outlet])
                    off = {name: each for name, each in off.items() if each != outlet}
        finally:
            if off:
                self.say(
                    f"{fold(off)} may be without power, and stay drained: "
                    f"`fleetctl power {fold(off)} --outlet on`"
                )

    async def _order(self, outlets: Sequence[Outlet], on: bool) -> list[Ran]:
        word = "on" if on else "off"
        for outlet in outlets:
            self.say(f"switches {word} outlet {outlet.name}: {', '.join(outlet.phones)}")
        return await asyncio.gather(*(self.actuator.switch(outlet, on) for outlet in outlets))

    async def _switch(
        self, outlets: Sequence[Outlet], on: bool
    ) -> tuple[list[Fed], dict[str, Ran]]:
        """What phones say of it, and how the command of each outlet ended."""
        ran = await self._order(outlets, on)
        names = [phone for outlet in outlets for phone in outlet.phones]
        looks = await self._ask(names, on)
        outcomes = [
            _fed(phone, outlet, looks[phone], on, done)
            for outlet, done in zip(outlets, ran, strict=True)
            for phone in outlet.phones
        ]
        return outcomes, {each.name: done for each, done in zip(outlets, ran, strict=True)}

    async def _ask(self, names: Sequence[str], on: bool) -> dict[str, Battery]:
        """Until all say what is wanted, or have had time enough to notice and to answer."""
        began = time.monotonic()
        looks: dict[str, Battery] = {}
        left = list(names)
        while True:
            asked = time.monotonic()
            found = await battery.look(self.fleet, left)
            looks |= {name: _if_fresh(each, asked - began) for name, each in found.items()}
            left = [name for name in names if looks[name].plugged is not on]
            waited = time.monotonic() - began
            silent = any(looks[name].plugged is None for name in left)
            if not left or waited > (self.answer_seconds if silent else self.settle_seconds):
                return looks
            await asyncio.sleep(1)


def _if_fresh(found: Battery, since_order_seconds: float) -> Battery:
    """What a phone read before the order says nothing about it."""
    if found.problem is None and found.age_seconds > since_order_seconds:
        return Battery(problem="its last reading is older than the order")
    return found


def _gives(outlet: Outlet, outcomes: Sequence[Fed], ran: Ran) -> bool:
    """Whether an outlet is on: one phone that is charged proves it, and where no phone can tell,
    its command is all there is."""
    verdicts = {each.verdict for each in outcomes if each.phone in outlet.phones}
    return "done" in verdicts or (ran.ok and "power not given" not in verdicts)


def _fed(phone: str, outlet: Outlet, found: Battery, on: bool, ran: Ran) -> Fed:
    if found.plugged is None:
        verdict: Verdict = "unverified"
    elif found.plugged is on:
        verdict = "done"
    else:
        verdict = "power not given" if on else "power not cut"
    return Fed(phone, outlet.name, found.plugged, verdict, ran.sentence, found.problem)
