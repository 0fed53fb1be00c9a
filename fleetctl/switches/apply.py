"""Bring one switch to a configuration, or leave it as it was.

The order of steps is the point. Nothing is changed before the switch itself has been told to take
the change back; nothing is kept before switch and phones have been reached again; nothing is called
saved before the switch said so. Whatever fails in between, the old configuration returns: at once
where the switch still answers, by its own timer where it does not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from fleetctl.switches.config import differences
from fleetctl.switches.connected import Connected, NotYetError
from fleetctl.switches.errors import RefusedError, SwitchError
from fleetctl.switches.guards import Guard
from fleetctl.switches.job import StoppedError, placed
from fleetctl.switches.plan import Step
from fleetctl.switches.session import LostError

MARGIN_SECONDS = 40
"""Between the last moment at which lines are typed and the moment at which the timer ends."""

_SECONDS_A_LINE = 0.5
"""Ten times what a line takes on a switch that is well."""


@dataclass
class Application(Connected):
    """One switch on its way. The steps are methods, so that several switches can go in step."""

    guard: Guard | None = None
    notes: list[str] = field(default_factory=list)
    _before: frozenset[str] = frozenset()
    _armed_at: float = 0.0
    _armed_seconds: int = 0
    _confirmed: bool = False
    _prepared: tuple[str, ...] = ()
    """Lines that it has got for good, whatever becomes of the change."""

    # --- change ---------------------------------------------------------------------------------

    def count_phones(self) -> None:
        """See who answers. Nobody may have begun to change anything yet, at any switch."""
        if self.change:
            self._before = frozenset(self.job.reachable())

    def arm(self, lines: int = 0) -> None:
        """Everything that must be true first; then the switch is told to take the change back.

        `lines` is how many lines the longest change takes that this one must wait for.
        """
        if not self.change:
            return
        job, session = self.job, self._there()
        for guard in job.platform.guards():
            if guard.is_pending(session):
                raise RefusedError(
                    self.name,
                    f"a change waits there already under a {guard.name}",
                    "confirm it or let it run out, then run again",
                )
        job.backup(self._text)
        self._prepare()
        if self.change:
            self._arm(max(lines, len(self.change.commands)))

    def _prepare(self) -> None:
        """Lines without which a change can be neither armed nor read back, under a reload timer."""
        running = self._running
        if running is None or not running.lacking:
            return
        guard = self.job.platform.guards()[-1]
        self.job.say("prepares it for changes that can be taken back")
        self._begin(guard, len(running.lacking))
        for line in running.lacking:
            self._type(line, Step("", (line,), line))
        guard.finish(self._there(), self._armed_seconds)
        self._open().close()
        try:
            guard.confirm(self._there())
        except LostError:
            self._insist(lambda: self._disarm_again(guard), self._timer_ends)
        self.guard, self._prepared = None, running.lacking
        try:
            self._save()
        except LostError:
            self._insist(self._save_anew, time.monotonic())
        self._read()
        if self._running and self._running.lacking:
            self._prepared = ()
            raise SwitchError(
                self.name,
                "it went down before what it was prepared with was saved; "
                "the old configuration is back",
                "run it again",
            )
        self.job.backup(self._text)

    def _arm(self, lines: int) -> None:
        if not any(self._begin(guard, lines) for guard in self.job.platform.guards()):
            self.guard = None
            raise RefusedError(
                self.name, "it cannot take a change back by itself", "see its manual"
            )
        count = len(self.change.commands)
        self.job.say(f"{count} lines, taken back in {self._armed_seconds} s unless confirmed")

    def _begin(self, guard: Guard, lines: int) -> bool:
        """Arm one guard. From here on it must be undone whatever happens."""
        if guard.loses_what_is_unsaved and not self._saved:
            raise RefusedError(
                self.name,
                "it has changes that were never saved, and a reload would lose them",
                f"`{self.job.platform.save}` on it, or reload it, then run again",
            )
        self._armed_seconds = self._timer_seconds(guard, lines)
        self._armed_at = time.monotonic()
        self.guard = guard
        return guard.begin(self._there(), self._armed_seconds)

    def _timer_seconds(self, guard: Guard, lines: int) -> int:
        patience = self.job.patience
        needed = lines * _SECONDS_A_LINE + patience.settle_seconds + 2 * patience.line_seconds
        needed = needed * patience.timer_speed + MARGIN_SECONDS
        return -(-int(needed) // guard.step_seconds) * guard.step_seconds

    def push(self) -> None:
        """Type the lines up to the first uplink; where nothing counts before a commit, all."""
        if self.guard is not None:
            for step, line in self.change.part(uplinks=False):
                self._type(line, step)
            if self.guard.at_once:
                for step, line in self.change.part(uplinks=True):
                    self._type(line, step)

    def push_uplinks(self, together: bool = False) -> None:
        """The rest. With `together`, other ends change too, and until then nothing may answer."""
        if self.guard is None:
            return
        seconds = self.job.patience.settle_seconds
        rest = [] if self.guard.at_once else list(self.change.part(uplinks=True))
        if together and rest:
            self.in_time()
            with placed(self.name, rest):
                self._there().type_ahead(self.change.closed_uplinks(), seconds)
        else:
            for step, line in rest:
                self._type(line, step)
        self.guard.finish(self._there(), self._armed_seconds, seconds)

    def _type(self, line: str, step: Step) -> None:
        self.in_time()
        with placed(self.name, [(step, line)]):
            self._there().type(line)

    def check_stopped(self) -> None:
        if self.job.stopped():
            raise StoppedError(self.name, "interrupted", "run it again")

    def in_time(self) -> None:
        """Never go on while the timer may fire: half of a change would survive it."""
        self.check_stopped()
        left = self._armed_at + self._real(self._armed_seconds - MARGIN_SECONDS) - time.monotonic()
        if left <= 0:
            raise SwitchError(
                self.name,
                f"it takes lines too slowly for its timer of {self._armed_seconds} s",
                "see what keeps it busy",
            )

    # --- verify and keep ------------------------------------------------------------------------

    def verify(self) -> None:
        """Log in anew, read back, and reach everybody who was reachable before.

        A change that concerns ports of phones only answers for these; any other for all of the
        rack, since it may be the way to other switches.
        """
        if self.guard is None:
            return
        self.job.say("reads back")
        until = time.monotonic() + self.job.patience.settle_seconds
        while True:
            try:
                self._renew()
                self._compare()
                break
            except LostError:
                if time.monotonic() > until:
                    raise
                self.in_time()
        mine = {port.label for port in self.job.intent.ports if port.role == "phone"}
        due = self._before if self.change.may_cut_off_others else self._before & mine
        while due and (missing := sorted(due - set(self.job.reachable()))):
            if time.monotonic() > until:
                cure = "compare cabling and rack file"
                if others := sorted(set(missing) - mine):
                    cure += f": {others[0]} is plugged in elsewhere, and was reached through it"
                raise SwitchError(
                    self.name, f"no longer reachable after the change: {', '.join(missing)}", cure
                )
            self.in_time()
            time.sleep(0.2)

    def _compare(self) -> None:
        text = self._there().ask("show running-config")
        found = self.job.platform.read(text, self.job.intent)
        self._text = text
        if found.config != self.change.after:
            lines = differences(self.change.after, found.config)
            raise SwitchError(
                self.name,
                f"it does not show what it was told: {'; '.join(lines[:3])}",
                "see whether it supports these lines",
            )

    def confirm(self) -> None:
        """Keep the change. A session that breaks meanwhile leaves open whether it was kept."""
        guard = self.guard
        if guard is None:
            return
        try:
            guard.confirm(self._there())
            kept = True
        except LostError:
            kept = self._insist(lambda: self._confirm_again(guard), self._timer_ends)
        self.guard, self._confirmed = None, kept
        if not kept:
            raise SwitchError(
                self.name,
                "the session broke before the change was confirmed; the old configuration is back",
                "run it again",
            )

    def _confirm_again(self, guard: Guard) -> bool:
        self._renew()
        if guard.is_pending(self._there()):
            guard.confirm(self._there())
        return self._is_new_or_old()

    def save(self) -> None:
        """Keep it over a reboot, and make sure of that. Also what a run before left unsaved."""
        if self._confirmed or not self._saved:
            if not self._confirmed:
                self.notes.append("its running configuration was right but not saved")
            try:
                self._save()
            except LostError:
                if not self._insist(self._save_again, time.monotonic()):
                    self._confirmed = False
                    raise SwitchError(
                        self.name,
                        "it went down before the change was saved; the old configuration is back",
                        "run it again",
                    ) from None
            self.job.backup(self._text)

    def _save_again(self) -> bool:
        self._renew()
        if not self._is_new_or_old():
            return False
        self._save()
        return True

    def _disarm_again(self, guard: Guard) -> None:
        self._renew()
        if guard.is_pending(self._there()):
            guard.confirm(self._there())

    def _save_anew(self) -> None:
        self._renew()
        self._save()

    def _is_new_or_old(self) -> bool:
        """Whether the change is there. Raises SwitchError when neither it nor the old one is."""
        found = self._config()
        if found == self.change.after:
            return True
        if found == self.change.before:
            return False
        raise NotYetError(self.name, "it shows neither the old nor the new", "look at it by hand")

    def _save(self) -> None:
        platform, session = self.job.platform, self._there()
        platform.keep(session, self.job.patience.save_seconds)
        self._text = session.ask("show running-config")
        running = platform.read(self._text, self.job.intent)
        startup = platform.read(session.ask("show startup-config"), self.job.intent)
        if running.config != startup.config:
            raise SwitchError(
                self.name, "what it saved is not what runs", "compare both on the switch"
            )
        self._saved = True

    # --- back -----------------------------------------------------------------------------------

    def undo(self) -> str:
        """Bring the old configuration back; how it came is told. Raises SwitchError if it did not.

        Returns the empty string where nothing had been changed.
        """
        if self._confirmed:
            return self._change_back()
        if self.guard is None:
            return ""
        self.job.say("takes it back")
        guard = self.guard
        try:
            guard.undo(self._there())
            self._renew()
            if not guard.is_pending(self._there()) and self._config() == self.change.before:
                return "the old configuration is back"
        except SwitchError:
            pass  # it does not answer: its own timer is left
        return self._wait_for_the_timer(guard)

    def _wait_for_the_timer(self, guard: Guard) -> str:
        """Ask again until it answers; a timer that still runs then is not waited for."""

        def look() -> str:
            self._renew()
            pending = guard.is_pending(self._there())
            if pending:
                guard.undo(self._there())
                self._renew()
            if self._config() != self.change.before:
                raise NotYetError(self.name, "it differs", "look at it by hand")
            return "the old configuration is back" + ("" if pending else ", by itself")

        return self._insist(look, self._timer_ends)

    @property
    def _timer_ends(self) -> float:
        return max(self._armed_at + self._real(self._armed_seconds), time.monotonic())

    def _change_back(self) -> str:
        """It was kept already, and could not be saved: the way back is a change as well."""
        self.close()
        job = replace(
            self.job, wanted=self.change.before, restored_from=None, stopped=lambda: False
        )

        def change() -> str:
            Application(job).run(only_in_step=True)
            return "the old configuration is back, by a change of its own"

        return self._insist(change, time.monotonic())

    # --- all of it ------------------------------------------------------------------------------

    @contextmanager
    def unwinding(self) -> Iterator[None]:
        """Whatever goes wrong inside ends in the old configuration, and says so."""
        try:
            yield
        except SwitchError as problem:
            how = self._undone(problem)
            if not how and not self._prepared:
                raise
            how = how or "nothing was changed"
            if self._prepared:
                how += (
                    f", but for `{'`, `'.join(self._prepared)}`, which changes need and which stay"
                )
            raise SwitchError(self.name, f"{problem.what}; {how}", problem.cure) from None
        except BaseException:
            self.undo()
            raise
        finally:
            self.close()

    def _undone(self, problem: SwitchError) -> str:
        try:
            return self.undo()
        except SwitchError as worse:
            raise SwitchError(self.name, f"{problem.what}; {worse.what}", worse.cure) from None

    def run(self, only_in_step: bool = False) -> None:
        """All steps of one switch by itself.

        With `only_in_step`, what is saved changes only if it was what ran.
        """
        with self.unwinding():
            self.look()
            in_step = self._saved
            self.count_phones()
            self.arm()
            self.push()
            self.push_uplinks()
            self.verify()
            self.confirm()
            if in_step or not only_in_step:
                self.save()
