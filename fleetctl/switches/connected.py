"""One switch that is looked at, and the session to it, which may break and be made anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from fleetctl.switches.config import Config
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.job import Job
from fleetctl.switches.plan import Change, plan_change
from fleetctl.switches.platforms.base import Running
from fleetctl.switches.session import LoginError, LostError, Session


class NotYetError(SwitchError):
    """What is waited for has not come yet."""


@dataclass
class Connected:
    """A job, what was found on its switch, and the change that follows from both."""

    job: Job
    change: Change = field(init=False)
    _session: Session | None = field(default=None, init=False)
    _running: Running | None = field(default=None, init=False)
    _text: str = field(default="", init=False)
    _saved: bool = field(default=True, init=False)

    @property
    def name(self) -> str:
        return self.job.target.switch

    def look(self) -> None:
        """Read what is there and plan what to send. Changes nothing."""
        self._session = self._open()
        self._read()
        startup = self._session.ask("show startup-config")
        self._saved = self._same_as_running(startup)

    def _open(self) -> Session:
        job = self.job
        # In mid-session it may get either name: by the change, or by its end.
        hostnames = [job.intent.hostname]
        hostnames += [
            line.removeprefix("hostname ")
            for line in job.wanted or ()
            if line.startswith("hostname ")
        ]
        if self._running:
            hostnames.append(self._running.hostname)
        session = Session(job.target, job.platform, job.secrets, job.patience, hostnames)
        session.open()
        return session

    def _read(self) -> None:
        job, session = self.job, self._there()
        self._text = session.ask("show running-config")
        self._running = job.platform.read(self._text, job.intent)
        self.change = plan_change(
            job.platform, job.intent, self._running, job.wanted, job.restored_from
        )

    def _same_as_running(self, startup: str) -> bool:
        try:
            found = self.job.platform.read(startup, self.job.intent)
        except SwitchError:
            return False  # a switch that was never saved has none
        return self._running is not None and found.config == self._running.config

    def _there(self) -> Session:
        if self._session is None:
            raise LostError(self.name, "there is no session", "run it again")
        return self._session

    def _renew(self) -> None:
        old, self._session = self._session, None
        if old is not None:
            old.close()
        self._session = self._open()

    def _config(self) -> Config:
        """What runs now, in normal form."""
        text = self._there().ask("show running-config")
        return self.job.platform.read(text, self.job.intent).config

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _real(self, switch_seconds: float) -> float:
        return switch_seconds / self.job.patience.timer_speed

    def _insist[Answer](self, settle: Callable[[], Answer], ends: float) -> Answer:
        """Try until it works, as long as the switch may boot after its timer has ended.

        A try that began before proves nothing, however long it took: another follows.
        """
        until = ends + self._real(self.job.patience.boot_seconds)
        while True:
            began = time.monotonic()
            try:
                return settle()
            except (LostError, LoginError, NotYetError) as problem:
                if began > until:
                    raise SwitchError(
                        self.name,
                        f"which configuration it has could not be seen: {problem.what}",
                        "look at it by hand",
                    ) from None
            time.sleep(self._real(2))
