"""One port of one switch: what the switch says of it, and cutting it off or giving it back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from fleetctl.rack import Phone
from fleetctl.switches.errors import RefusedError, SwitchError, UnreadableError
from fleetctl.switches.fleet import Switches
from fleetctl.switches.intent import Cut
from fleetctl.switches.session import LostError, Session
from fleetctl.switches.tables import PORTS, Feeding, read_ports, read_power

_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PortState:
    """What a switch says of a port. `speed_mbits` is None without a carrier; `fed_watts` is 0
    where it `can_feed` a device and does not, None where it cannot or does not tell."""

    switch: str
    port: int
    interface: str
    enabled: bool
    linked: bool
    speed_mbits: int | None = None
    full_duplex: bool | None = None
    can_feed: bool = False
    fed_watts: float | None = None
    poe_enabled: bool = False


class UndoneError(SwitchError):
    """Ports could not be cut off or given back, and are as they were."""


@dataclass
class PortControl:
    """The ports of phones on the switches of one rack."""

    switches: Switches

    def place(self, phone: Phone) -> tuple[str, int]:
        """Switch and port of a phone that can be cut off. Raises RefusedError."""
        if phone.switch is None or phone.port is None:
            raise RefusedError(
                phone.name, "the rack file gives it no port", "add `switch` and `ports` there"
            )
        self.switches.managed([phone.switch])
        return phone.switch, phone.port

    def links(self, names: Iterable[str]) -> tuple[dict[str, PortState], dict[str, SwitchError]]:
        """Ports of the phones `names` at managed switches, which are asked side by side; and why
        some could not be asked, by switch."""
        places: dict[str, dict[int, str]] = {}
        managed = {switch.name for switch in self.switches.managed()}
        for phone in map(self.switches.rack.phones.__getitem__, names):
            if phone.switch in managed and phone.port:
                places.setdefault(str(phone.switch), {})[phone.port] = phone.name

        def one(switch: str) -> dict[int, PortState] | SwitchError:
            try:
                return self.read(switch, list(places[switch]))
            except SwitchError as problem:
                return problem

        with ThreadPoolExecutor(max_workers=max(1, len(places))) as workers:
            answers = dict(zip(places, workers.map(one, places), strict=True))
        found = {
            places[switch][port]: state
            for switch, answer in answers.items()
            if not isinstance(answer, SwitchError)
            for port, state in answer.items()
        }
        problems = {name: item for name, item in answers.items() if isinstance(item, SwitchError)}
        return found, problems

    def read(self, switch: str, ports: Sequence[int]) -> dict[int, PortState]:
        """What `switch` says of `ports`. Raises SwitchError."""
        with self._session(switch) as session:
            return self._states(session, switch, ports)

    def cut(
        self, switch: str, ports: Sequence[int], how: Cut, back: bool = False
    ) -> dict[int, PortState]:
        """Cut `ports` off, or give them `back`; wait for the switch to say so, and keep it.

        Raises UndoneError where it does not do so, and is as it was before; SwitchError where that
        could not be seen, and it must be looked at.
        """
        found, intent = self.switches.intent(self.switches.rack.switches[switch])
        wanted = {port.number: replace(port, cut=None if back else how) for port in intent.ports}
        lines = [f"no {line}" if back else line for line in found.cut_lines(how)]
        places = [f"interface {wanted[port].interface}" for port in ports]
        with ExitStack() as stack:
            try:
                stack.enter_context(self.switches.alone())
                session = stack.enter_context(self._session(switch))
                before = self._lines(session, switch, places)
            except SwitchError as problem:  # nothing has been typed
                raise UndoneError(problem.switch, problem.what, problem.cure) from problem
            try:
                self._type(
                    session,
                    {
                        place: (f"description {wanted[port].description}", *lines)
                        for place, port in zip(places, ports, strict=True)
                    },
                )
                states = self._until(session, switch, ports, how, back)
                found.keep(session, self.switches.patience.save_seconds)
            except SwitchError as problem:
                raise self._undone(problem, session, before, found.cut_lines(how)) from None
            except KeyboardInterrupt:
                self._undone(SwitchError(switch, "", ""), session, before, found.cut_lines(how))
                raise
            return states

    def _type(self, session: Session, sections: Mapping[str, Sequence[str]]) -> None:
        try:
            session.type("configure terminal")
            for place, lines in sections.items():
                session.type(place)
                for line in lines:
                    session.type(line)
        finally:
            session.leave_configuration()

    def _lines(
        self, session: Session, switch: str, places: Sequence[str]
    ) -> dict[str, tuple[str, ...]]:
        """What stands in some sections of the running configuration."""
        found, intent = self.switches.intent(self.switches.rack.switches[switch])
        config = found.read(session.ask("show running-config"), intent).config
        return {place: config.get(place, ()) for place in places}

    def _undone(
        self,
        problem: SwitchError,
        session: Session,
        before: Mapping[str, tuple[str, ...]],
        cuts: Sequence[str],
    ) -> SwitchError:
        """Take back what has been typed; the failure, with what came of that."""
        name = problem.switch
        try:
            if isinstance(problem, LostError):
                session.close()
                session.open()
            now = self._lines(session, name, list(before))
            self._type(
                session,
                {
                    place: tuple(_opposite(now[place], old, cuts))
                    for place, old in before.items()
                    if now[place] != old
                },
            )
            if self._lines(session, name, list(before)) == before:
                return UndoneError(
                    name, f"{problem.what}; its ports are as they were", problem.cure
                )
        except SwitchError:
            pass  # what follows says it
        return SwitchError(
            name,
            f"{problem.what}; whether its ports are as they were could not be seen",
            "look at its running configuration, nothing was saved",
        )

    def _until(
        self, session: Session, switch: str, ports: Sequence[int], how: Cut, back: bool
    ) -> dict[int, PortState]:
        until = time.monotonic() + self.switches.patience.settle_seconds
        while True:
            states = self._states(session, switch, ports)
            wrong = [state for state in states.values() if _is_cut(state, how) == back]
            if not wrong:
                return states
            if time.monotonic() > until:
                what = "does not give back" if back else "does not cut off"
                names = ", ".join(state.interface for state in wrong)
                raise SwitchError(switch, f"it {what} {names}", "look at it by hand")
            time.sleep(_POLL_SECONDS)

    def _session(self, name: str) -> Session:
        switch = self.switches.rack.switches[name]
        found, _ = self.switches.intent(switch)
        secrets = self.switches.secrets(switch)
        return Session(self.switches.target(switch), found, secrets, self.switches.patience)

    def _states(self, session: Session, switch: str, ports: Sequence[int]) -> dict[int, PortState]:
        found, intent = self.switches.intent(self.switches.rack.switches[switch])
        shown = read_ports(found, switch, session.ask(PORTS))
        power = self._power(session, switch)
        states = {}
        for port in intent.ports:
            if port.number not in ports:
                continue
            if port.interface not in shown:
                raise UnreadableError(
                    switch, f"`{PORTS}` does not show {port.interface}", "look at it by hand"
                )
            status, duplex, speed = shown[port.interface]
            feeding = power.get(port.interface)
            states[port.number] = PortState(
                switch,
                port.number,
                port.interface,
                enabled=status != "disabled",
                linked=status == "connected",
                speed_mbits=_mbits(speed) if status == "connected" else None,
                full_duplex=duplex.endswith("full") if status == "connected" else None,
                can_feed=feeding is not None,
                fed_watts=feeding.watts if feeding else None,
                poe_enabled=bool(feeding and feeding.enabled),
            )
        return states

    def _power(self, session: Session, switch: str) -> dict[str, Feeding]:
        """Ports that can feed devices; one of which the table does not tell whether it may is
        told of by its configuration."""
        found, intent = self.switches.intent(self.switches.rack.switches[switch])
        power = read_power(found, switch, session.ask(found.power)) if found.power else {}
        if all(feeding.enabled is not None for feeding in power.values()):
            return power
        config = found.read(session.ask("show running-config"), intent).config
        (never, *_) = found.cut_lines("power")
        return {
            name: feeding._replace(enabled=never not in config.get(f"interface {name}", ()))
            for name, feeding in power.items()
        }


def best_cut(state: PortState) -> Cut:
    """Power where the port feeds the device, or may for all that is known; else the carrier."""
    unknown = state.can_feed and state.fed_watts is None
    return "power" if state.fed_watts or unknown else "carrier"


def _opposite(now: Sequence[str], old: Sequence[str], cuts: Sequence[str]) -> Iterator[str]:
    """From how a port is cut off or described to how it was before."""
    described = [line for line in old if line.startswith("description ")] or ["no description"]
    yield from (line for line in described if line not in now)
    yield from (line for line in cuts if line in old and line not in now)
    yield from (f"no {line}" for line in cuts if line in now and line not in old)


def _is_cut(state: PortState, how: Cut) -> bool:
    if how == "carrier":
        return not state.enabled
    return not state.poe_enabled and not state.fed_watts


def _mbits(speed: str) -> int | None:
    """`a-1000`, `1000`, `1G`, `100M`; None for words that say nothing."""
    text = speed.removeprefix("a-")
    factor = 1000 if text.endswith("G") else 1
    number = text.rstrip("GM")
    return int(number) * factor if number.isdigit() else None
