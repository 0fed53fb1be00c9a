"""From what a switch does to what it shall do: the fewest commands, in a safe order.

hier_config finds the differences. What it does not know is added here: lists of VLANs change by
adding and removing, so that traffic of a VLAN that stays never stops; new VLANs come first and old
ones go last; uplinks change after everything else, because a mistake there costs the most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from hier_config.root import HConfig

from fleetctl.switches.config import Config, to_text
from fleetctl.switches.errors import RefusedError
from fleetctl.switches.intent import SwitchIntent
from fleetctl.switches.platforms.base import Platform, Running
from fleetctl.switches.vlans import ALL, chunked_vlans, fold_vlans, parse_vlans

ALLOWED = "switchport trunk allowed vlan"

_LINE_CHARS = 200
"""A list of VLANs longer than this is sent in parts: IOS takes lines of 254 characters."""


@dataclass(frozen=True, slots=True)
class Step:
    """Commands that belong to one place; `header` leads there, and is empty at the top level."""

    header: str
    lines: tuple[str, ...]
    place: str
    """For people: `port 3 (GigabitEthernet1/0/3, phone003)`."""

    is_uplink: bool = False
    is_phone: bool = False
    """Whether it concerns the port of one phone, and nobody behind it."""


@dataclass(frozen=True)
class Change:
    """What brings one switch to its intended configuration, secrets as markers."""

    switch: str
    before: Config
    after: Config
    steps: tuple[Step, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines in the order in which they are sent."""
        return tuple(command for _, command in self.numbered())

    def numbered(self) -> Iterator[tuple[Step, str]]:
        """Each command line with its step; `exit` leads from a section back to the top level."""
        inside = False
        for step in self.steps:
            if inside and not step.header:
                yield step, "exit"
            if step.header:
                yield step, step.header
            yield from ((step, line) for line in step.lines)
            inside = bool(step.header)

    @property
    def changes_uplinks(self) -> bool:
        return any(step.is_uplink for step in self.steps)

    @property
    def may_cut_off_others(self) -> bool:
        """Whether phones of other switches may be cut off by it as well.

        Not only uplinks do that: a VLAN that goes, or a port that the rack file no longer calls
        an uplink while its cable still leads to the next switch.
        """
        return not all(step.is_phone for step in self.steps)

    def part(self, uplinks: bool) -> Iterator[tuple[Step, str]]:
        """The lines up to the first uplink, or those from there on."""
        seen = False
        for step, line in self.numbered():
            seen = seen or step.is_uplink
            if seen == uplinks:
                yield step, line

    def closed_uplinks(self) -> list[str]:
        """The lines from the first uplink on, an `exit` before each section.

        Typed ahead, a section that is refused must not hand its lines to the one before.
        """
        before = list(self.part(uplinks=False))
        inside, lines = bool(before and before[-1][0].header), []
        for step, line in self.part(uplinks=True):
            if line == step.header and inside:
                lines.append("exit")
            lines.append(line)
            inside = bool(step.header)
        return lines

    def diff_texts(self) -> tuple[str, str]:
        """Configuration before and after, as text to compare."""
        return to_text(self.before), to_text(self.after)


def plan_change(
    platform: Platform,
    intent: SwitchIntent,
    running: Running,
    after: Config | None = None,
    restored_from: Path | None = None,
) -> Change:
    """What to send to fulfil `intent`, or to reach the configuration `after`.

    Raises RefusedError if the rack file does not fit the switch, nor the backup `restored_from`;
    an `after` that is none ran a moment ago, and fits.
    """
    if after is None:
        _refuse_what_does_not_fit(intent, running)
        after = wanted(platform, intent, running)
    else:
        after = with_vlans_of_others(platform.completed(after, running.config), running)
        if restored_from:
            _refuse_a_backup_that_does_not_fit(intent, running, after, restored_from)
    steps = list(_steps(platform, intent, running.config, after))
    steps.sort(key=lambda step: _order(step, intent))
    if platform.vlan_names_are_unique:
        steps = [*_freed_names(intent, running.config, after), *steps]
    return Change(intent.switch, running.config, after, tuple(steps))


def wanted(platform: Platform, intent: SwitchIntent, running: Running) -> Config:
    """The intended configuration, with the VLANs that other parts of the switch need."""
    return with_vlans_of_others(platform.intended(intent), running)


def with_vlans_of_others(config: Config, running: Running) -> Config:
    """`config`, and the VLANs that ports which are not ours and the switch's addresses use."""
    after = dict(config)
    for vlan in running.other_vlans | set(running.own_addresses):
        section = f"vlan {vlan}"
        if section in running.config:
            after.setdefault(section, running.config[section])
    return after


def _refuse_what_does_not_fit(intent: SwitchIntent, running: Running) -> None:
    _refuse_ports_that_are_not_there(intent, running)
    _refuse_bundles_of_others(intent, running, {bundle.number for bundle in intent.bundles})
    for vlan, address in running.own_addresses.items():
        carried = vlan in intent.vlans or vlan in running.other_vlans
        if address and address.ip == IPv4Address(intent.address or 0) and not carried:
            raise RefusedError(
                intent.switch,
                f"its address {intent.address} is in VLAN {vlan}, which no port would carry",
                f"add {vlan} to `vlans:` of the network in the rack file",
            )


def _refuse_a_backup_that_does_not_fit(
    intent: SwitchIntent, running: Running, after: Config, file: Path
) -> None:
    _refuse_ports_that_are_not_there(intent, running)
    bundles = {_number(header) for header in after if "port-channel" in header.lower()}
    _refuse_bundles_of_others(intent, running, bundles)
    carried = running.other_vlans | _carried(after)
    for vlan, address in running.own_addresses.items():
        if address and address.ip == IPv4Address(intent.address or 0) and vlan not in carried:
            raise RefusedError(
                intent.switch,
                f"its address {intent.address} is in VLAN {vlan}, which no port would carry "
                f"by the backup {file}",
                "take another, or give it an address that stays",
            )


def _refuse_ports_that_are_not_there(intent: SwitchIntent, running: Running) -> None:
    missing = [port for port in intent.ports if port.interface not in running.interfaces]
    if missing:
        first = missing[0]
        raise RefusedError(
            intent.switch,
            f"port {first.number} would be {first.interface}, which this switch does not have",
            "correct `ports:` or `interfaces:` in the rack file",
        )


def _refuse_bundles_of_others(intent: SwitchIntent, running: Running, numbers: set[int]) -> None:
    taken = numbers & running.other_bundles
    if taken:
        raise RefusedError(
            intent.switch,
            f"channel group {min(taken)} holds ports that are reserved",
            "free them from it on the switch, or take them out of `reserved:`",
        )


def _carried(config: Config) -> frozenset[int]:
    """VLANs of the ports that are not shut; members of a bundle follow it."""
    ports = {
        header: lines
        for header, lines in config.items()
        if header.startswith("interface ") and "shutdown" not in lines
    }
    bundles = {str(_bundle_of(lines)).lower() for lines in ports.values()}
    found: set[int] = set()
    for header, lines in ports.items():
        is_empty = "port-channel" in header.lower() and header.lower() not in bundles
        if is_empty or _bundle_of(lines):
            continue
        if "switchport mode trunk" in lines:
            found |= _allowed(lines)
        else:
            access = [line for line in lines if line.startswith("switchport access vlan ")]
            found.add(_number(access[0]) if access else 1)
    return frozenset(found)


def _steps(
    platform: Platform, intent: SwitchIntent, before: Config, after: Config
) -> Iterator[Step]:
    driver = platform.driver()
    old, new = _tree(HConfig(driver), before), _tree(HConfig(driver), after)
    delta = old.config_to_get_to(new)
    for section in delta.children:
        header = section.text
        lines = [child.text for child in section.children]
        if _is_section(header) and header in after:
            lines = list(_without_inherited(header, lines, before, after))
            lines = sorted(lines, key=platform.weight)
            commands = tuple(_with_list_changes(lines, before.get(header)))
            if commands or header not in before:
                yield Step(
                    *(header, commands, _place(header, intent), _is_uplink(header, intent)),
                    is_phone=_is_phone(header, intent, before.get(header, ())),
                )
        else:
            yield Step("", (header,), _place(header, intent), _is_uplink(header, intent))


def _freed_names(intent: SwitchIntent, before: Config, after: Config) -> Iterator[Step]:
    """Where a name moves from one VLAN to another, the old one gives it up first."""
    owners: dict[tuple[str, ...], str] = {}
    for vlan, lines in after.items():
        if vlan.startswith("vlan ") and lines:
            if lines in owners:
                raise RefusedError(
                    intent.switch,
                    f"{vlan} would be called {lines[0].partition(' ')[2]}, as {owners[lines]} is",
                    "call it otherwise in the rack file, or on the switch",
                )
            owners[lines] = vlan
    for vlan, lines in before.items():
        if vlan.startswith("vlan ") and owners.get(lines, vlan) != vlan:
            yield Step(vlan, ("no name",), vlan)


def _tree(root: HConfig, config: Config) -> HConfig:
    for header, lines in config.items():
        root.add_child(header).add_children(lines)
    return root


def _is_section(header: str) -> bool:
    return header.startswith(("interface ", "vlan ", "ip access-list "))


def _with_list_changes(lines: Iterable[str], running: tuple[str, ...] | None) -> Iterator[str]:
    """The lines, a new list of VLANs turned into steps from the list that is there."""
    for line in lines:
        if line.startswith(f"{ALLOWED} "):
            yield from list_change(_allowed(running or ()), parse_vlans(line[len(ALLOWED) + 1 :]))
        else:
            yield line


def list_change(before: frozenset[int], after: frozenset[int]) -> Iterator[str]:
    """Commands from one list of allowed VLANs to another; what stays in it never leaves it."""
    whole = f"{ALLOWED} {fold_vlans(after)}"
    if before == ALL and len(whole) <= _LINE_CHARS:
        yield whole
        return
    for part in chunked_vlans(after - before, _LINE_CHARS):
        yield f"{ALLOWED} add {part}"
    for part in chunked_vlans(before - after, _LINE_CHARS):
        yield f"{ALLOWED} remove {part}"


def _allowed(lines: Iterable[str]) -> frozenset[int]:
    for line in lines:
        if line.startswith(f"{ALLOWED} "):
            return parse_vlans(line[len(ALLOWED) + 1 :])
    return ALL


def _without_inherited(
    header: str, lines: list[str], before: Config, after: Config
) -> Iterator[str]:
    """Members of a bundle follow it: what they would be told, the bundle tells them already."""
    bundle = _bundle_of(before.get(header, ()))
    leader = before.get(bundle) if bundle else None
    follows = (
        leader is not None
        and bundle == _bundle_of(after[header])
        and _switching(before[header]) == _switching(leader)
        and _switching(after[header]) == _switching(after[str(bundle)])
    )
    for line in lines:
        if not (follows and line.removeprefix("no ").startswith("switchport ")):
            yield line


def _bundle_of(lines: Iterable[str]) -> str | None:
    for line in lines:
        if match := re.match(r"channel-group (\d+) ", line):
            return f"interface Port-channel{match[1]}"
    return None


def _switching(lines: Iterable[str]) -> set[str]:
    return {line for line in lines if line.startswith("switchport ")}


def _is_uplink(header: str, intent: SwitchIntent) -> bool:
    port = intent.by_interface.get(header.removeprefix("interface "))
    return "port-channel" in header.lower() or (port is not None and port.role == "uplink")


def _is_phone(header: str, intent: SwitchIntent, before: Iterable[str]) -> bool:
    port = intent.by_interface.get(header.removeprefix("interface "))
    led_on = any(line.startswith(("switchport mode trunk", "channel-group ")) for line in before)
    return port is not None and port.role == "phone" and not led_on


def _place(header: str, intent: SwitchIntent) -> str:
    port = intent.by_interface.get(header.removeprefix("interface "))
    return f"port {port.number} ({port.interface}, {port.label})" if port else header


_FIRST, _VLANS, _PORTS, _BUNDLES, _UPLINKS, _OLD_BUNDLES, _OLD_VLANS, _LAST = range(8)


def _order(step: Step, intent: SwitchIntent) -> tuple[int, int]:
    """Where a step stands in the change."""
    text = step.header or step.lines[0]
    port = intent.by_interface.get(text.removeprefix("interface "))
    if port:
        return (_UPLINKS if port.role == "uplink" else _PORTS, port.number)
    if text.startswith("no interface "):
        return (_OLD_BUNDLES, 0)
    if text.startswith("interface "):
        return (_BUNDLES, _number(text))
    if text.startswith("no vlan "):
        return (_OLD_VLANS, _number(text))
    if text.startswith("vlan "):
        return (_VLANS, _number(text))
    # A new name changes the prompt, so it comes last. An access list must stand before its use.
    rank = {"ip access-list": -1, "no ip access-list": 1}
    return (_LAST if text.startswith("hostname ") else _FIRST, rank.get(_two_words(text), 0))


def _two_words(text: str) -> str:
    words = text.split()
    return " ".join(words[: 3 if words[0] == "no" else 2])


def _number(text: str) -> int:
    match = re.search(r"(\d+)$", text)
    return int(match[1]) if match else 0
