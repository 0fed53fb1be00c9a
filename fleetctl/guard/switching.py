"""Which outlets shall be on: off for safety at once, else by the charge window. Pure."""

from __future__ import annotations

from fleetctl.guard.danger import HOT, fatal
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import Order, OutletMemory
from fleetctl.power.outlets import OFF_DRAIN
from fleetctl.rack import Outlet

HOUR_SECONDS = 3600.0
"""An outlet is given power only when it was not switched for so long. So it is switched at most
twice an hour, safety cuts included, although these wait for nothing."""

AT_ONCE = 4
"""So many outlets are switched for charging at the same time, since their phones are drained."""


def danger_of(turn: Turn, outlet: Outlet) -> str | None:
    """Why an outlet must be off, whoever works. Asked when all samples of the turn are taken."""
    if outlet.name not in turn.dangers:
        turn.dangers[outlet.name] = _danger(turn, outlet)
    return turn.dangers[outlet.name]


def _danger(turn: Turn, outlet: Outlet) -> str | None:
    for name in outlet.phones:
        latch = turn.phone(name).latch
        if latch is not None:
            return f"{name}: {latch.why}"
    for name in outlet.phones:
        if turn.phone(name).silent:
            return f"{name} tells nothing of its battery"
    return None


def heat_of(turn: Turn, outlet: Outlet) -> str | None:
    """Why an outlet shall be off though nobody of its phones is in danger yet: no job warms a hot
    phone, so it may be the charger."""
    if any(turn.run(name) for name in outlet.phones):
        return None
    for name in outlet.phones:
        phone = turn.phone(name)
        if phone.level == HOT and phone.sample is not None:
            return f"{name} has {phone.sample.celsius:.1f} °C without a job"
    return None


def settle_outlet(turn: Turn, outlet: Outlet) -> None:
    """Give, change or drop the order of one outlet."""
    memory, key = turn.memory.outlets[outlet.name], f"switch:{outlet.name}"
    order = turn.memory.orders.get(key)
    if order is None:
        _believe(turn, outlet, memory)
    danger = danger_of(turn, outlet)
    why = danger or heat_of(turn, outlet)
    if why:
        if order is not None and (order.on or not order.safety):
            # An order to the contrary may be half done: what the outlet is now, nobody knows.
            order, memory.on = None, True
            del turn.memory.orders[key]
        if order is None and memory.on:
            turn.memory.orders[key] = Order(why, turn.now, safety=True)
            if memory.distrust:
                _call_anew(turn, outlet)
        elif order is not None and danger is not None and order.why != danger:
            order.why, order.told = danger, False
            order.tries = min(order.tries, 1)  # eagerly again
            _call_anew(turn, outlet)
        return
    if order is not None:
        if order.safety:
            del turn.memory.orders[key]
        return
    _charge(turn, outlet, memory)


def _call_anew(turn: Turn, outlet: Outlet) -> None:
    """What a person was told of its power, of charging or of lesser heat, is too little now."""
    for name in outlet.phones:
        for what in ("power-not-cut", "unverified"):
            turn.memory.calls.pop(f"{what}:{name}", None)


def _believe(turn: Turn, outlet: Outlet, memory: OutletMemory) -> None:
    """What its phones say, where they say anything, is how the outlet is."""
    samples = [turn.phone(name).sample for name in outlet.phones]
    oldest = turn.now - turn.limits.silent_seconds
    said = [each.plugged for each in samples if each is not None and each.time >= oldest]
    if any(said):
        memory.on = True
    elif len(said) == len(samples):
        memory.on = False


def _charge(turn: Turn, outlet: Outlet, memory: OutletMemory) -> None:
    charges = [
        sample.percent
        for name in outlet.phones
        if (sample := turn.phone(name).sample) is not None and sample.percent is not None
    ]
    if len(charges) < len(outlet.phones) or not _may_switch(turn, outlet, memory):
        return
    window, lowest = turn.layout.windows[outlet.name], min(charges)
    busy = any(turn.run(name) for name in outlet.phones)
    if memory.on:
        full = lowest >= window.high_percent
        if full and not busy and not memory.distrust:
            _order(turn, outlet, on=False, why=f"charged to {lowest:.0f} %")
        return
    is_low = turn.limits.charge_high_percent >= 100 or lowest <= window.low_percent
    if is_low and _is_well(turn, outlet) and (busy or _has_room(turn, outlet, lowest)):
        _order(turn, outlet, on=True, why=f"down to {lowest:.0f} %")


def _is_well(turn: Turn, outlet: Outlet) -> bool:
    """Whether all of its phones said so last; that a person has cleared one is not enough."""
    phones = [turn.phone(name) for name in outlet.phones]
    return not any(
        phone.level == HOT or (phone.sample is not None and fatal(phone.sample, turn.limits))
        for phone in phones
    )


def _may_switch(turn: Turn, outlet: Outlet, memory: OutletMemory) -> bool:
    """Not while a person keeps it off, not too often, not too many at once."""
    if any(OFF_DRAIN in turn.drains(name) for name in outlet.phones):
        return False
    under_way = sum(
        key.startswith("switch:") and not order.safety for key, order in turn.memory.orders.items()
    )
    return under_way < AT_ONCE and (memory.on or turn.now - memory.switched > HOUR_SECONDS)


def _has_room(turn: Turn, outlet: Outlet, lowest: float) -> bool:
    """Whether one more outlet may charge. Of those that wait, the emptiest goes first."""
    most = turn.limits.max_charging
    if most is None:
        return True
    charging, emptier = 0, False
    for other in turn.layout.outlets.values():
        if other.name == outlet.name or any(turn.run(name) for name in other.phones):
            continue
        order = turn.memory.orders.get(f"switch:{other.name}")
        if turn.memory.outlets[other.name].on or (order is not None and order.on):
            charging += _charging(turn, other)
        else:
            emptier |= _waits_emptier(turn, other, lowest)
    return charging + len(outlet.phones) <= most and not emptier


def _charging(turn: Turn, outlet: Outlet) -> int:
    """How many phones an outlet that is on charges. One that guard cannot switch off counts only
    those that take charge, by their own word: it would hold back all others for ever."""
    order = turn.memory.orders.get(f"switch:{outlet.name}")
    phones = [turn.phone(name) for name in outlet.phones]
    if turn.memory.outlets[outlet.name].distrust is None and (order is None or not order.told):
        return len(phones)
    return sum(
        phone.silent or phone.sample is None or phone.sample.charging is not False
        for phone in phones
    )


def _waits_emptier(turn: Turn, other: Outlet, lowest: float) -> bool:
    if danger_of(turn, other) or not _is_well(turn, other):
        return False
    if not _may_switch(turn, other, turn.memory.outlets[other.name]):
        return False
    charges = [
        sample.percent
        for name in other.phones
        if (sample := turn.phone(name).sample) is not None and sample.percent is not None
    ]
    return len(charges) == len(other.phones) and min(charges) < lowest


def thin_out(turn: Turn) -> None:
    """Where more phones charge than may, the fullest idle one waits; one at a time."""
    most = turn.limits.max_charging
    if most is None or any(
        key.startswith("switch:") and not order.on and not order.told
        for key, order in turn.memory.orders.items()
    ):
        return
    fed: list[tuple[float, Outlet]] = []
    charging = 0
    for outlet in turn.layout.outlets.values():
        memory = turn.memory.outlets[outlet.name]
        if not memory.on or any(turn.run(name) for name in outlet.phones):
            continue
        charging += _charging(turn, outlet)
        charges = [
            sample.percent
            for name in outlet.phones
            if (sample := turn.phone(name).sample) is not None and sample.percent is not None
        ]
        window = turn.layout.windows[outlet.name]
        enough = len(charges) == len(outlet.phones) and min(charges) > window.low_percent
        free = not memory.distrust and f"switch:{outlet.name}" not in turn.memory.orders
        if enough and free and _may_switch(turn, outlet, memory):
            fed.append((min(charges), outlet))
    if charging > most and fed:
        _, outlet = max(fed, key=lambda each: (each[0], each[1].name))
        _order(turn, outlet, on=False, why=f"{charging} phones charge, {most} may")


def _order(turn: Turn, outlet: Outlet, on: bool, why: str) -> None:
    turn.order(f"switch:{outlet.name}", Order(why, turn.now, safety=False, on=on))
