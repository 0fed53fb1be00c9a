"""A phone's switch port off and on: drained first, and believed only when phone and switch agree.

A phone without a carrier computes on; one whose adapter is fed by the port loses its charger too.
Either way no job can use it, so it is drained for as long as its port is cut off. That drain also
tells `fleetctl provision switches` to leave the port as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetctl.errors import FleetError
from fleetctl.power.errors import BusyError, UnverifiedError
from fleetctl.rack import Phone
from fleetctl.rack.nodesets import fold
from fleetctl.remote.knock import answering
from fleetctl.state import State
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import CUT_DRAINS, HeldError
from fleetctl.switches.intent import Cut
from fleetctl.switches.ports import PortControl, PortState, UndoneError, best_cut

PAUSE_SECONDS = 5.0
"""Between off and on: an adapter must notice."""

_DRAINS = {how: name for name, how in CUT_DRAINS.items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one phone: what its switch says, and whether it answers itself."""

    phone: str
    state: PortState
    answers: bool


@dataclass
class PortPower:
    """`who` acts, for the record. `wait_seconds` is how long a phone may take to come back."""

    control: PortControl
    state: State
    who: str
    say: Callable[[str], None] = lambda _: None
    wait_seconds: float = 90.0
    pause_seconds: float = PAUSE_SECONDS

    def show(self, phones: Sequence[Phone]) -> list[Outcome]:
        """What switches say of the phones' ports, and who answers. Raises SwitchError."""
        return self._outcomes(phones, self._read(phones))

    def off(self, phones: Sequence[Phone]) -> list[Outcome]:
        """Drain them, cut their ports off, and make sure that they are gone.

        Raises BusyError before anything is changed, SwitchError, UnverifiedError. A phone whose
        port is on in the end is not left drained.
        """
        states = self._read(phones)
        recorded = set(self.control.switches.cuts)
        ways = self._ways(phones, states)
        self._drain(phones, ways)
        try:
            for how in dict.fromkeys(ways.values()):
                for group in _by_switch(phone for phone in phones if ways[phone.name] == how):
                    self.say(f"cuts off the {how} of {_names(group)}")
                    states |= self._cut(group, how, recorded)
        finally:
            self._lift(phone.name for phone in phones if phone.name not in recorded)
        return self._gone(phones, states)

    def on(self, phones: Sequence[Phone]) -> list[Outcome]:
        """Give ports back and lift the drains that `off` set. Who does not answer in time is told,
        and counts as lost.

        Raises SwitchError once all other switches have given theirs back.
        """
        return self._on(phones, self.wait_seconds)

    def cycle(self, phones: Sequence[Phone]) -> list[Outcome]:
        """`off`, a pause, `on`. Whatever happens in between, ports are given back."""
        try:
            self.off(phones)
            time.sleep(self.pause_seconds)
        except BusyError:
            raise
        except KeyboardInterrupt:
            self._on(phones, wait_seconds=0)
            raise
        except FleetError as problem:
            self.on(phones)
            # Each kind is made of other parts; all of them show the first.
            problem.args = (f"{problem}; their ports are on again", *problem.args[1:])
            raise
        return self.on(phones)

    # --- steps ----------------------------------------------------------------------------------

    def _read(self, phones: Sequence[Phone]) -> dict[str, PortState]:
        places = {phone.name: self.control.place(phone) for phone in phones}
        states: dict[str, PortState] = {}
        for switch in dict.fromkeys(switch for switch, _ in places.values()):
            ports = [port for name, port in places.values() if name == switch]
            for state in self.control.read(switch, ports).values():
                states |= {
                    name: state for name, place in places.items() if place == (switch, state.port)
                }
        return states

    def _ways(self, phones: Sequence[Phone], states: dict[str, PortState]) -> dict[str, Cut]:
        """How each is cut off; one that is already stays so."""
        known = self.control.switches.cuts
        return {phone.name: known.get(phone.name, best_cut(states[phone.name])) for phone in phones}

    def _drain(self, phones: Sequence[Phone], ways: dict[str, Cut]) -> None:
        """First drained, so that no job takes them meanwhile; then looked whether one had."""
        before = self.control.switches.cuts
        for phone in phones:
            drain = _DRAINS[ways[phone.name]]
            why = f"{self.who} cut its port off ({phone.switch}:{phone.port})"
            self.state.drain([phone.name], who=drain, why=why, origin="check")
        facts = self.state.phones()
        busy = {phone.name: facts[phone.name].run for phone in phones if facts[phone.name].run}
        if busy:
            self._lift(phone.name for phone in phones if phone.name not in before)
            held = ", ".join(f"{name} by run {run}" for name, run in busy.items())
            first = next(iter(busy.values()))
            raise BusyError(f"held: {held}; `fleetctl stop {first}` first, or wait for its end")

    def _lift(self, names: Iterable[str]) -> None:
        lifted = list(names)
        for drain in _DRAINS.values():
            self.state.undrain(lifted, check=drain)

    def _cut(self, group: Sequence[Phone], how: Cut, recorded: set[str]) -> dict[str, PortState]:
        """Cut phones of one switch off. `recorded` gains those that are, or may be."""
        names = {phone.name for phone in group}
        before = set(recorded)
        recorded |= names
        try:
            return self._switch(group, how, back=False)
        except (UndoneError, HeldError):
            recorded -= names - before
            raise
        except KeyboardInterrupt:
            recorded -= self._still_on(group, how) - before
            raise

    def _still_on(self, group: Sequence[Phone], how: Cut) -> set[str]:
        """Who is not cut off by what the switch says; nobody where it says nothing."""
        try:
            states = self._read(group)
        except SwitchError:
            return set()
        return {name for name, state in states.items() if how not in _cuts_seen(state)}

    def _switch(self, group: Sequence[Phone], how: Cut, back: bool) -> dict[str, PortState]:
        """Have one switch do it to the ports of `group`."""
        (switch,) = {str(phone.switch) for phone in group}
        ports = {int(phone.port or 0): phone.name for phone in group}
        states = self.control.cut(switch, list(ports), how, back)
        return {ports[port]: state for port, state in states.items()}

    def _on(self, phones: Sequence[Phone], wait_seconds: float) -> list[Outcome]:
        states: dict[str, PortState] = {}
        there: set[str] = set()
        try:
            self._give_back(phones, states)
            return self._back(phones, states, there, wait_seconds)
        finally:
            why = f"its port was given back by {self.who}, and it did not answer yet"
            missing = [name for name in states if name not in there]
            self.state.record_contact(
                dict.fromkeys(missing, False), why=dict.fromkeys(missing, why)
            )

    def _give_back(self, phones: Sequence[Phone], states: dict[str, PortState]) -> None:
        """Switch by switch; one that does not do it holds back no other. `states` gains the
        phones that are free again. Raises the first SwitchError."""
        known = self.control.switches.cuts
        problems: list[SwitchError] = []
        try:
            for group in _by_switch(phones):
                try:
                    found = self._give_back_one(group, known)
                except SwitchError as problem:
                    problems.append(problem)
                    continue
                self._lift(found)
                states |= found
        finally:
            left = [phone.name for phone in phones if phone.name in known.keys() - states.keys()]
            if left:
                self.say(
                    f"{fold(left)} may stay off, and stay drained: once that is mended, "
                    f"`fleetctl power {fold(left)} --port on`"
                )
        if problems:
            raise problems[0]

    def _give_back_one(
        self, group: Sequence[Phone], known: Mapping[str, Cut]
    ) -> dict[str, PortState]:
        """Give back what phones of one switch lack, by the record or by the switch's word."""
        states = self._read(group)
        for how in ("carrier", "power"):
            cut = [
                phone
                for phone in group
                if how == known.get(phone.name) or how in _cuts_seen(states[phone.name])
            ]
            if cut:
                self.say(f"gives the {how} back to {_names(cut)}")
                states |= self._switch(cut, how, back=True)
        return states

    def _gone(self, phones: Sequence[Phone], states: dict[str, PortState]) -> list[Outcome]:
        outcomes = self._outcomes(phones, states)
        if still := [outcome.phone for outcome in outcomes if outcome.answers]:
            raise UnverifiedError(
                f"{', '.join(still)}: the switch says that the port is off, and the phone still "
                "answers: is it on Wi-Fi, or plugged in elsewhere? `fleetctl check cables`"
            )
        return outcomes

    def _back(
        self,
        phones: Sequence[Phone],
        states: dict[str, PortState],
        there: set[str],
        wait_seconds: float,
    ) -> list[Outcome]:
        """Wait for phones to answer; `there` gains those that do."""
        until = time.monotonic() + wait_seconds
        while True:
            there |= {each.phone for each in self._outcomes(phones, states) if each.answers}
            if len(there) == len(phones) or time.monotonic() > until:
                break
            time.sleep(1)
        return self._outcomes(phones, self._read(phones))

    def _outcomes(self, phones: Sequence[Phone], states: dict[str, PortState]) -> list[Outcome]:
        there = answering({phone.name: phone.address for phone in phones})
        return [Outcome(phone.name, states[phone.name], phone.name in there) for phone in phones]


def _by_switch(phones: Iterable[Phone]) -> list[list[Phone]]:
    groups: dict[str | None, list[Phone]] = {}
    for phone in phones:
        groups.setdefault(phone.switch, []).append(phone)
    return list(groups.values())


def _names(phones: Iterable[Phone]) -> str:
    return ", ".join(phone.name for phone in phones)


def _cuts_seen(state: PortState) -> set[Cut]:
    """How a port is off by what its switch says, whoever did it."""
    found: set[Cut] = set()
    if not state.enabled:
        found.add("carrier")
    if state.can_feed and not state.poe_enabled:
        found.add("power")
    return found
