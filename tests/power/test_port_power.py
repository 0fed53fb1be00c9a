"""Ports off and on over several switches: what was not cut off is not left recorded as cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleetctl.power import ports
from fleetctl.power.errors import BusyError
from fleetctl.power.ports import PortPower
from fleetctl.rack import Phone
from fleetctl.state import State
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.fleet import HeldError, read_cuts
from fleetctl.switches.intent import Cut
from fleetctl.switches.ports import PortState, UndoneError


@dataclass
class Paths:
    state_db: Path


@dataclass
class Switches:
    """As PortControl sees them: `trouble` is what a switch raises once it shall cut ports off."""

    paths: Paths
    off: set[tuple[str, int]] = field(default_factory=set)
    trouble: dict[str, BaseException] = field(default_factory=dict)
    back_trouble: dict[str, BaseException] = field(default_factory=dict)

    @property
    def switches(self) -> Switches:
        return self

    @property
    def cuts(self) -> dict[str, Cut]:
        return read_cuts(self.paths)  # type: ignore[arg-type]

    def place(self, phone: Phone) -> tuple[str, int]:
        return str(phone.switch), int(phone.port or 0)

    def read(self, switch: str, numbers: Sequence[int]) -> dict[int, PortState]:
        return {
            number: PortState(switch, number, f"Gi1/0/{number}", enabled, linked=True)
            for number in numbers
            for enabled in [(switch, number) not in self.off]
        }

    def cut(
        self, switch: str, numbers: Sequence[int], _how: Cut, back: bool = False
    ) -> dict[int, PortState]:
        trouble = self.back_trouble if back else self.trouble
        if switch in trouble:
            raise trouble[switch]
        change = self.off.difference_update if back else self.off.update
        change({(switch, number) for number in numbers})
        return self.read(switch, numbers)


@dataclass
class Desk:
    switches: Switches
    state: State
    said: list[str] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)

    @property
    def phones(self) -> list[Any]:
        places = (("phone001", "sw1"), ("phone002", "sw2"), ("phone003", "sw3"))
        return [_Phone(name, switch) for name, switch in places]

    def power(self) -> PortPower:
        control: Any = self.switches
        return PortPower(
            control, self.state, "sam", self.said.append, wait_seconds=0, pause_seconds=0
        )

    def answering(self, addresses: dict[str, str]) -> set[str]:
        off = {f"phone00{switch[2:]}" for switch, _ in self.switches.off}
        return set(addresses) - off - self.silent

    def drained(self) -> list[str]:
        return [name for name, facts in self.state.phones().items() if facts.drains]


@dataclass
class _Phone:
    name: str
    switch: str
    port: int = 1
    address: str = "192.0.2.1"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    file = tmp_path / "state.db"
    with State(file) as state:
        here = Desk(Switches(Paths(file)), state)
        monkeypatch.setattr(ports, "answering", here.answering)
        yield here


@pytest.mark.parametrize(
    "trouble",
    [UndoneError("sw2", "it rejected `shutdown`", "look at it"), HeldError("somebody is at them")],
)
def test_a_switch_that_undoes_it_leaves_the_phones_of_the_next_as_they_were(
    desk: Desk, trouble: Exception
) -> None:
    desk.switches.trouble["sw2"] = trouble
    with pytest.raises(type(trouble)):
        desk.power().off(desk.phones)
    assert desk.switches.off == {("sw1", 1)}
    assert desk.drained() == ["phone001"], "what is on is not recorded as cut off"


def test_a_switch_of_which_nobody_knows_keeps_its_phones_drained(desk: Desk) -> None:
    desk.switches.trouble["sw2"] = SwitchError("sw2", "it is not known", "look at it")
    with pytest.raises(SwitchError):
        desk.power().off(desk.phones)
    assert desk.drained() == ["phone001", "phone002"]


def test_an_interruption_leaves_recorded_only_what_is_cut_off(desk: Desk) -> None:
    desk.switches.trouble["sw2"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        desk.power().off(desk.phones)
    assert desk.drained() == ["phone001"]


def test_what_was_off_before_stays_so_when_others_cannot_be_cut(desk: Desk) -> None:
    desk.power().off(desk.phones[1:2])
    desk.switches.trouble["sw2"] = UndoneError("sw2", "it rejected `shutdown`", "look at it")
    with pytest.raises(UndoneError):
        desk.power().off(desk.phones)
    assert desk.drained() == ["phone001", "phone002"]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt(), SwitchError("sw2", "what", "cure")])
def test_cycle_gives_back_whatever_happens(desk: Desk, trouble: BaseException) -> None:
    desk.switches.trouble["sw2"] = trouble
    with pytest.raises(type(trouble)):
        desk.power().cycle(desk.phones)
    assert desk.switches.off == set()
    assert desk.drained() == []


def test_cycle_touches_nothing_that_a_run_holds(desk: Desk) -> None:
    desk.power().off(desk.phones[:1])
    desk.state.allocate("run-1", ["phone002"])
    with pytest.raises(BusyError):
        desk.power().cycle(desk.phones)
    assert desk.switches.off == {("sw1", 1)}


def test_of_several_switches_those_that_gave_back_are_free(desk: Desk) -> None:
    desk.power().off(desk.phones)
    desk.switches.back_trouble["sw2"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        desk.power().on(desk.phones)
    assert desk.switches.off == {("sw2", 1), ("sw3", 1)}
    assert desk.drained() == ["phone002", "phone003"]
    (told,) = [line for line in desk.said if "stay off" in line]
    assert "phone[002-003]" in told
    assert "--port on" in told


@pytest.mark.parametrize("interrupt", [False, True])
def test_a_phone_that_does_not_come_back_is_lost_and_its_port_is_not_recorded_as_cut(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, interrupt: bool
) -> None:
    desk.state.record_contact(dict.fromkeys(["phone001", "phone002"], True))
    desk.power().off(desk.phones[:2])
    desk.silent.add("phone002")
    if interrupt:
        monkeypatch.setattr(ports, "answering", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            desk.power().on(desk.phones[:2])
    else:
        desk.power().on(desk.phones[:2])
    assert desk.drained() == []
    assert desk.switches.cuts == {}
    contact = desk.state.phones()["phone002"].contact
    assert contact.missed_since is not None
    assert contact.why is not None
    assert "port" in contact.why
    missed = desk.state.phones()["phone001"].contact.missed_since
    assert (missed is None) is not interrupt


def _interrupted(_: Any) -> set[str]:
    raise KeyboardInterrupt


def test_a_switch_that_does_not_give_back_holds_back_no_other(desk: Desk) -> None:
    desk.power().off(desk.phones)
    desk.switches.back_trouble["sw2"] = SwitchError("sw2", "it does not answer", "look at it")
    with pytest.raises(SwitchError, match="sw2: it does not answer"):
        desk.power().on(desk.phones)
    assert desk.switches.off == {("sw2", 1)}
    assert desk.drained() == ["phone002"]
    (told,) = [line for line in desk.said if "stay off" in line]
    assert "phone002" in told
