"""What the rack file says about switches: words that it may use, and mistakes between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fleetctl.rack.document import Document
from fleetctl.rack.errors import Mistake, RackError
from fleetctl.rack.model import Bundle, Switch, SwitchLogin
from fleetctl.rack.nodesets import parse_ranges

if TYPE_CHECKING:
    from fleetctl.rack.schema import SwitchFile

_NO_ETHERNET_VLANS = range(1002, 1006)
"""IOS keeps these for Token Ring and FDDI; they can be neither made nor removed."""

_UNNAMED = ""
"""Key of uplinks that are written as plain ports."""


def vlan(value: Any) -> Any:
    if not (isinstance(value, str) and value.isascii() and value.isdigit()):
        return value
    if not 1 <= int(value) <= 4094 or int(value) in _NO_ETHERNET_VLANS:
        raise ValueError(f"VLAN {value} does not exist; choose one of 1-1001 or 1006-4094")
    return int(value)


def secret_name(value: Any) -> Any:
    """A secret stands in the vault or the environment; the rack file only tells its name."""
    if isinstance(value, str) and not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", value):
        # The value itself is not shown: it may be the secret.
        raise ValueError(
            "this is no name of a secret; write a name such as switch_password, and put the "
            "secret into the vault under it or into the environment as SWITCH_PASSWORD"
        )
    return value


def user(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{0,31}", value):
        raise ValueError(f"{value!r} is no user name; use letters, digits and . _ -")
    return value


def named_or_not(value: Any) -> Any:
    """Uplinks are plain ports, or ports by the neighbour that they lead to."""
    return {_UNNAMED: value} if isinstance(value, str | list) else value


def uplink_name(value: Any) -> Any:
    # It becomes the description of a port: a slug, as phones' names are.
    if value != _UNNAMED and not re.fullmatch(r"[a-z][a-z0-9_-]{0,19}", str(value)):
        raise ValueError(
            f"{value!r} is no name of a neighbour; use a switch's name, or up to 20 of "
            "a-z, 0-9, _ and -, a letter first"
        )
    return value


def interface_name(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[A-Z][A-Za-z-]{1,30}\d+(/\d+){0,3}", value):
        raise ValueError(
            f"{value!r} is no interface; write it in full, such as GigabitEthernet1/0/1"
        )
    return value


def build_switch(
    document: Document, name: str, file: SwitchFile
) -> tuple[Switch, tuple[Mistake, ...]]:
    """One switch, with the mistakes that concern no other switch and no phone."""
    interfaces, mistakes = _interfaces(document, name, file)
    uplinks = tuple(port for ports in file.uplinks.values() for port in ports)
    switch = Switch(
        name=name,
        platform=file.platform,
        address=str(file.address) if file.address else None,
        ports=file.ports,
        uplinks=uplinks,
        reserved=tuple(file.reserved),
        bundles=tuple(Bundle(to, tuple(ports)) for to, ports in file.uplinks.items() if to),
        interfaces=interfaces,
        login=SwitchLogin(**file.login.model_dump()),
    )
    return switch, (*mistakes, *_port_mistakes(document, switch))


def _port_mistakes(document: Document, switch: Switch) -> Iterator[Mistake]:
    here = ("switches", switch.name)
    for kind in ("uplinks", "reserved"):
        ports = getattr(switch, kind)
        for port in [port for port in ports if not 1 <= port <= switch.ports][:1]:
            yield document.mistake(
                (*here, kind),
                f"{kind} port {port} of {switch.name}, which has ports 1 to {switch.ports}",
                f"correct it, or `ports:` of {switch.name} (uplinks count too)",
            )
        for port in sorted({port for port in ports if ports.count(port) > 1}):
            yield document.mistake(
                (*here, kind), f"port {port} of {switch.name} twice", "name it once"
            )
    for port in sorted(set(switch.uplinks) & set(switch.reserved)):
        yield document.mistake(
            (*here, "reserved"),
            f"port {port} of {switch.name} is an uplink too",
            "keep one of both",
        )


def _interfaces(
    document: Document, name: str, file: SwitchFile
) -> tuple[tuple[str, ...], list[Mistake]]:
    """Names of all ports in their order, from `first-last: name of the first`."""
    names: dict[int, str] = {}
    mistakes = []
    for ports, first in file.interfaces.items():
        here = ("switches", name, "interfaces", ports)
        try:
            numbers = parse_ranges(ports)
        except RackError as problem:
            mistakes.append(document.mistake(here, str(problem).partition(";")[0], "write 1-48"))
            continue
        stem, digits = re.fullmatch(r"(.*?)(\d+)", first, re.DOTALL).groups()  # type: ignore[union-attr]
        for place, number in enumerate(numbers):
            if number in names:
                mistakes.append(document.mistake(here, f"port {number} twice", "name it once"))
            names[number] = f"{stem}{int(digits) + place}"
    if mistakes or not names:
        return (), mistakes
    whole = ("switches", name, "interfaces")
    if sorted(names) != list(range(1, file.ports + 1)):
        what = f"interfaces of {name} are not those of its ports 1 to {file.ports}"
        mistakes.append(document.mistake(whole, what, "name each port once"))
    elif len(set(names.values())) < len(names):
        what = f"two ports of {name} have the same interface"
        mistakes.append(document.mistake(whole, what, "give each its own"))
    return tuple(names[number] for number in sorted(names)), mistakes


def neighbour_mistakes(document: Document, switches: Mapping[str, Switch]) -> Iterator[Mistake]:
    """Bundles between two switches that do not match."""
    for switch in switches.values():
        for bundle in switch.bundles:
            other = switches.get(bundle.to)
            if other is None:
                continue
            here = ("switches", switch.name, "uplinks", bundle.to)
            link = f"{switch.name} leads to {other.name} with {len(bundle.ports)} ports"
            back = [mine for mine in other.bundles if mine.to == switch.name]
            if other is switch:
                yield document.mistake(here, f"{switch.name} leads to itself", "name a neighbour")
            elif not back:
                cure = f"write `uplinks: {{{switch.name}: …}}` at {other.name}"
                yield document.mistake(here, f"{link}, and {other.name} not back", cure)
            elif len(back[0].ports) != len(bundle.ports):
                what = f"{link}, and {other.name} back with {len(back[0].ports)}"
                yield document.mistake(here, what, "give both as many")
