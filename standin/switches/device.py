"""One stand-in switch: what it is set to, what it would boot with, and the timers that run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import standin.switches.lines  # noqa: F401  fills the editor's tables
from standin.switches.editor import Kind
from standin.switches.factory import factory_settings
from standin.switches.plane import DataPlane
from standin.switches.state import Interface, Settings, effects, own_addresses

type Fault = Literal["freeze", "drop", "power-off"]

BOOT_SECONDS = 60.0


@dataclass
class Knobs:
    """How troublesome a switch is."""

    latency_seconds: float = 0.0
    """Before each answer; echo comes at once."""

    timer_speed: float = 1.0
    """How much faster than real time its timers run."""

    paging: bool = True
    echo_twice: bool = False
    """Print prompt and command once more, as a switch that falls behind does."""

    config_prompt_chars: int = 16
    """Of the hostname, in configuration mode."""

    sha1_only: bool = False
    asks_before_saving: bool = False
    revert_timer: bool = True
    """Whether IOS knows `configure terminal revert timer`; old ones do not."""

    celsius: float = 41.0
    poe_watts: float = 0.0
    """Power over Ethernet that it can give; a switch without gives none."""

    reject: str = ""
    """A regular expression; lines of configuration that match are invalid input."""

    fault: Fault | None = None
    freeze_seconds: float = 600.0
    """How long a frozen switch stays so, by its own timers; a reload thaws it."""

    fault_at: str = ""
    """A regular expression; then the fault strikes at the first line that matches instead."""

    fault_after_lines: int = 0
    """The fault strikes when so many more lines have been entered, before the last is answered."""


@dataclass
class EosSession:
    """A configuration session of EOS. `deadline` is set while a timed commit waits."""

    name: str
    settings: Settings
    deadline: float | None = None
    before: Settings | None = None


def shutdown_notice(what: str) -> str:
    """What every terminal of an IOS switch shows when a reload comes near."""
    return f"\n\n***\n*** --- {what} ---\n***\n\n"


class RunningClock:
    """Seconds that pass `speed` times as fast as real ones."""

    def __init__(self) -> None:
        self.speed = 1.0
        self._base = self._real = time.monotonic()

    def set_speed(self, speed: float) -> None:
        self._base, self._real, self.speed = self.now(), time.monotonic(), speed

    def now(self) -> float:
        return self._base + (time.monotonic() - self._real) * self.speed


@dataclass
class Device:
    """A switch between its command lines and its ports."""

    kind: Kind
    ports: Sequence[str]
    plane: DataPlane
    accounts: dict[str, str]
    """Passwords by user; whoever logs in is privileged."""

    clock: Callable[[], float]
    knobs: Knobs = field(default_factory=Knobs)
    enable_password: str | None = None
    """Asked for after login, if there is one."""

    comes_with: Settings | None = None
    """What it boots with; without, it is fresh from the factory."""

    running: Settings = field(init=False)
    startup: Settings = field(init=False)
    revert: tuple[float, int, Settings] | None = None
    """Deadline, minutes, and what comes back then."""

    reload_at: float | None = None
    sessions: dict[str, EosSession] = field(default_factory=dict)
    down: bool = False
    booting_until: float = 0.0
    frozen_until: float | None = None
    loads: dict[str, float] = field(default_factory=dict)
    """Watts that what is plugged into a port takes from it, and cannot do without."""

    on_message: list[Callable[[str], None]] = field(default_factory=list)
    """Called with what the switch prints on every terminal by itself."""

    on_tick: list[Callable[[], None]] = field(default_factory=list)
    """Called whenever time passes."""

    on_down: list[Callable[[], None]] = field(default_factory=list)
    """Called when it goes down; every connection ends."""

    on_save: list[Callable[[Settings], None]] = field(default_factory=list)
    """Called with what it will boot with from now on."""

    _started: float = field(init=False)
    _links: dict[str, tuple[bool, float]] = field(default_factory=dict)
    """Carriers as last seen, and the uptime at which each last changed."""

    _warnings_left: list[int] = field(default_factory=list)
    lines_entered: int = 0
    log: list[str] = field(default_factory=list)
    """What it did by itself, for tests to read."""

    def __post_init__(self) -> None:
        fresh = self.comes_with or factory_settings(self.kind, self.ports)
        self.running = fresh.copy()
        for user in self.accounts:
            self.running.users[user] = "$1$mERr$hx5rVt7rPNoS4wqbXKX7m0"
        self.startup = self.running.copy()
        self._started = self.clock()
        self.changed()

    @property
    def uptime_seconds(self) -> float:
        return self.clock() - max(self._started, self.booting_until)

    @property
    def frozen(self) -> bool:
        return self.frozen_until is not None

    @property
    def saved(self) -> bool:
        return self.running == self.startup

    def changed(self) -> None:
        """The settings have changed; the ports follow."""
        ports = effects(self.running, strict_bundles=self.kind == "ios")
        unfed = {name for name in self.loads if not self.fed_watts(name)}
        self.plane.apply(
            {
                name: replace(port, up=port.up and not self.down and name not in unfed)
                for name, port in ports.items()
            }
        )
        self.plane.own({} if self.down else own_addresses(self.running))

    # --- ports ----------------------------------------------------------------------------------

    @staticmethod
    def is_physical(name: str) -> bool:
        return not name.startswith(("Port-", "Vlan", "Management"))

    def look_at_links(self) -> None:
        """Notice carriers that have come or gone."""
        for name in filter(self.is_physical, self.running.interfaces):
            self.link(name)

    def link(self, name: str) -> tuple[bool, float]:
        """Whether a port has a carrier, and at what uptime in seconds that was last noticed to
        have changed."""
        if not self.is_physical(name):
            return name in self.running.interfaces, 0.0
        linked = self.plane.linked(name)
        if name not in self._links or self._links[name][0] != linked:
            self._links[name] = (linked, self.uptime_seconds)
        return self._links[name]

    def is_poe_off(self, port: Interface) -> bool:
        return "power inline never" in port.other or "poe disabled" in port.other

    def fed_watts(self, name: str) -> float:
        """What the port gives to a device that it feeds, 0 if it feeds none."""
        port = self.running.interfaces.get(name)
        if not self.knobs.poe_watts or self.down or port is None or self.is_poe_off(port):
            return 0.0
        return self.loads.get(name, 0.0)

    def save(self) -> None:
        self.startup = self.running.copy()
        for call in list(self.on_save):
            call(self.startup)

    # --- timers ---------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let everything happen whose time has come."""
        for call in list(self.on_tick):
            call()
        now = self.clock()
        if self.down and now >= self.booting_until:
            self.down = False
            self.changed()
        if self.frozen_until is not None and now >= self.frozen_until:
            self.frozen_until = None
        if self.revert and now >= self.revert[0]:
            self.roll_back("timer")
        for session in list(self.sessions.values()):
            if session.deadline is not None and now >= session.deadline:
                self.abort(session, "timer")
        if self.reload_at is not None:
            while self._warnings_left and now >= self.reload_at - self._warnings_left[0]:
                left = self._warnings_left.pop(0)
                self.say_everywhere(shutdown_notice(f"SHUTDOWN in 0:{left // 60:02}:00"))
            if now >= self.reload_at:
                self.power_cycle("reload")

    def arm(self, minutes: int) -> None:
        self.revert = (self.clock() + minutes * 60, minutes, self.running.copy())

    def schedule_reload(self, minutes: int) -> None:
        self.reload_at = self.clock() + minutes * 60
        self._warnings_left = [left for left in (300, 60) if left < minutes * 60]

    def roll_back(self, why: str) -> None:
        if self.revert is None:
            raise LookupError("nothing to roll back to")
        _, _, before = self.revert
        self.revert = None
        self._become(before)
        self.log.append(f"rolled back: {why}")

    def _become(self, settings: Settings) -> None:
        """A configuration comes back; VLANs of a VTP server are none of it and stay."""
        vlans = self.running.vlans
        self.running = settings.copy()
        if settings.vtp == "server":
            self.running.vlans = dict(vlans)
        self.changed()

    def commit(self, session: EosSession, timer_seconds: int | None) -> None:
        session.before = self.running.copy()
        self.running = session.settings.copy()
        self.changed()
        if timer_seconds is None:
            del self.sessions[session.name]
        else:
            session.deadline = self.clock() + timer_seconds

    def abort(self, session: EosSession, why: str) -> None:
        if session.before is not None:
            self.running = session.before.copy()
            self.changed()
            self.log.append(f"session {session.name} aborted: {why}")
        self.sessions.pop(session.name, None)

    @property
    def waiting_session(self) -> EosSession | None:
        return next((item for item in self.sessions.values() if item.deadline is not None), None)

    def power_cycle(self, why: str) -> None:
        """Everything that was not saved is gone; ports pass nothing until it has booted."""
        self.log.append(f"went down: {why}")
        vlans = self.running.vlans
        self.running = self.startup.copy()
        if self.startup.vtp == "server":
            self.running.vlans = dict(vlans)
        self.revert = self.reload_at = None
        self.sessions.clear()
        self.frozen_until = None
        self.down, self.booting_until = True, self.clock() + BOOT_SECONDS
        self.changed()
        for call in list(self.on_down):
            call()

    # --- trouble --------------------------------------------------------------------------------

    def strikes(self, line: str) -> Fault | None:
        """Called for each line that is entered; the fault whose turn it is now."""
        self.lines_entered += 1
        if self.knobs.fault is None:
            return None
        self.knobs.fault_after_lines -= 1
        at = self.knobs.fault_at
        if not re.search(at, line) if at else self.knobs.fault_after_lines > 0:
            return None
        fault, self.knobs.fault = self.knobs.fault, None
        if fault == "freeze":
            self.frozen_until = self.clock() + self.knobs.freeze_seconds
        elif fault == "power-off":
            self.power_cycle("power loss")
        return fault

    def say_everywhere(self, text: str) -> None:
        for call in list(self.on_message):
            call(text)
