"""Look for the phone that a silent run waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetctl.jobs import onphone
from fleetctl.remote import Fleet, PhoneError
from trainer.formats import FormatError, Progress

type Blame = PhoneError | str
"""What is wrong with a phone: an error if it cannot be asked, a sentence if it answers."""


@dataclass(frozen=True, slots=True)
class RankLook:
    """One rank seen from outside: its processes' states (as in /proc) and its own progress."""

    states: frozenset[str]
    iteration: int | None


async def stuck(fleet: Fleet, run: str, phones: Sequence[str]) -> Mapping[str, Blame]:
    """Phones that keep the run from going on, each with the reason; none if all seem to work."""
    answers = await fleet.run(phones, onphone.look_at_rank(run), timeout_seconds=10)
    looks: dict[str, RankLook] = {}
    found: dict[str, Blame] = {}
    for phone, answer in answers.items():
        if answer.error is not None:
            found[phone] = answer.error
        else:
            looks[phone] = read_look(answer.stdout)
    return found or suspects(looks)


async def anybody_answers(fleet: Fleet, phones: Sequence[str]) -> bool:
    """Whether at least one of them does, as soon as that is known."""
    asking = [asyncio.create_task(fleet.run_on(phone, "true")) for phone in phones]
    try:
        for answer in asyncio.as_completed(asking):
            if (await answer).error is None:
                return True
        return False
    finally:
        for task in asking:
            task.cancel()


def read_look(text: str) -> RankLook:
    """The output of `onphone.look_at_rank`: a line of state letters, then the progress file."""
    states, _, progress = text.partition("\n")
    try:
        iteration = Progress.from_json(progress).iteration
    except FormatError:
        iteration = None
    return RankLook(frozenset(states.split()), iteration)


async def progress(fleet: Fleet, run: str, phones: Sequence[str]) -> dict[str, Progress]:
    """Where the rank of each phone is; without those that do not say."""
    answers = await fleet.run(phones, onphone.look_at_progress(run), timeout_seconds=10)
    found = {}
    for phone, answer in answers.items():
        try:
            found[phone] = Progress.from_json(answer.stdout)
        except FormatError:
            continue
    return found


def suspects(looks: Mapping[str, RankLook]) -> dict[str, str]:
    """Ranks that are gone or stopped, though their phone answers. Pure."""
    found = {}
    for phone, look in looks.items():
        if not look.states:
            found[phone] = f"{phone} answers, but its rank is gone"
        elif look.states & {"T", "t"}:
            found[phone] = (
                f"{phone} answers, but its rank is stopped (frozen by Android); "
                "check the freezer setting and the wake lock"
            )
    return found
