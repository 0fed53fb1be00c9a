"""A phone's switch port off and on: drained first, and believed only when phone and switch agree.

A phone without a carrier computes on; one whose adapter is fed by the port loses its charger too.
Either way no job can use it, so it is drained for as long as its port is cut off. That drain also
tells `fleetctl provision switches` to leave the port as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from fleetctl.errors import FleetError
from fleetctl.power.errors import BusyError, UnverifiedError
from fleetctl.rack import Phone
from fleetctl.remote.knock import answering
from fleetctl.state import State
from fleetctl.switches.fleet import CUT_DRAINS
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

        Raises BusyError before anything is changed, SwitchError, UnverifiedError.
        """
        states = self._read(phones)
        before = self.control.switches.cuts
        ways = self._ways(phones, states)
        self._drain(phones, ways)
        for how in dict.fromkeys(ways.values()):
            group = [phone for phone in phones if ways[phone.name] == how]
            self.say(f"cuts off the {how} of {', '.join(phone.name for phone in group)}")
            states |= self._cut(group, how, back=False, before=before)
        return self._gone(phones, states)

    def on(self, phones: Sequence[Phone]) -> list[Outcome]:
        """Give ports back and lift the drains that `off` set. Who does not answer in time is told.

        Raises SwitchError.
        """
        states = self._read(phones)
        known = self.control.switches.cuts
        for how in ("carrier", "power"):
            group = [
                phone
                for phone in phones
                if how == known.get(phone.name) or how in _cuts_seen(states[phone.name])
            ]
            if group:
                self.say(f"gives the {how} back to {', '.join(phone.name for phone in group)}")
                states |= self._cut(group, how, back=True)
        outcomes = self._back(phones, states)
        for drain in _DRAINS.values():
            self.state.undrain([phone.name for phone in phones], check=drain)
        return outcomes

    def cycle(self, phones: Sequence[Phone]) -> list[Outcome]:
        """`off`, a pause, `on`. Whatever happens in between, ports are given back."""
        try:
            self.off(phones)
            time.sleep(self.pause_seconds)
        except (BusyError, KeyboardInterrupt):
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
            for drain in _DRAINS.values():
                mine = [phone.name for phone in phones if phone.name not in before]
                self.state.undrain(mine, check=drain)
            held = ", ".join(f"{name} by run {run}" for name, run in busy.items())
            first = next(iter(busy.values()))
            raise BusyError(f"held: {held}; `fleetctl stop {first}` first, or wait for its end")

    def _cut(
        self, phones: Sequence[Phone], how: Cut, back: bool, before: Container[str] = ()
    ) -> dict[str, PortState]:
        """Phones that are on after all are no longer drained, but for those that were `before`."""
        found: dict[str, PortState] = {}
        for switch in dict.fromkeys(str(phone.switch) for phone in phones):
            group = {int(phone.port or 0): phone for phone in phones if phone.switch == switch}
            try:
                states = self.control.cut(switch, list(group), how, back)
            except UndoneError:
                if not back:
                    drained = [phone.name for phone in group.values() if phone.name not in before]
                    self.state.undrain(drained, check=_DRAINS[how])
                raise
            found |= {group[port].name: state for port, state in states.items()}
        return found

    def _gone(self, phones: Sequence[Phone], states: dict[str, PortState]) -> list[Outcome]:
        outcomes = self._outcomes(phones, states)
        if still := [outcome.phone for outcome in outcomes if outcome.answers]:
            raise UnverifiedError(
                f"{', '.join(still)}: the switch says that the port is off, and the phone still "
                "answers: is it on Wi-Fi, or plugged in elsewhere? `fleetctl check cables`"
            )
        return outcomes

    def _back(self, phones: Sequence[Phone], states: dict[str, PortState]) -> list[Outcome]:
        until = time.monotonic() + self.wait_seconds
        while True:
            outcomes = self._outcomes(phones, states)
            if all(outcome.answers for outcome in outcomes) or time.monotonic() > until:
                break
            time.sleep(1)
        return self._outcomes(phones, self._read(phones))

    def _outcomes(self, phones: Sequence[Phone], states: dict[str, PortState]) -> list[Outcome]:
        there = answering({phone.name: phone.address for phone in phones})
        return [Outcome(phone.name, states[phone.name], phone.name in there) for phone in phones]


def _cuts_seen(state: PortState) -> set[Cut]:
    """How a port is off by what its switch says, whoever did it."""
    found: set[Cut] = set()
    if not state.enabled:
        found.add("carrier")
    if state.can_feed and not state.poe_enabled:
        found.add("power")
    return found
