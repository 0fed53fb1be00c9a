"""Orders under way: sent, tried again, proven by the phones, or told to a person. Pure."""

from __future__ import annotations

from fleetctl.guard import fans
from fleetctl.guard.actions import DRAIN, Kill, Outcome, Sample, Stop, Switch
from fleetctl.guard.layout import Turn
from fleetctl.guard.memory import Order
from fleetctl.rack import Outlet

CALL_AFTER_SECONDS = 8.0
"""A safety order that is not proven by then calls a person, and goes on."""

NOTICE_SECONDS = 3.0
"""So long a phone may take to notice that its power is off, before that is tried again."""

RETRY_SECONDS = 10.0
EAGER_TRIES = 6
LATER_SECONDS = 60.0
"""After so many tries, one a minute."""

LOST_SECONDS = 90.0
"""An action of which nobody says how it ended is tried again."""

CHARGE_NOTICE_SECONDS = 10.0
CHARGE_ANSWER_SECONDS = 60.0
"""For charging nothing hurries: an adapter that lost its link with the power may come back."""

CHARGE_TRIES = 2


def answer(turn: Turn, outcome: Outcome) -> None:
    """How an action ended."""
    order = turn.memory.orders.get(outcome.key)
    if order is not None and order.sent is not None:
        order.answered, order.ok, order.said = turn.now, outcome.ok, outcome.said


def drive(turn: Turn) -> None:
    """Send what is due, judge what has been answered."""
    for key, order in list(turn.memory.orders.items()):
        kind, _, target = key.partition(":")
        if kind == "switch":
            outlet = turn.layout.outlets.get(target)
            if outlet is None:
                del turn.memory.orders[key]
            elif order.safety:
                _cut(turn, key, order, outlet)
            else:
                _charge(turn, key, order, outlet)
        elif kind == "kill":
            _kill(turn, key, order, target)
        elif kind == "fan":
            fans.drive(turn, key, order, target, _due(turn, order))
        else:
            _stop(turn, key, order, target)


# --- jobs -----------------------------------------------------------------------------------------


def _kill(turn: Turn, key: str, order: Order, phone: str) -> None:
    if order.answered is not None and order.ok:
        del turn.memory.orders[key]
        turn.settled("not-killed", phone)
        return
    known = turn.memory.phones.get(phone)
    if known is None or (known.latch is None and known.leaving is None):
        del turn.memory.orders[key]
        return
    run = turn.run(phone)
    if run is None and order.tries >= EAGER_TRIES:
        return  # it does not answer, and nobody knows of a job there: once it answers again
    if _due(turn, order):
        _send(turn, order)
        turn.actions.append(Kill(phone, order.why))
    if run is not None and known.latch is not None and _late(turn, order):
        order.told = True
        turn.call(
            "not-killed",
            phone,
            f"{phone}: {order.why}, and nothing proves that its job {run} has ended: "
            f"{order.said or 'it does not answer'}",
        )


def _stop(turn: Turn, key: str, order: Order, run: str) -> None:
    phones = [name for name in turn.layout.phones if turn.run(name) == run]
    if not phones:
        del turn.memory.orders[key]
        return
    if _due(turn, order):
        _send(turn, order)
        turn.actions.append(Stop(run, order.why))
    if order.answered is not None and not order.ok and order.tries > 1 and not order.told:
        order.told = True
        turn.call("not-stopped", phones[0], f"run {run} does not stop: {order.said}; {order.why}")


# --- safety ---------------------------------------------------------------------------------------


def _cut(turn: Turn, key: str, order: Order, outlet: Outlet) -> None:
    """Off, again and again, until every phone that answers says so."""
    if _proven_off(turn, order, outlet):
        del turn.memory.orders[key]
        turn.memory.outlets[outlet.name].on = False
        for name in outlet.phones:
            turn.settled("power-not-cut", name)
            turn.settled("unverified", name)
        turn.note(outlet.phones[0], f"outlet {outlet.name} is off: {order.why}")
        return
    if _due(turn, order, limit_seconds=outlet.limit_seconds):
        order.denied |= order.ok and _is_live(turn, order, outlet)
        _send_switch(turn, order, outlet)
    if _late(turn, order):
        order.told = True
        _tell_not_cut(turn, order, outlet)


def _proven_off(turn: Turn, order: Order, outlet: Outlet) -> bool:
    """By all of its phones but those that are silent, for which a person is called anyway. Where
    all are, the hub's word must do, unless they gave it the lie before."""
    heard = [name for name in outlet.phones if not turn.phone(name).silent]
    later = [_after(turn, name, order) for name in heard]
    if order.answered is None or not (later or (order.ok and not order.denied)):
        return False
    return all(sample is not None and not sample.plugged for sample in later)


def _is_live(turn: Turn, order: Order, outlet: Outlet) -> bool:
    """Whether a phone has said since that it still has power."""
    said = [_after(turn, name, order) for name in outlet.phones]
    return any(sample is not None and sample.plugged for sample in said)


def _tell_not_cut(turn: Turn, order: Order, outlet: Outlet) -> None:
    name = _cause(turn, outlet)
    said = f"the hub says: {order.said}" if order.said else "the hub has not answered yet"
    samples = [turn.phone(each).sample for each in outlet.phones]
    if any(each is not None and each.time > order.first and each.plugged for each in samples):
        what = "power-not-cut"
        found = "the phone still has power"
    else:
        what = "unverified"
        found = "the phone does not say whether its power is cut"
    turn.call(what, name, f"{order.why}; outlet {outlet.name} was switched off, {found}; {said}")


def _cause(turn: Turn, outlet: Outlet) -> str:
    """The phone in the greatest danger; the first of equals."""

    def danger(name: str) -> tuple[bool, bool, int]:
        phone = turn.phone(name)
        return phone.latch is not None, phone.silent, phone.level

    return max(outlet.phones, key=danger)


# --- charging -------------------------------------------------------------------------------------


def _charge(turn: Turn, key: str, order: Order, outlet: Outlet) -> None:
    memory = turn.memory.outlets[outlet.name]
    if order.sent is None:
        if not order.on and any(turn.run(name) for name in outlet.phones):
            del turn.memory.orders[key]  # a job was quicker
        elif turn.now - order.first > CHARGE_ANSWER_SECONDS:
            del turn.memory.orders[key]  # its phones could not be drained
        elif _is_drained(turn, outlet):
            _send_switch(turn, order, outlet)
        return
    if order.answered is None:
        if turn.now - order.sent > outlet.limit_seconds + LOST_SECONDS:
            order.answered, order.said = turn.now, "its command did not come back"
        return
    said = [_after(turn, name, order) for name in outlet.phones]
    right = [sample is not None and sample.plugged is order.on for sample in said]
    if any(right) if order.on else all(right):
        del turn.memory.orders[key]
        memory.on = order.on
        turn.note(outlet.phones[0], f"outlet {outlet.name} is {_word(order)}: {order.why}")
        return
    waited = turn.now - order.answered
    if all(sample is not None for sample in said) and waited > CHARGE_NOTICE_SECONDS:
        if order.tries < CHARGE_TRIES:
            _send_switch(turn, order, outlet)
            return
        what = "power-not-given" if order.on else "power-not-cut"
        _distrust(turn, key, order, outlet, what)
    elif waited > CHARGE_ANSWER_SECONDS:
        _distrust(turn, key, order, outlet, "unverified")


def _is_drained(turn: Turn, outlet: Outlet) -> bool:
    """A phone with a job keeps it: power may cost it its link, an empty battery does for sure."""
    return all(turn.run(name) or DRAIN in turn.drains(name) for name in outlet.phones)


def _distrust(turn: Turn, key: str, order: Order, outlet: Outlet, what: str) -> None:
    """Nothing is switched for charging there until a person has looked."""
    memory = turn.memory.outlets[outlet.name]
    del turn.memory.orders[key]
    memory.on = not order.on if what != "unverified" else order.on
    memory.distrust = f"switched {_word(order)}: {what.replace('-', ' ')}"
    turn.call(
        what,
        outlet.phones[0],
        f"outlet {outlet.name} was switched {_word(order)} ({order.why}) and "
        f"{', '.join(outlet.phones)} {_contrary(what, order)}; the hub says: "
        f"{order.said or 'nothing'}; it is not used for charging until "
        f"`fleetctl guard clear {outlet.phones[0]}`",
    )


def _contrary(what: str, order: Order) -> str:
    if what == "unverified":
        return "did not say for a minute whether that is so"
    return "still has no power" if order.on else "still has power"


# --- all of them ----------------------------------------------------------------------------------


def _word(order: Order) -> str:
    return "on" if order.on else "off"


def _after(turn: Turn, name: str, order: Order) -> Sample | None:
    """What a phone said after the order was carried out; before that nothing counts."""
    sample = turn.phone(name).sample
    if sample is None or order.answered is None or sample.time <= order.answered:
        return None
    return sample


def _due(turn: Turn, order: Order, limit_seconds: float = 0.0) -> bool:
    """Whether it is to be sent, for the first time or again."""
    if order.sent is None:
        return True
    if order.answered is None:
        return turn.now - order.sent > limit_seconds + LOST_SECONDS
    pause = NOTICE_SECONDS if order.tries == 1 and order.ok else RETRY_SECONDS
    return turn.now - order.answered > (pause if order.tries < EAGER_TRIES else LATER_SECONDS)


def _late(turn: Turn, order: Order) -> bool:
    return not order.told and turn.now - order.first >= CALL_AFTER_SECONDS


def _send(turn: Turn, order: Order) -> None:
    order.sent, order.answered, order.ok = turn.now, None, False
    order.tries += 1


def _send_switch(turn: Turn, order: Order, outlet: Outlet) -> None:
    if order.tries == 0:
        turn.memory.outlets[outlet.name].switched = turn.now
    _send(turn, order)
    turn.actions.append(Switch(outlet.name, order.on, order.why))
