"""Ask phones of a run how their ranks are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fleetctl.jobs import onphone
from fleetctl.remote import Fleet, PhoneError
from trainer.formats import FormatError, Progress

type Blame = PhoneError | str
"""What is wrong with a phone: an error if it cannot be asked, a sentence if it answers."""


@dataclass(frozen=True, slots=True)
class RankLook:
    """One rank seen from outside: its processes' states (as in /proc) and its own progress.
    `ready`: it has all that it trains with, as far as its program says so."""

    states: frozenset[str]
    iteration: int | None
    ready: bool = False


async def look(
    fleet: Fleet, run: str, phones: Sequence[str]
) -> tuple[dict[str, RankLook], dict[str, PhoneError]]:
    """Each rank seen from outside; and the phones that could not be asked."""
    answers = await fleet.run(phones, onphone.look_at_rank(run), timeout_seconds=10)
    looks = {p: read_look(answer.stdout) for p, answer in answers.items() if answer.error is None}
    return looks, {p: answer.error for p, answer in answers.items() if answer.error is not None}


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
    """The output of `onphone.look_at_rank`: a line of state letters, one that may say `ready`,
    then the progress file."""
    states, _, rest = text.partition("\n")
    ready, _, progress = rest.partition("\n")
    try:
        iteration = Progress.from_json(progress).iteration
    except FormatError:
        iteration = None
    return RankLook(frozenset(states.split()), iteration, ready == "ready")


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
