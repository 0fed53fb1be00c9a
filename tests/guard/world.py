"""A rack that ages in seconds: the stand-in's heat and batteries, hubs that lie, phones that hang.

`World` is what a guard meets: it answers its actions after a while, and keeps the score of what
must never happen. All of it follows from one seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from world_parts import BESIDE, DEFECTS, HOUR, OUTLETS, PHONES, RUNAWAY_CELSIUS, Hub, Phone

from fleetctl.guard.actions import (
    Action,
    Call,
    Drain,
    Facts,
    Inputs,
    Kill,
    Outcome,
    Sample,
    Stop,
    Switch,
    Undrain,
)
from fleetctl.guard.core import decide
from fleetctl.guard.layout import Layout
from fleetctl.guard.memory import Memory
from fleetctl.power.outlets import LATCH_DRAIN
from fleetctl.rack import GuardLimits
from standin.hardware.battery import health_word
from standin.hardware.model import Outside, advance, speed
from standin.hardware.state import HardwareState


@dataclass
class World:
    """`score` has one line for each thing that must never happen."""

    seed: int
    limits: GuardLimits
    rate: float = 1.0
    calm_seconds: float = 15.0
    """Between two looks while nothing happens."""
    now: float = 1e9
    score: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311
        self.layout = Layout.of(PHONES, OUTLETS, self.limits)
        self.memory = Memory(self.now)
        self.hubs = {name: Hub() for name in OUTLETS}
        self.phones = {name: self._phone(name) for name in PHONES}
        self.later: list[tuple[float, Any]] = []
        self.outcomes: list[Outcome] = []
        self.clears: dict[str, str] = {}
        self.calls = 0
        self.ambient = 25.0
        self.runs = 0
        self.down_until = 0.0
        self.slack = 0.0
        self.decisions: list[tuple[float, Action]] = []
        self.asked = 0.0
        self.appointments: list[tuple[float, Any]] = []
        self.journal: Any = None
        self.restarts = True

    def _phone(self, name: str) -> Phone:
        hardware = HardwareState.plausible(f"{self.seed}/{name}", "SM-G975F", 31)
        charge = self.chance.uniform(30, 85)
        battery = replace(hardware.battery, charge_percent=charge)
        return Phone(replace(hardware, battery=battery), heard=self.now)

    # --- time -------------------------------------------------------------------------------

    def run(self, hours: float) -> None:
        """Let it live for some hours."""
        end = self.now + hours * HOUR
        next_events = self.now
        while self.now < end:
            if self.now >= next_events:
                self._events()
                next_events += 60
            self._step(1.0 if self._is_tense() else self._calm())

    def _calm(self) -> float:
        """Seconds up to the next look, which is late for nobody's steps."""
        return min(self.calm_seconds, max(1.0, self.asked + self.limits.poll_seconds - self.now))

    def _is_tense(self) -> bool:
        """Whether seconds count now."""
        if self.later or self.outcomes or self.clears:
            return True
        if any(order.tries < 6 for order in self.memory.orders.values()):
            return True
        cut = self.limits.cut_celsius
        for phone in self.phones.values():
            since = phone.above_since
            if since is not None and self.now - since < 60:
                return True
            if since is None and cut - 0.3 < phone.hardware.heat.battery_celsius < cut + 0.3:
                return True
        return False

    def _step(self, seconds: float) -> None:
        self.now += seconds
        self._warm(seconds)
        for item in [each for each in self.later if each[0] <= self.now]:
            self.later.remove(item)
            item[1]()
        if self.now >= self.down_until:
            self._decide()
        self._judge()

    def _warm(self, seconds: float) -> None:
        outsides = {}
        for name, phone in self.phones.items():
            fed = self.fed(name)
            hot = phone.runaway and (fed or phone.computes)
            place = phone.hardware.surroundings
            air = RUNAWAY_CELSIUS if hot else self.ambient
            if place.ambient_celsius != air:
                place = replace(place, ambient_celsius=air)
                phone.hardware = replace(phone.hardware, surroundings=place)
            load = 1.0 if phone.computes else 0.0
            outside = Outside(load=load, is_fed=fed)
            outsides[name] = replace(outside, load=min(load, speed(phone.hardware, outside)))
        states = advance(
            {name: phone.hardware for name, phone in self.phones.items()},
            outsides,
            BESIDE,
            seconds,
        )
        for name, state in states.items():
            self.phones[name].hardware = state

    def fed(self, name: str) -> bool:
        return self.hubs[self.layout.feeder[name]].on

    # --- what guard sees and does -------------------------------------------------------------

    def _decide(self) -> None:
        samples = {name: self._sample(name) for name in self.phones if self._is_asked(name)}
        if self.now - self.asked >= self.limits.poll_seconds:
            self.asked = self.now
        problems = {name: "no answer" for name, sample in samples.items() if sample is None}
        inputs = Inputs(
            samples={name: sample for name, sample in samples.items() if sample is not None},
            facts={
                name: Facts(phone.run, frozenset(phone.drains))
                for name, phone in self.phones.items()
            },
            outcomes=self.outcomes,
            problems=problems,
            clears=self.clears,
        )
        self.outcomes, self.clears = [], {}
        if self.journal is not None and self.restarts:
            self.journal.close()
            self.journal.begin(self.now, self.memory)
        self.restarts = False
        actions = decide(self.layout, self.memory, self.now, inputs)
        if self.journal is not None:
            self.journal.write(self.now, inputs, actions, self.memory)
        for action in actions:
            self.decisions.append((self.now, action))
            self._obey(action)

    def _is_asked(self, name: str) -> bool:
        """All at once every period; those whose power is being switched, every second."""
        tense = f"switch:{self.layout.feeder[name]}" in self.memory.orders
        return tense or self.now - self.asked >= self.limits.poll_seconds

    def _sample(self, name: str) -> Sample | None:
        phone = self.phones[name]
        if phone.silent:
            return None
        phone.heard = self.now
        battery, celsius = phone.hardware.battery, phone.hardware.heat.battery_celsius
        return Sample(
            self.now,
            round(celsius, 1),
            battery.is_plugged,
            round(battery.charge_percent),
            battery.status == "CHARGING",
            health_word(battery, celsius),
        )

    def _after(self, seconds: float, do: Any) -> None:
        self.later.append((self.now + seconds, do))

    def _obey(self, action: Action) -> None:
        self.seen[action.kind] = self.seen.get(action.kind, 0) + 1
        match action:
            case Drain():
                self.phones[action.phone].drains.add(action.who)
            case Undrain():
                self.phones[action.phone].drains.discard(action.who)
            case Kill():
                reached = not self.phones[action.phone].silent
                self._after(0.3 if reached else 5.0, lambda: self._kill(action, reached))
            case Stop():
                self._after(self.chance.uniform(3, 15), lambda: self._stop(action))
            case Switch():
                self._count(action)
                self._after(self.chance.uniform(0.5, 2.0), lambda: self._switch(action))
            case Call():
                self.calls += 1
                self.outcomes.append(Outcome(action.key, True))

    def _kill(self, action: Kill, reached: bool) -> None:
        if reached:
            run = self.phones[action.phone].run
            self._end_compute(run)
            if run is not None and self.chance.random() < 0.5:  # somebody supervises it
                self._after(20.0, lambda: self._end_job(run))
        self.outcomes.append(Outcome(action.key, reached, "" if reached else "no answer"))

    def _stop(self, action: Stop) -> None:
        if any(phone.run == action.run and phone.silent for phone in self.phones.values()):
            self.outcomes.append(Outcome(action.key, False, "no answer"))
            return
        self._end_compute(action.run)
        for phone in self.phones.values():
            if phone.run == action.run:
                phone.run = None
        self.outcomes.append(Outcome(action.key, True))

    def _end_compute(self, run: str | None) -> None:
        for phone in self.phones.values():
            if phone.run == run:
                phone.computes = False

    def _switch(self, action: Switch) -> None:
        hub = self.hubs[action.outlet]
        if hub.way == "hangs":
            self._after(5.0, lambda: self._say(action, False, "did not end within 5 s"))
        elif hub.way == "fails":
            self._say(action, False, "exit code 1")
        else:
            if hub.way == "honest":
                hub.on = action.on
            self._say(action, True, "ok")

    def _say(self, action: Switch, ok: bool, said: str) -> None:
        self.outcomes.append(Outcome(action.key, ok, said))

    # --- the score ----------------------------------------------------------------------------

    def _count(self, action: Switch) -> None:
        """Changes of what an outlet is told, of which an hour may see two."""
        hub = self.hubs[action.outlet]
        phones = [self.phones[name] for name in OUTLETS[action.outlet].phones]
        if action.on and any(LATCH_DRAIN in phone.drains for phone in phones):
            self._blame(f"{action.outlet} was switched on, and is latched")
        busy = any(phone.run for phone in phones)
        if not action.on and busy and not self._is_dangerous(action.outlet):
            self._blame(f"{action.outlet} was cut off while a job ran, without danger")
        if action.on is hub.commanded:
            return
        hub.commanded = action.on
        hub.switched = [when for when in hub.switched if self.now - when < HOUR] + [self.now]
        if len(hub.switched) > 2:
            self._blame(f"{action.outlet} was switched {len(hub.switched)} times in an hour")

    def _is_dangerous(self, outlet: str) -> bool:
        return any(
            phone.latch is not None or phone.silent
            for name in OUTLETS[outlet].phones
            for phone in [self.memory.phones[name]]
        )

    def _judge(self) -> None:
        for name, phone in self.phones.items():
            limits, battery = self.limits, phone.hardware.heat.battery_celsius
            if battery < limits.cut_celsius + 0.05 or not (self.fed(name) or phone.computes):
                phone.above_since = None
                continue
            if phone.above_since is None:
                phone.above_since = self.now
            known = max(phone.above_since, self.down_until, phone.back)
            if phone.silent:
                known = max(known, phone.heard + limits.silent_seconds)
            if self.now - known <= limits.poll_seconds + 10:
                continue
            hub = self.hubs[self.layout.feeder[name]]
            fed_too = OUTLETS[self.layout.feeder[name]].phones
            called = any(call.sent and call.phone in fed_too for call in self.memory.calls.values())
            excused = (hub.excused(self.now) or phone.silent) and called
            if not excused or (phone.computes and not phone.silent):
                self._blame(
                    f"{name} had {battery:.1f} °C for {self.now - known:.0f} s, "
                    f"{'fed' if self.fed(name) else 'not fed'}, "
                    f"{'computing' if phone.computes else 'idle'}, hub {hub.way}, "
                    f"{'called' if called else 'nobody called'}"
                )

    def _blame(self, what: str) -> None:
        if len(self.score) < 20:
            self.score.append(f"seed {self.seed} at {(self.now - 1e9) / HOUR:.3f} h: {what}")

    # --- what happens -------------------------------------------------------------------------

    def _happens(self, times_a_day: float) -> bool:
        return self.chance.random() < times_a_day * self.rate / 1440

    def _events(self) -> None:
        """Once a minute."""
        self._jobs()
        if self._happens(2):
            self.ambient = self.chance.uniform(18, 33)
        name = self.chance.choice(PHONES)
        phone, hub = self.phones[name], self.hubs[self.layout.feeder[name]]
        if self._happens(3):
            phone.runaway = True
        if self._happens(1):
            defect = self.chance.choice(DEFECTS)
            phone.hardware = replace(
                phone.hardware, battery=replace(phone.hardware.battery, defect=defect)
            )
        if self._happens(4):
            fan = self.chance.random() < 0.5
            place = replace(phone.hardware.surroundings, has_fan=fan)
            phone.hardware = replace(phone.hardware, surroundings=place)
        if self._happens(5):
            phone.silent = True
            self._after_hours(0.01, 0.4, lambda: phone.speak(self.now))
        if self._happens(4):
            hub.way = self.chance.choice(["lies", "fails", "hangs"])
            self._after_hours(1, 8, lambda: hub.mend(self.now))
        if self._happens(2):
            self.down_until = self.now + self.chance.uniform(2, 60)
            self.memory = Memory.from_json(self.memory.to_json(), self.down_until)
            self.restarts = True
        self._people()

    def _after_hours(self, low: float, high: float, do: Any) -> None:
        # Minutes are counted here, so that a far appointment does not make every second tense.
        self.appointments.append((self.now + self.chance.uniform(low, high) * HOUR, do))

    def _people(self) -> None:
        for item in [each for each in self.appointments if each[0] <= self.now]:
            self.appointments.remove(item)
            item[1]()
        for name, memory in self.memory.phones.items():
            outlet = self.layout.feeder[name]
            waits = memory.latch is not None or self.memory.outlets[outlet].distrust
            if waits and self.chance.random() < 1 / 90:
                phone = self.phones[name]
                phone.runaway = phone.silent = False
                battery = replace(phone.hardware.battery, defect="none")
                phone.hardware = replace(phone.hardware, battery=battery)
                self.hubs[outlet].mend(self.now)
                self.clears[name] = "looked at it"
                self.hubs[outlet].switched.clear()
                phone.above_since = None
                for beside in (self.phones[other] for other in OUTLETS[outlet].phones):
                    if not beside.computes:  # the mended hub cuts these too
                        beside.above_since = None

    def _jobs(self) -> None:
        idle = [n for n, phone in self.phones.items() if phone.run is None and not phone.drains]
        if len(idle) >= 2 and self._happens(40):
            self.runs += 1
            run = f"job-{self.runs}"
            for name in self.chance.sample(idle, self.chance.randint(1, len(idle))):
                self.phones[name].run, self.phones[name].computes = run, True
            self._after_hours(0.2, 3, lambda: self._end_job(run))

    def _end_job(self, run: str) -> None:
        for phone in self.phones.values():
            if phone.run == run:
                phone.run, phone.computes = None, False
