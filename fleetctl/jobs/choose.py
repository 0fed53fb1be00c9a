"""Choose the phones of a job: who may be asked, and what to say when they are too few. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.jobs.jobfile import JobError
from fleetctl.rack import Rack
from fleetctl.rack.placement import nearest
from fleetctl.state import PhoneFacts, derive
from trainer.formats import MemoryNeed

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
    `minimum`: as few will do; `spares` are held beside them where there are some, beside named ones
    any others. `offered`: only these are chosen from, and `first` of these train if they can.
    """

    named: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    count: int | None = None
    limit: int | None = None
    minimum: int | None = None
    spares: int = 0

    @property
    def least(self) -> int:
        return self.minimum or len(self.named) or self.count or 1

    @property
    def most(self) -> int | None:
        """None: no bound."""
        return len(self.named) or self.count or self.limit


@dataclass(frozen=True, slots=True)
class Again:
    """What the choice for a further attempt knows of `run`, which still holds its phones."""

    run: str
    keep: tuple[str, ...]
    """Phones that it holds and may go on with: those that trained, then the spares."""
    avoid: Mapping[str, str] = field(default_factory=dict)
    """Phones that it has failed on -> why."""
    pool: tuple[str, ...] = ()
    """The only phones that it may have; empty: any."""
    memory: MemoryNeed | None = None
    """What a rank of it needs, if that is known."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Phones to ask, in ring order, and why the others are not asked."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    refused: Mapping[str, str]
    held: Mapping[str, str]
    """Phone -> the run that holds it."""


def read_wish(
    rack: Rack,
    phones: str | None,
    groups: Mapping[str, Iterable[str]],
    *,
    minimum: int | None = None,
    spares: int = 0,
) -> Wish:
    """`6` or `phone[001-003]`, as a job file has them. Raises JobError or RackError."""
    wish = _read_phones(rack, phones, groups)
    most = wish.most or len(rack.enrolled)
    if minimum is not None and minimum > most:
        raise JobError(
            f"`minimum: {minimum}` is more than the {most} phones that are wanted; lower it"
        )
    return replace(wish, minimum=minimum, spares=spares)


def _read_phones(rack: Rack, phones: str | None, groups: Mapping[str, Iterable[str]]) -> Wish:
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
    rack: Rack,
    facts: Mapping[str, PhoneFacts],
    now: float,
    named: Sequence[str] = (),
    again: Again | None = None,
) -> Candidates:
    """Sort the phones by their state."""
    own, avoid = (again.run, again.avoid) if again else (None, {})
    first, second = [], []
    refused: dict[str, str] = {}
    held: dict[str, str] = {}
    for phone in rack.ring(named or None):
        known = facts.get(phone, PhoneFacts())
        if not rack.phones[phone].enrolled:
            refused[phone] = "an empty place of the rack file; `fleetctl enroll` a phone there"
        elif known.drains:
            drain = known.drains[0]
            refused[phone] = f"drained by {drain.who} ({drain.why})"
        elif phone in avoid:
            refused[phone] = f"left out: {avoid[phone]}"
        elif known.run and known.run != own:
            held[phone] = known.run
            refused[phone] = f"held by run {known.run}"
        elif derive(known, now) in _SECOND_CHOICE:
            second.append(phone)
        else:
            first.append(phone)
    return Candidates(tuple(first), tuple(second), refused, held)


def batches(
    choice: Candidates,
    wish: Wish,
    again: Again | None,
    switches: Mapping[str, str] | None = None,
) -> list[tuple[str, ...]]:
    """Whom to ask one after the other until there are enough: a further attempt asks no more
    phones than it lacks at first, since it is in a hurry, and those beside its own. `switches`:
    phone -> its switch."""
    if again is None:
        return [choice.first, choice.second]
    known = (*choice.first, *choice.second)
    lead = [phone for phone in again.keep if phone in known]
    others = [phone for phone in choice.first if phone not in lead]
    lacking = len(others) if wish.most is None else max(wish.most - len(lead), 0)
    near = nearest(others, lacking, lead, switches)
    rest = [phone for phone in choice.second if phone not in lead]
    return [(*lead, *near), tuple(p for p in others if p not in near), tuple(rest)]


def enough(ready: int, wish: Wish) -> bool:
    """Whether nobody else need be asked."""
    return wish.most is not None and ready >= wish.most + wish.spares


def pick(
    ready: Sequence[str],
    wish: Wish,
    keep: Sequence[str] = (),
    hot: Collection[str] = (),
    switches: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that train and those that are spare, out of the ready ones, which stand in ring order.

    Cool ones come before `hot` ones, then `keep` and `wish.first` before the others, and of these
    as few `switches` (phone -> its switch) are touched as can be. A job that takes what there is
    goes without hot ones if half are cool.
    """
    preferred = tuple(dict.fromkeys((*keep, *wish.first)))
    may_train = [phone for phone in ready if not wish.named or phone in wish.named]
    cool = [phone for phone in ready if phone not in hot]
    if not (wish.named or wish.count) and len(cool) >= max(
        wish.least + wish.spares, len(ready) / 2
    ):
        ready = may_train = cool
    most = wish.most
    if most is None:
        most = max(len(ready) - wish.spares, wish.least)

    def take(phones: Sequence[str], count: int, beside: Sequence[str]) -> tuple[str, ...]:
        taken: list[str] = []
        for some in (cool, hot):
            kept = [phone for phone in preferred if phone in phones and phone in some]
            others = [phone for phone in phones if phone in some and phone not in kept]
            taken += kept[: count - len(taken)]
            taken += nearest(others, count - len(taken), (*beside, *taken), switches)
        return tuple(taken)

    train = take(may_train, most, ())
    return train, take([phone for phone in ready if phone not in train], wish.spares, train)


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
