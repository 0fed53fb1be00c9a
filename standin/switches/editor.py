"""Configuration mode: each line that is taken changes the settings at once, as such switches do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from standin.switches.grammar import Ambiguous, Incomplete, Invalid, Match, Parsed, parse, patterns
from standin.switches.state import ALL_VLANS, BUNDLED, Interface, Settings

type Kind = Literal["ios", "eos"]
type Action = Callable[[Editor, tuple[str, ...]], Iterable[str] | None]


UNAVAILABLE = "% Unavailable command (not supported on this hardware platform)"


class RejectedError(Exception):
    """A line that was understood and refused; the message is the switch's."""


@dataclass
class Editor:
    """One session's place in the configuration: mode, and the interface or VLAN it stands in."""

    kind: Kind
    settings: Settings
    mode: str = "config"
    here: str = ""
    feeds: bool = True
    """Whether its ports can feed devices."""

    actions: ClassVar[dict[tuple[Kind, str], dict[str, Action]]] = {}
    _tables: ClassVar[dict[tuple[Kind, str], Any]] = {}
    done: bool = field(default=False)

    def enter(self, line: str) -> tuple[Parsed, list[str]]:
        """Take one line; what it was, and what the switch prints. Raises RejectedError."""
        found = self._parse(self.mode, line)
        mode = self.mode
        if not isinstance(found, Match) and mode != "config":
            # A command of the level above leads back to it; the error that got further is shown.
            above = self._parse("config", line)
            if isinstance(above, Match) or _reach(above) > _reach(found):
                found, mode = above, "config"
        if not isinstance(found, Match):
            return found, []
        if mode != self.mode:
            self.mode, self.here = "config", ""
        action = self.actions[self.kind, mode][found.action]
        return found, list(action(self, found.arguments) or ())

    def _parse(self, mode: str, line: str) -> Parsed:
        key = (self.kind, mode)
        if key not in self._tables:
            self._tables[key] = patterns((text, text) for text in self.actions[key])
        return parse(line, self._tables[key])

    # --- what lines do --------------------------------------------------------------------------

    @property
    def bundle_prefix(self) -> str:
        return "Port-channel" if self.kind == "ios" else "Port-Channel"

    def place(self, mode: str, here: str) -> None:
        self.mode, self.here = mode, here

    def set(self, **values: Any) -> None:
        """Set attributes of the interface at hand; an IOS bundle hands them on to its members."""
        for name, value in values.items():
            setattr(self.settings.interfaces[self.here], name, value)
            if self.kind == "ios" and name in BUNDLED:
                for port in self._members(self.here):
                    setattr(port, name, value)

    def _members(self, bundle: str) -> Iterator[Interface]:
        number = bundle.removeprefix(self.bundle_prefix)
        for port in self.settings.interfaces.values():
            if number != bundle and str(port.group) == number:
                yield port

    def interface(self, name: str) -> None:
        name = self._existing(name)
        if name not in self.settings.interfaces:
            fresh = Interface(mode="dynamic auto" if self.kind == "ios" else "access")
            self.settings.interfaces[name] = fresh
        self.place("config-if", name)

    def _existing(self, name: str) -> str:
        """The interface's full name; bundles and VLAN interfaces come into being when named."""
        kind = name.rstrip("0123456789/")
        number = name[len(kind) :]
        known = {item.rstrip("0123456789/") for item in self.settings.interfaces}
        kinds = [
            item
            for item in sorted({*known, self.bundle_prefix, "Vlan"})
            if item.lower().startswith(kind.lower())
        ]
        if not kinds:
            raise KeyError(name)
        full = f"{kinds[0]}{number}"
        if full not in self.settings.interfaces and kinds[0] not in (self.bundle_prefix, "Vlan"):
            raise KeyError(name)
        return full

    def remove_interface(self, name: str) -> None:
        full = self._existing(name)
        if not full.startswith((self.bundle_prefix, "Vlan")):
            raise RejectedError("% Removal of physical interfaces is not permitted")
        for port in self._members(full):
            port.group = None
        self.settings.interfaces.pop(full, None)

    def make_vlans(self, text: str) -> None:
        vlans = sorted(numbers(text))
        if any(vlan in range(1002, 1006) for vlan in vlans):
            raise RejectedError("% Default VLAN may not be changed.")
        for vlan in vlans:
            if vlan != 1:
                self.settings.vlans.setdefault(vlan, f"VLAN{vlan:04}")
        self.place("config-vlan", text)

    def remove_vlans(self, text: str) -> None:
        vlans = numbers(text)
        if 1 in vlans:
            raise RejectedError("%Default VLAN 1 may not be deleted.")
        for vlan in vlans:
            self.settings.vlans.pop(vlan, None)

    def name_vlan(self, name: str) -> None:
        (vlan, *more) = sorted(numbers(self.here))
        if more or vlan == 1:
            raise RejectedError("% Name command is not allowed here.")
        other = [number for number, taken in self.settings.vlans.items() if taken == name]
        if self.kind == "ios" and other and other != [vlan]:
            raise RejectedError(f"%VLAN #{other[0]} and #{vlan} have an identical name: {name}")
        self.settings.vlans[vlan] = name

    def unname_vlan(self) -> None:
        for vlan in numbers(self.here):
            self.settings.vlans[vlan] = f"VLAN{vlan:04}"

    def access_vlan(self, vlan: int) -> Iterator[str]:
        self.set(access_vlan=vlan)
        if self.kind == "ios" and vlan != 1 and vlan not in self.settings.vlans:
            self.settings.vlans[vlan] = f"VLAN{vlan:04}"
            yield f"% Access VLAN does not exist. Creating vlan {vlan}"

    def allow(self, how: str, text: str = "") -> None:
        vlans = numbers(text) if text else frozenset()
        now = self.settings.interfaces[self.here].allowed
        new = {
            "set": vlans,
            "add": now | vlans,
            "remove": now - vlans,
            "except": ALL_VLANS - vlans,
            "all": ALL_VLANS,
            "none": frozenset(),
        }[how]
        self.set(allowed=new)

    def join(self, group: int) -> Iterator[str]:
        bundle = f"{self.bundle_prefix}{group}"
        port = self.settings.interfaces[self.here]
        if bundle not in self.settings.interfaces:
            # A new bundle is like the first port that joins it.
            made = Interface(mode="access" if self.kind == "eos" else port.mode)
            if self.kind == "ios":
                for name in BUNDLED:
                    setattr(made, name, getattr(port, name))
                yield f"Creating a port-channel interface {self.bundle_prefix} {group}"
                yield ""
            self.settings.interfaces[bundle] = made
        port.group = group

    def portfast(self) -> Iterator[str]:
        self.set(portfast=True)
        if self.kind == "ios":
            yield "%Warning: portfast should only be enabled on ports connected to a single"
            yield " host. Connecting hubs, concentrators, switches, bridges, etc... to this"
            yield " interface  when portfast is enabled, can cause temporary bridging loops."
            yield " Use with CAUTION"
            yield ""
            yield f"%Portfast has been configured on {self.here} but will only"
            yield " have effect when the interface is in a non-trunking mode."

    def keep(self, line: str, drop: str = "") -> None:
        """A line without effect here: it takes the place of those that begin with `drop`."""
        port = self.settings.interfaces[self.here]
        stay = [item for item in port.other if not (drop and item.startswith(drop))]
        self.set(other=tuple(item for item in stay if item != line) + ((line,) if line else ()))

    def poe(self, line: str) -> None:
        """EOS knows the command on every switch, and takes it on those that have the hardware."""
        if not self.feeds:
            raise RejectedError(UNAVAILABLE)
        self.keep(line, "poe disabled")

    def entry(self, text: str, add: bool) -> None:
        entries = list(self.settings.access_lists[self.here])
        if add and text not in entries:
            entries.append(text)
        elif not add and text in entries:
            entries.remove(text)
        self.settings.access_lists[self.here] = tuple(entries)


def numbers(text: str) -> frozenset[int]:
    """VLANs of a list that the grammar let through."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def _reach(found: Parsed) -> int:
    """How far the switch understood a line before it gave up."""
    match found:
        case Invalid(token=token) | Ambiguous(token=token):
            return token
        case Incomplete():
            return 100
        case _:
            return 1000
