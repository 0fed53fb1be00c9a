"""What happened to a run, out of its events, in words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetctl.jobs.jobfile import duration_words
from fleetctl.rack.nodesets import fold

TOGETHER_SECONDS = 3.0
"""What happens to several phones so soon after each other is told once."""
MOST_ROWS = 60


@dataclass(frozen=True, slots=True)
class Happening:
    """`kind` is what sort of thing: lost, recovery, plan, drain, straggler, checkpoint, …"""

    time: float
    kind: str
    text: str
    phones: tuple[str, ...] = ()


type _Event = Mapping[str, Any]

_WORDS: dict[str, tuple[str, Callable[[_Event], str]]] = {
    "created": ("start", lambda e: f"phones chosen: {_folded(e['phones'])}{_spares(e)}"),
    "staged": ("data", lambda e: _staged(e)),
    "started": ("start", lambda e: f"mpirun started on {e.get('head', 'the head phone')}"),
    "connection-lost": ("lost", lambda _: "its connection broke"),
    "suspect": ("lost", lambda e: str(e.get("reason", "is suspect"))),
    "alone": ("lost", lambda _: "no phone answered: the controller had lost its network"),
    "back": ("lost", lambda e: f"phones answered again after {e.get('seconds', '?')} s"),
    "requeued": ("recovery", lambda e: f"went back into the queue: {e.get('reason', '')}"),
    "given": ("recovery", lambda _: "the queue has given it phones again"),
    "shares": ("plan", lambda e: _shares(e)),
    "slow": ("slow", lambda e: f"no progress for {e.get('silent_seconds', '?')} s"),
    "straggler": ("straggler", lambda e: _straggler(e)),
    "attempt-ended": ("end", lambda e: f"the attempt ended: {e['reason'] or e['state']}"),
    "waiting": ("recovery", lambda e: f"waits for phones: {e.get('reason', '')}"),
    "cooling": ("drain", lambda e: _cooling(e)),
    "cleared": ("recovery", lambda _: "what was left on it is ended"),
    "checkpoint-refused": (
        "checkpoint",
        lambda e: f"{e.get('name', 'a checkpoint')} not used: {e.get('reason', 'damaged')}",
    ),
    "final-refused": ("records", lambda e: f"its final record: {e.get('reason', 'damaged')}"),
    "progress-refused": ("records", lambda e: f"a line of progress: {e.get('reason', 'damaged')}"),
    "not-fetched": ("records", lambda e: f"{e.get('file', 'a file')} could not be fetched"),
    "stop-requested": ("stop", lambda e: f"a stop was asked for ({e.get('by', 'somebody')})"),
    "energy": ("energy", lambda e: f"measured on {len(e['watt_hours'])} phones"),
    "ended": ("end", lambda e: f"the run is {e['state']}{_because(e)}"),
}


def happenings(events: Sequence[_Event]) -> list[Happening]:
    """In order of time; checkpoints, of which there are many, as one."""
    found: list[Happening] = []
    plan: Mapping[str, Any] | None = None
    kept = [event for event in events if event["kind"] == "checkpoint"]
    for event in events:
        kind = event["kind"]
        if kind == "attempt":
            found.append(Happening(event["time"], "recovery", _attempt(event)))
            if plan is not None and list(plan["phones"]) != list(event["phones"]):
                found.append(Happening(event["time"], "plan", _changed(plan, event)))
        elif kind == "checkpoint" and event is kept[-1]:
            found.append(Happening(event["time"], "checkpoint", _checkpoints(kept)))
        elif kind in _WORDS:
            sort, words = _WORDS[kind]
            phone = event.get("phone")
            phones = (phone,) if isinstance(phone, str) else ()
            found.append(Happening(event["time"], sort, words(event), phones))
        if kind in ("created", "attempt"):
            plan = event
    return together(found)


def together(found: Iterable[Happening]) -> list[Happening]:
    """The same sort of thing on several phones at nearly the same time is told as one."""
    out: list[Happening] = []
    for each in found:
        last = out[-1] if out else None
        if (
            last is not None
            and each.phones
            and last.phones
            and last.kind == each.kind
            and each.time - last.time <= TOGETHER_SECONDS
        ):
            phones = tuple(dict.fromkeys((*last.phones, *each.phones)))
            out[-1] = Happening(last.time, last.kind, last.text, phones)
        else:
            out.append(each)
    return out


def rows(found: Sequence[Happening], began: float) -> list[tuple[str, str, str, str]]:
    """After, kind, phones, what; the middle of a long list is left out, and said."""
    told = [
        (
            duration_words(max(each.time - began, 0.0)),
            each.kind,
            _folded(each.phones) if each.phones else "",
            _first(each),
        )
        for each in found
    ]
    if len(told) <= MOST_ROWS:
        return told
    half = MOST_ROWS // 2
    left_out = ("…", "", "", f"{len(told) - 2 * half} more, in events.jsonl")
    return [*told[:half], left_out, *told[-half:]]


def _first(each: Happening) -> str:
    text = each.text.splitlines()[0] if each.text else ""
    more = len(each.phones) - 1
    return f"{text}; and {more} more" if more > 0 else text


def _folded(phones: Sequence[str]) -> str:
    return f"{len(phones)}: {fold(phones)}" if len(phones) > 1 else "".join(phones)


def _spares(event: _Event) -> str:
    spares = event.get("spares") or ()
    return f"; spare: {fold(spares)}" if spares else ""


def _staged(event: _Event) -> str:
    sent = event.get("sent_to") or ()
    data = event.get("data", "data")
    if not sent:
        return f"every phone held {data} already"
    how, seconds = event.get("how", "sent"), event.get("seconds", "?")
    return f"{data} {how} to {_folded(list(sent))} in {seconds} s"


def _straggler(event: _Event) -> str:
    heat = event.get("temperature_celsius")
    warm = "" if heat is None else f", its battery had {heat:.0f} °C"
    return (
        f"computed {event.get('of_fastest', '?')} times as long for a sample as "
        f"{event.get('fastest', 'the fastest')}, {event.get('of_own_best', '?')} times its own best"
        f"{warm}"
    )


def _shares(event: _Event) -> str:
    """A change of the plan between two iterations."""
    why = event.get("why")
    told = "; ".join(dict.fromkeys(map(str, why.values()))) if isinstance(why, dict) else ""
    return f"other shares from iteration {event.get('iteration', '?')} on: {told}"


def _cooling(event: _Event) -> str:
    seconds = event.get("seconds")
    rest = f" for {duration_words(seconds)}" if isinstance(seconds, int | float) else ""
    return f"takes no jobs{rest}: {event.get('why', '')}"


def _attempt(event: _Event) -> str:
    return (
        f"attempt {event['number']} went on from iteration {event.get('iteration', 0)} "
        f"on {_folded(event['phones'])}"
    )


def _changed(before: _Event, event: _Event) -> str:
    """How an attempt's phones differ from those of the one before."""
    gone = [phone for phone in before["phones"] if phone not in event["phones"]]
    new = [phone for phone in event["phones"] if phone not in before["phones"]]
    parts = [f"without {fold(gone)}"] if gone else []
    parts += [f"with {fold(new)}"] if new else []
    counts = f"{len(before['phones'])} to {len(event['phones'])} phones"
    return f"the plan changed, {counts}: {', '.join(parts) or 'another order'}"


def _checkpoints(kept: Sequence[_Event]) -> str:
    last = kept[-1].get("iteration", "?")
    if len(kept) == 1:
        return f"one was kept on the controller, of iteration {last}"
    return f"{len(kept)} were kept on the controller, the last of iteration {last}"


def _because(event: _Event) -> str:
    return f": {event['reason']}" if event.get("reason") else ""
