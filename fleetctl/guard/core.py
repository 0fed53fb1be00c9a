"""What guard decides: from what it remembers and what has come in, what is to be done. Pure.

The memory is changed in place; nothing else is. The same memory, inputs and times give the same
actions again, which is what `guard --replay` lives by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fleetctl.guard import calls, danger, fans, leaving, orders, switching
from fleetctl.guard.actions import DRAIN, Action, Drain, Facts, Inputs, Undrain
from fleetctl.guard.layout import Layout, Turn
from fleetctl.guard.memory import Memory, OutletMemory, PhoneMemory
from fleetctl.power.outlets import LATCH_DRAIN

LONGEST_GAP_SECONDS = 30.0
"""After a longer pause between decisions it was guard that did not listen, not the phones."""


OF_OUTLETS = ("power-not-cut", "power-not-given", "unverified")
"""Calls that are for all phones of an outlet, whichever they name."""


def decide(layout: Layout, memory: Memory, now: float, inputs: Inputs) -> list[Action]:
    """The actions of this moment, in the order in which they are to be begun."""
    _adapt(layout, memory, now)
    _forgive(memory, now)
    turn = Turn(layout, memory, now, inputs.facts, [])
    for name, why in inputs.clears.items():
        _clear(turn, name, why)
    for name in layout.phones:
        danger.keep_latch(turn, name)
    for outcome in inputs.outcomes:
        orders.answer(turn, outcome)
        calls.answer(turn, outcome)
    for name, problem in inputs.problems.items():
        if name in memory.phones:
            memory.phones[name].problem = problem
    for name, sample in inputs.samples.items():
        if name in memory.phones:
            danger.take(turn, name, sample)
    for name in layout.phones:
        danger.listen(turn, name)
        danger.stay_hot(turn, name)
    _order(turn)
    turn.actions += _drains(turn)
    orders.drive(turn)
    for name in layout.phones:
        _tell_latched(turn, name)
    turn.actions += calls.due(turn)
    return turn.actions


def recall(layout: Layout, memory: Memory, now: float, facts: Mapping[str, Facts]) -> None:
    """At a start: what the state knows of latches and memory does not."""
    _adapt(layout, memory, now)
    turn = Turn(layout, memory, now, facts, [])
    for name in layout.phones:
        danger.keep_latch(turn, name)


def _adapt(layout: Layout, memory: Memory, now: float) -> None:
    """Phones and outlets come and go with the rack file. Latches of those that went are kept;
    nobody is called for them, and should they come back they are expected from then on."""
    for name in memory.phones.keys() - set(layout.phones):
        memory.phones[name].silent, memory.phones[name].heard = False, now
    for key in [key for key, call in memory.calls.items() if call.phone not in layout.phones]:
        del memory.calls[key]
    for name in layout.phones:
        if name not in memory.phones:
            memory.phones[name] = PhoneMemory(heard=now)
    for name in layout.outlets:
        if name not in memory.outlets:
            memory.outlets[name] = OutletMemory()


def _forgive(memory: Memory, now: float) -> None:
    gap = now - memory.now
    if gap > LONGEST_GAP_SECONDS:
        for phone in memory.phones.values():
            phone.heard += gap
    memory.now = now


def _clear(turn: Turn, name: str, why: str) -> None:
    """A person has looked. What is still wrong shows again with the next sample."""
    if name not in turn.memory.phones:
        return
    turn.note(name, f"cleared by a person: {why}")
    phone, outlet = turn.phone(name), turn.layout.feeder.get(name)
    phone.latch, phone.cleared = None, turn.now
    if phone.silent:
        phone.silent, phone.heard = False, turn.now  # from here on it is expected anew
    if outlet is not None:
        turn.memory.outlets[outlet].distrust = None
        turn.memory.outlets[outlet].switched = 0.0  # a person need not wait for an hour
    fans = [f"fan:{fan.name}" for fan in turn.layout.fans.values() if name in fan.phones]
    for key in (f"kill:{name}", f"stop:{turn.run(name)}", f"switch:{outlet}", *fans):
        if (order := turn.memory.orders.get(key)) is not None:
            # What fails from here on is news, and the hub may have been mended: at once again.
            order.first, order.told, order.denied = turn.now, False, False
            order.begin_anew()
    for key, call in list(turn.memory.calls.items()):
        beside = call.what in OF_OUTLETS and call.phone in turn.layout.beside(name)
        if (call.phone == name or beside) and turn.phone(call.phone).latch is None:
            del turn.memory.calls[key]


def _order(turn: Turn) -> None:
    for name in turn.layout.phones:
        leaving.leave(turn, name)
    for outlet in turn.layout.outlets.values():
        switching.settle_outlet(turn, outlet)
    switching.thin_out(turn)
    for fan in turn.layout.fans.values():
        fans.settle(turn, fan)


def _drains(turn: Turn) -> Iterator[Action]:
    """What differs between the drains that guard wants and those that the state has."""
    for name in turn.layout.phones:
        wanted, has = _wanted_drain(turn, name), turn.drains(name)
        if wanted is not None and wanted[0] not in has:
            if _is_asked_first(turn, name, f"drain {wanted[0]}"):
                yield Drain(name, *wanted)
            continue
        for who in (DRAIN, LATCH_DRAIN):
            surplus = who in has and (wanted is None or wanted[0] != who)
            if surplus and _is_asked_first(turn, name, f"undrain {who}"):
                yield Undrain(name, who)


def _is_asked_first(turn: Turn, name: str, what: str) -> bool:
    """Not twice within seconds: the state shows late what was asked of it."""
    phone = turn.phone(name)
    if phone.asked is not None and phone.asked[0] == what and turn.now - phone.asked[1] < 3.0:
        return False
    phone.asked = (what, turn.now)
    return True


def _wanted_drain(turn: Turn, name: str) -> tuple[str, str] | None:
    """Who drains a phone, and why."""
    phone = turn.phone(name)
    if phone.latch is not None:
        return LATCH_DRAIN, phone.latch.why
    if phone.silent:
        return DRAIN, "it tells nothing of its battery"
    if phone.level == danger.HOT:
        return DRAIN, "its battery is hot"
    feeder = turn.layout.feeder.get(name)
    if feeder is None:
        return None
    why = switching.danger_of(turn, turn.layout.outlets[feeder])
    if why:
        return DRAIN, f"its power is cut because of {why}"
    order = turn.memory.orders.get(f"switch:{feeder}")
    if order is not None and not turn.run(name):
        return DRAIN, f"its power is being switched: {order.why}"
    return None


def _tell_latched(turn: Turn, name: str) -> None:
    """A latch is for a person, whether its cut went well or not."""
    latch, feeder = turn.phone(name).latch, turn.layout.feeder.get(name)
    if latch is None:
        return
    clear = f"look at it, then `fleetctl guard clear {name} --why …`"
    if feeder is None:
        turn.call(
            "no-outlet",
            name,
            f"{name}: {latch.why}; the rack file has no outlet for it: pull its plug, {clear}",
        )
    elif not turn.memory.outlets[feeder].on and f"switch:{feeder}" not in turn.memory.orders:
        proof = ", which nothing proves" if turn.phone(name).silent else ""
        turn.call("latched", name, f"{name}: {latch.why}; its power is cut{proof}; {clear}")
