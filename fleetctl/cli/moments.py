"""Moments as people write them. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from fleetctl.rack import InputError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhdw])+")
_EXAMPLES = "write a span such as 90m or 2d12h, or a time such as 18:30 or '2027-03-01 18:30'"


def parse_until(text: str, now: float) -> float:
    """The moment that `text` means, in seconds since the epoch: a span from now (`90m`, `2d12h`),
    a time of this machine's clock (`18:30`: the next one), or a date with or without time.

    Raises InputError for anything else, and for what is over already.
    """
    said = text.strip()
    try:
        moment = _moment(said, datetime.fromtimestamp(now).astimezone())
        until = moment.timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no moment: {_EXAMPLES}") from None
    if until <= now:
        raise InputError(f"{text!r} is over already: {_EXAMPLES}")
    return until


def _moment(said: str, now: datetime) -> datetime:
    if _SPAN.fullmatch(said):
        parts = re.findall(r"([\d.]+)([smhdw])", said)
        spans = [timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts]
        return now + sum(spans, timedelta())
    if re.fullmatch(r"\d{1,2}:\d{2}", said):
        hour, minute = map(int, said.split(":"))
        today = now.replace(hour=hour, minute=minute, second=0, microsecond=0, tzinfo=None)
        return today if today.astimezone() > now else today + timedelta(days=1)
    return datetime.fromisoformat(said)
