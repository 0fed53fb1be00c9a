"""Which exchanges the phones of a bench can do, by what the rack file says of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetctl.rack import InputError, Rack
from trainer.formats import Exchange, Method, exchange_conditions


def switches_of(rack: Rack, phones: Sequence[str]) -> tuple[str, ...]:
    """The switch of each phone, "" where the rack file does not say it."""
    return tuple(rack.phones[name].switch or "" for name in phones)


def misfit_of(exchange: Exchange, rack: Rack, phones: Sequence[str]) -> str | None:
    """Why these phones cannot exchange so; None if they can."""
    conditions = exchange_conditions(exchange, phones, switches_of(rack, phones))
    return next((complaint for sound, complaint in conditions if not sound), None)


def require_fit(exchange: Exchange, rack: Rack, phones: Sequence[str]) -> None:
    """Raises InputError."""
    if reason := misfit_of(exchange, rack, phones):
        raise InputError(reason)


def misfits_of(methods: Iterable[Method], rack: Rack, phones: Sequence[str]) -> dict[Method, str]:
    """Methods of `bench collectives` that these phones cannot do -> why."""
    return {
        method: reason
        for method in methods
        if method in ("ring", "hierarchical", "gloo")
        and (reason := misfit_of(Exchange(reduce=method), rack, phones))
    }
