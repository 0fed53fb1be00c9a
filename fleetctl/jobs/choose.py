"""Choose the phones of a job: who may be asked, and what to say when they are too few. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs.jobfile import JobError
from fleetctl.rack import Rack
from fleetctl.state import PhoneFacts, derive

# Suspect and lost phones are asked when the ready ones are too few for the number wanted, or when
# all phones are wanted: a good preflight is what makes them ready again.
_SECOND_CHOICE = ("suspect", "lost", "needs-hands")


class NotEnoughPhones(FleetError):
    """Fewer phones are ready than the job asks for."""

    exit_code: ClassVar[ExitCode] = ExitCode.PREFLIGHT_REFUSED


class PhonesHeld(NotEnoughPhones):
    """There would be enough, but other runs hold them."""

    exit_code: ClassVar[ExitCode] = ExitCode.HELD


@dataclass(frozen=True, slots=True)
class Wish:
    """What a job asks for: exactly these phones, or a number of any, or all that pass.

    `limit` bounds the last: a run that is resumed wants as many as it had, and takes fewer.
    """

    named: tuple[str, ...] = ()
    count: int | None = None
    limit: int | None = None

    @property
    def least(self) -> int:
        return len(self.named) or self.count or 1

    @property
    def most(self) -> int | None:
        """None: no bound."""
        return len(self.named) or self.count or self.limit


@dataclass(frozen=True, slots=True)
class Candidates:
    """Phones to ask, in ring order, and why the others are not asked."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    refused: Mapping[str, str]
    held: Mapping[str, str]
    """Phone -> the run that holds it."""


def read_wish(rack: Rack, phones: str | None, groups: Mapping[str, Iterable[str]]) -> Wish:
    """`6` or `phone[001-003]`. Raises JobError or RackError."""
    if phones is None:
        return Wish()
    if phones.strip().isdigit():
        count = int(phones)
        most = len(rack.enrolled)
        if not 1 <= count <= most:
            raise JobError(
                f"{count} phones wanted, the rack {rack.name} has {most}; ask for 1 to {most}"
            )
        return Wish(count=count)
    named = rack.select(phones, groups)
    if not named:
        raise JobError(f"the node set {phones!r} is empty; name at least one phone")
    return Wish(named=tuple(rack.ring(named)))


def candidates(
    rack: Rack, facts: Mapping[str, PhoneFacts], now: float, named: Sequence[str] = ()
) -> Candidates:
    """Sort the phones by their state."""
    first, second = [], []
    refused: dict[str, str] = {}
    held: dict[str, str] = {}
    for phone in rack.ring(named or None):
        known = facts.get(phone, PhoneFacts())
        if known.drains:
            drain = known.drains[0]
            refused[phone] = f"drained by {drain.who} ({drain.why})"
        elif known.run:
            held[phone] = known.run
            refused[phone] = f"held by run {known.run}"
        elif derive(known, now) in _SECOND_CHOICE:
            second.append(phone)
        else:
            first.append(phone)
    return Candidates(tuple(first), tuple(second), refused, held)


def too_few(
    wanted: int, ready: Sequence[str], choice: Candidates, failed: Mapping[str, str]
) -> NotEnoughPhones:
    """The sentence for more phones than are ready: how many, and why each other one is not."""
    refused = {**choice.refused, **failed}
    kind = PhonesHeld if len(ready) + len(choice.held) >= wanted else NotEnoughPhones
    advice = f"Ask for {len(ready)}, or cure the others" if ready else "Cure these"
    reasons = "".join(f"\n  {phone}: {why}" for phone, why in refused.items())
    phones = "phone" if wanted == 1 else "phones"
    return kind(
        f"{wanted} {phones} wanted, {len(ready)} ready; nothing started. {advice}:{reasons}"
    )
