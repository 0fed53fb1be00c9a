"""Fans follow the warmest phone that they cool. Pure."""

from __future__ import annotations

from fleetctl.guard.actions import Blow
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import Order
from fleetctl.rack import Outlet

ON_BELOW_WARN_CELSIUS = 3.0
"""A fan starts so far below the limit at which guard warns."""

OFF_BELOW_WARN_CELSIUS = 6.0
TRIES = 3

RUN_AGAIN_SECONDS = 600.0
"""A fan that runs is told so again, since its plug may have started anew and be off."""

REST_AGAIN_SECONDS = 3600.0
"""One that rests is told so again: running for nothing hurries nobody."""


def settle(turn: Turn, fan: Outlet) -> None:
    """Order a fan to run or to rest, when that is another thing than it was told last, or long
    ago."""
    wanted = _wanted(turn, fan)
    key = f"fan:{fan.name}"
    order = turn.memory.orders.get(key)
    if order is not None and order.on is not wanted[0]:
        del turn.memory.orders[key]
        order = None
    pause = RUN_AGAIN_SECONDS if wanted[0] else REST_AGAIN_SECONDS
    is_old = turn.now - turn.memory.fans_told.get(fan.name, 0.0) > pause
    if order is None and (is_old or turn.memory.fans.get(fan.name) is not wanted[0]):
        turn.memory.orders[key] = Order(wanted[1], turn.now, safety=False, on=wanted[0])


def _wanted(turn: Turn, fan: Outlet) -> tuple[bool, str]:
    """Whether it shall run, and why. Of phones that nobody hears of the worst is assumed."""
    runs = turn.memory.fans.get(fan.name, False)
    limit = turn.limits.warn_celsius - (OFF_BELOW_WARN_CELSIUS if runs else ON_BELOW_WARN_CELSIUS)
    warmest = 0.0
    for name in fan.phones:
        phone = turn.phone(name)
        if phone.silent:
            return True, f"{name} tells nothing of its battery"
        if phone.sample is not None and phone.sample.celsius >= limit:
            return True, f"{name} has {phone.sample.celsius:.1f} °C"
        warmest = max(warmest, phone.sample.celsius if phone.sample else 0.0)
    return False, f"its phones have {warmest:.1f} °C at most"


def drive(turn: Turn, key: str, order: Order, name: str, is_due: bool) -> None:
    """No phone proves that a fan runs: its command's word must do."""
    if name not in turn.layout.fans or (order.answered is not None and order.ok):
        del turn.memory.orders[key]
        if name in turn.layout.fans:
            turn.memory.fans[name], turn.memory.fans_told[name] = order.on, turn.now
            turn.settled("fan", turn.layout.fans[name].phones[0])
        return
    if is_due:
        order.sent, order.answered, order.ok = turn.now, None, False
        order.tries += 1
        turn.actions.append(Blow(name, order.on, order.why))
    if order.on and order.answered is not None and order.tries >= TRIES and not order.told:
        order.told = True
        phones = turn.layout.fans[name].phones
        turn.call("fan", phones[0], f"fan {name} does not start: {order.said}; {order.why}")
