"""What takes a change back when nobody confirms it: the switch does it by itself.

Each guard is one way of doing so. None of them depends on this program staying alive.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from fleetctl.switches.errors import SwitchError
from fleetctl.switches.session import LostError, RejectedLineError, Session

_NOT_PENDING = "No Rollback Confirmed Change pending"


class GuardError(SwitchError):
    """The guard did not do what a change depends on."""


class Guard(ABC):
    """Arm it, change the configuration, confirm; or undo, or let its time pass."""

    name: ClassVar[str]
    step_seconds: ClassVar[int] = 60
    """Its timer counts in these."""

    at_once: ClassVar[bool] = False
    """Whether lines have no effect before `finish`, and all of it then."""

    loses_what_is_unsaved: ClassVar[bool] = False
    """Whether undoing loses what was not saved before the change."""

    @abstractmethod
    def is_pending(self, session: Session) -> bool:
        """Whether a guarded change waits on the switch, ours or somebody's."""

    @abstractmethod
    def begin(self, session: Session, seconds: int) -> bool:
        """Arm, and go into configuration mode. False: this switch has no such guard."""

    @abstractmethod
    def finish(self, session: Session, seconds: int, patience_seconds: float = 60) -> None:
        """All lines are typed: let them count, and leave configuration mode.

        The way to the switch may be gone for `patience_seconds` then.
        """

    @abstractmethod
    def confirm(self, session: Session) -> None:
        """Keep the change. Raises GuardError when the switch has taken it back already."""

    @abstractmethod
    def undo(self, session: Session) -> None:
        """Bring the old configuration back at once; it may cost the session."""


class RevertTimer(Guard):
    """IOS with an archive: `configure terminal revert timer`."""

    name = "revert timer"

    def is_pending(self, session: Session) -> bool:
        printed = session.ask("show archive config rollback timer")
        return _NOT_PENDING not in printed and "% Invalid" not in printed

    def begin(self, session: Session, seconds: int) -> bool:
        try:
            session.type(f"configure terminal revert timer {-(-seconds // 60)}", seconds=60)
        except RejectedLineError as problem:
            if "Invalid input" in problem.text:
                return False
            raise
        if not self._armed(session):
            raise GuardError(session.target.switch, "its revert timer does not run", "try again")
        return True

    def _armed(self, session: Session) -> bool:
        try:
            return _NOT_PENDING not in session.type("do show archive config rollback timer")
        except RejectedLineError:  # what it says begins like an error
            return False

    def finish(self, session: Session, seconds: int, patience_seconds: float = 60) -> None:
        del seconds, patience_seconds
        session.leave_configuration()

    def confirm(self, session: Session) -> None:
        if _NOT_PENDING in session.ask("configure confirm"):
            raise GuardError(
                session.target.switch, "its revert timer had taken the change back", "try again"
            )

    def undo(self, session: Session) -> None:
        session.leave_configuration()
        if self.is_pending(session):
            session.converse("configure revert now", [(r"\[yes/no\]", "yes")], seconds=60)


class ReloadTimer(Guard):
    """Any IOS: it reloads in some minutes, and what was not saved is gone then."""

    name = "reload timer"
    loses_what_is_unsaved = True

    # Where a message of the reload stands behind the prompt, Enter brings the prompt again.
    _QUESTIONS: ClassVar = [
        (r"Save\? \[yes/no\]", "no"),
        (r"\[confirm\]", ""),
        (r"\*\*\*$", ""),
    ]

    def is_pending(self, session: Session) -> bool:
        return "No reload is scheduled" not in session.ask("show reload")

    def begin(self, session: Session, seconds: int) -> bool:
        session.converse(f"reload in {-(-seconds // 60)}", self._QUESTIONS, seconds=60)
        if not self.is_pending(session):
            raise GuardError(session.target.switch, "no reload was scheduled", "try again")
        session.type("configure terminal")
        return True

    def finish(self, session: Session, seconds: int, patience_seconds: float = 60) -> None:
        del seconds, patience_seconds
        session.leave_configuration()

    def confirm(self, session: Session) -> None:
        session.converse("reload cancel", self._QUESTIONS, seconds=20)
        if self.is_pending(session):
            raise GuardError(
                session.target.switch, "its reload cannot be cancelled", "`reload cancel` by hand"
            )

    def undo(self, session: Session) -> None:
        session.leave_configuration()
        if not self.is_pending(session):
            return
        try:
            session.converse("reload", self._QUESTIONS, seconds=20)
        except LostError:
            return  # as it should


class CommitTimer(Guard):
    """EOS: nothing counts until the session is committed, and then only for a while."""

    name = "commit timer"
    at_once = True
    step_seconds = 1
    SESSION = "phonerack"

    def is_pending(self, session: Session) -> bool:
        return bool(self._waiting(session.ask("show configuration sessions")))

    def _waiting(self, printed: str) -> str | None:
        match = re.search(r"^\W*(\S+)\s+pendingCommitTimer", printed, re.MULTILINE)
        return match[1] if match else None

    def begin(self, session: Session, seconds: int) -> bool:
        del seconds
        # What a broken run left of a session would come along with ours.
        if re.search(rf"^\W*{self.SESSION}\s", session.ask("show configuration sessions"), re.M):
            session.ask(f"configure session {self.SESSION} abort")
        session.type(f"configure session {self.SESSION}")
        return True

    def finish(self, session: Session, seconds: int, patience_seconds: float = 60) -> None:
        hours, rest = divmod(seconds, 3600)
        timer = f"{hours:02}:{rest // 60:02}:{rest % 60:02}"
        session.type(f"commit timer {timer}", seconds=patience_seconds)
        session.leave_configuration()
        if self._waiting(session.ask("show configuration sessions")) != self.SESSION:
            raise GuardError(session.target.switch, "its commit timer does not run", "try again")

    def confirm(self, session: Session) -> None:
        if "%" in session.ask(f"configure session {self.SESSION} commit"):
            raise GuardError(
                session.target.switch, "its commit timer had taken the change back", "try again"
            )

    def undo(self, session: Session) -> None:
        session.leave_configuration()
        printed = session.ask("show configuration sessions")
        if re.search(rf"^\W*{self.SESSION}\s+pending", printed, re.MULTILINE):
            session.ask(f"configure session {self.SESSION} abort")
