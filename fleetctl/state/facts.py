"""What is known about a phone beyond the rack file, and the state that follows from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

type Origin = Literal["person", "check"]
type Status = Literal["OK", "WARN", "CRITICAL", "UNKNOWN"]
type PhoneState = Literal["ready", "busy", "draining", "drained", "suspect", "lost", "needs-hands"]

NEEDS_HANDS_AFTER_SECONDS = 900.0
"""A phone that has not answered for so long will not come back by itself."""


RESTART_SLACK_SECONDS = 10.0
"""What its processes may be younger than the last contact without that the phone has restarted."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A reason why a phone takes no new jobs. `who` is a person, or the check that set it.

    All times are seconds since the epoch. One with `until` ends by itself then.
    """

    who: str
    why: str
    origin: Origin
    since: float
    until: float | None = None

    @property
    def by(self) -> str:
        """`who`, told apart from a person of the same name."""
        return f"check {self.who}" if self.origin == "check" else self.who

    def holds(self, now: float) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, slots=True)
class Health:
    """Result of the last preflight or check of the phone; `who` looked, None if nobody noted it."""

    status: Status
    message: str
    time: float
    who: str | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """Who gave the phone to its run, why and when; who and why are None if nobody noted them."""

    run: str
    since: float
    who: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Contact:
    """`seen`: when it last answered. `missed_since`: first of the tries it has not answered
    since then, `why` the last of them failed. `returned`: when it last answered after such a gap,
    or after a restart that nobody has seen. None: never."""

    seen: float | None = None
    missed_since: float | None = None
    returned: float | None = None
    why: str | None = None

    def after(
        self, reached: bool, now: float, why: str | None = None, up_seconds: float | None = None
    ) -> Contact:
        """This contact after one more try. `up_seconds`: for how long the phone's services have
        been running."""
        if not reached:
            missed = now if self.missed_since is None else self.missed_since
            return Contact(self.seen, missed, self.returned, why or self.why)
        came_back = self.seen is not None and (
            self.missed_since is not None or self.restarted(now, up_seconds)
        )
        return Contact(now, None, now if came_back else self.returned)

    def restarted(self, now: float, up_seconds: float | None) -> bool:
        """Whether what runs on the phone is younger than the last contact."""
        if self.seen is None or up_seconds is None:
            return False
        return up_seconds + RESTART_SLACK_SECONDS < now - self.seen


@dataclass(frozen=True, slots=True)
class AdbTry:
    """The last try to reach the phone over adb, the other door to it."""

    time: float
    answered: bool


@dataclass(frozen=True, slots=True)
class Revocations:
    """Version of the list of revoked keys that the phone was last seen with, and the rack's."""

    seen: int
    wanted: int

    @property
    def outdated(self) -> bool:
        return self.seen < self.wanted


@dataclass(frozen=True, slots=True)
class Holding:
    """What a phone held of a data set at `time`: some or all files of the version that
    `manifest`, a checksum, names."""

    phone: str
    data: str
    manifest: str
    files: int
    of_files: int
    time: float


@dataclass(frozen=True, slots=True)
class PhoneFacts:
    """Everything the state knows about one phone; `run` is the run that holds it, `allocation`
    tells more of that."""

    drains: tuple[Drain, ...] = ()
    health: Health | None = None
    run: str | None = None
    contact: Contact = Contact()
    adb: AdbTry | None = None
    revocations: Revocations | None = None
    allocation: Allocation | None = None


def derive(facts: PhoneFacts, now: float) -> PhoneState:
    """The state of a phone. It is never stored, so no event can forget to update it.

    A drain stays until somebody lifts it, or its time is over, whatever else happens to the phone.
    A phone that was away, or has restarted, or that nobody has seen yet, is suspect until a health
    check since then was good; one that would still accept revoked keys is suspect until it has the
    new list. A look that could not tell how it is is no good one.
    """
    if any(drain.holds(now) for drain in facts.drains):
        return "draining" if facts.run else "drained"
    contact, health = facts.contact, facts.health
    if contact.missed_since is not None:
        return _absence(contact.missed_since, facts.adb, now)
    if facts.run:
        return "busy"
    if facts.revocations is not None and facts.revocations.outdated:
        return "suspect"
    if health is not None and health.status == "CRITICAL":
        return "suspect"
    good = health is not None and health.status in ("OK", "WARN")
    if good and health and (contact.returned is None or health.time >= contact.returned):
        return "ready"
    never_away = contact.seen is not None and contact.returned is None
    return "ready" if never_away else "suspect"


def _absence(missed_since: float, adb: AdbTry | None, now: float) -> PhoneState:
    """What the state of a phone is that does not answer over ssh.

    Somebody must go there if adb is silent too; while adb answers, nobody need; without a word
    of adb since then, time decides.
    """
    if adb is not None and adb.time >= missed_since:
        return "lost" if adb.answered else "needs-hands"
    return "needs-hands" if now - missed_since > NEEDS_HANDS_AFTER_SECONDS else "lost"
