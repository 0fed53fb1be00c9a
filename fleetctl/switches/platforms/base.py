"""What a platform must know. One file a platform; `docs/switches.md` tells how to add one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface
from typing import TYPE_CHECKING, ClassVar

from fleetctl.switches.config import Config
from fleetctl.switches.intent import Cut, SwitchIntent

if TYPE_CHECKING:
    from hier_config.platforms.driver_base import HConfigDriverBase

    from fleetctl.switches.guards import Guard
    from fleetctl.switches.session import Session


@dataclass(frozen=True, slots=True)
class Running:
    """What a switch says that it does.

    `config` is the part that phonerack owns, in normal form, and `interfaces` are all that the
    switch has. `other_vlans` are carried by ports that are not ours; `own_addresses` are the
    VLANs in which the switch itself has an interface, with its address. `lacking` are lines
    without which a change can be neither armed nor read back.
    """

    hostname: str
    config: Config
    interfaces: frozenset[str]
    other_vlans: frozenset[int]
    other_bundles: frozenset[int]
    own_addresses: Mapping[int, IPv4Interface | None]
    lacking: tuple[str, ...] = ()


class Platform(ABC):
    """A kind of switch. Everything here is pure: text in, values out."""

    name: ClassVar[str]

    configurable: ClassVar[bool] = True
    """Whether phonerack may log in on it at all."""

    vlan_names_are_unique: ClassVar[bool] = False
    """Whether two VLANs may not bear one name, not even for a moment."""

    error_pattern: ClassVar[str] = r"^%.*$"
    """Matches a line, and only a line, that rejects what was typed."""

    save: ClassVar[str] = "write memory"
    saved: ClassVar[str] = ""
    """What the switch says once it has saved."""

    power: ClassVar[str] = ""
    """The command that shows how its ports feed devices (PoE), if that is known."""

    def cut_lines(self, how: Cut) -> tuple[str, ...]:
        """What is typed at a port to cut it off; `no` before each gives the port back."""
        del how
        return ("shutdown",)

    def keep(self, session: Session, seconds: float) -> None:
        """Save the configuration. Raises SwitchError where the switch does not say that it did."""
        from fleetctl.switches.errors import SwitchError

        printed = session.converse(
            self.save, [(r"\[confirm\]", ""), (r"Destination filename", "")], seconds
        )
        if self.saved not in printed:
            what = f"it did not say that it saved: {printed.strip()[-200:]}"
            raise SwitchError(session.target.switch, what, "save by hand")

    def guards(self) -> tuple[Guard, ...]:
        """Ways in which the switch takes a change back by itself, the best first.

        The last one must work on a switch that lacks everything.
        """
        return ()

    @abstractmethod
    def interfaces(self, ports: int) -> tuple[str, ...]:
        """Usual names of the ports 1 to `ports`."""

    @abstractmethod
    def long_name(self, interface: str) -> str:
        """`Gi1/0/1` and the like as the configuration writes it."""

    @abstractmethod
    def intended(self, intent: SwitchIntent) -> Config:
        """The configuration that fulfils `intent`, in normal form."""

    @abstractmethod
    def read(self, text: str, intent: SwitchIntent) -> Running:
        """A running configuration, secrets concealed. Raises UnreadableError."""

    def completed(self, backup: Config, running: Config) -> Config:
        """A backup with what it could not tell, taken from what runs now."""
        del running
        return backup

    @abstractmethod
    def driver(self) -> HConfigDriverBase:
        """For the tree diff: which commands replace each other, and how they are negated."""

    @abstractmethod
    def weight(self, line: str) -> int:
        """Place of a command among those of one interface; the lowest comes first."""
