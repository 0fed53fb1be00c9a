"""What guard says to whoever looks on: one line a decision."""

from __future__ import annotations

from fleetctl.guard.actions import Action, Blow, Call, Drain, Kill, Note, Stop, Switch, Undrain


def sentence(action: Action) -> str:
    match action:
        case Drain(phone=phone, why=why):
            return f"{phone}: drained: {why}"
        case Undrain(phone=phone):
            return f"{phone}: undrained"
        case Kill(phone=phone, why=why):
            return f"{phone}: kills its job: {why}"
        case Stop(run=run, why=why):
            return f"{run}: stops it: {why}"
        case Switch(outlet=outlet, on=on, why=why):
            return f"outlet {outlet}: switches it {'on' if on else 'off'}: {why}"
        case Blow(fan=fan, on=on, why=why):
            return f"fan {fan}: switches it {'on' if on else 'off'}: {why}"
        case Call(what=what, message=message):
            return f"CALLS A PERSON: {what}: {message}"
        case Note(phone=phone, text=text):
            return f"{phone}: {text}"
