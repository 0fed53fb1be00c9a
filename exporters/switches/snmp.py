"""Ask one switch by SNMP v2c, one column after the other: switches have slow processors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pysnmp.error import PySnmpError
from pysnmp.hlapi.v1arch.asyncio import (
    CommunityData,
    SnmpDispatcher,
    UdpTransportTarget,
    bulk_cmd,
)
from pysnmp.proto import rfc1905

from exporters.switches.settings import IOS, Switch
from exporters.switches.tables import BRIDGE, OF_IOS, OPTIONAL, REQUIRED, Oid, Tables

_ROWS = 25
"""Asked for at a time; more would not fit into one packet where rows are long."""

_TIMEOUT_SECONDS = 3.0
_RETRIES = 2
_LONGEST_COLUMN = 20_000


class NoAnswerError(Exception):
    """The switch does not answer, or not sensibly."""


@dataclass(frozen=True)
class Asker:
    """One switch and the community to ask it with; the community is in no representation."""

    dispatcher: Any
    target: Any
    community: str

    def __repr__(self) -> str:
        return "Asker()"

    async def column(self, column: Oid) -> dict[Oid, int | bytes]:
        """All values of a column by index; empty where there are none. Raises NoAnswerError."""
        found: dict[Oid, int | bytes] = {}
        last = column
        while True:
            rows = await self._after(last)
            for name, value in rows:
                if name[: len(column)] != column or isinstance(value, rfc1905.EndOfMibView):
                    return found
                if name <= last:
                    raise NoAnswerError(f"its answers do not go on after {_dots(last)}")
                last = name
                found[name[len(column) :]] = _plain(value)
            if not rows or len(found) > _LONGEST_COLUMN:
                return found

    async def _after(self, last: Oid) -> list[tuple[Oid, Any]]:
        error, status, _, pairs = await bulk_cmd(
            self.dispatcher,
            # Version 3 would need users that the rack file does not know; an access list on the
            # switch lets only the rack's own hosts ask.
            CommunityData(self.community, mpModel=1),  # noqa: S508
            self.target,
            *(0, _ROWS, (_dots(last), rfc1905.unSpecified)),
            lookupMib=False,
        )
        if error:
            raise NoAnswerError("no answer: is it up, and may this host ask with this community?")
        if int(status) == rfc1905.errorStatus.namedValues["noSuchName"]:
            return []
        if int(status):
            raise NoAnswerError(f"it answers {status.prettyPrint()} after {_dots(last)}")
        return [(tuple(name), value) for name, value in pairs]


@asynccontextmanager
async def asking(address: str, port: int, community: str) -> AsyncIterator[Asker]:
    """Something to ask with. Raises NoAnswerError."""
    dispatcher = SnmpDispatcher()
    try:
        target = await UdpTransportTarget.create(
            (address, port), timeout=_TIMEOUT_SECONDS, retries=_RETRIES
        )
        yield Asker(dispatcher, target, community)
    except PySnmpError as problem:
        # Its messages may hold whole packets, and these hold the community.
        raise NoAnswerError(f"it cannot be asked: {type(problem).__name__}") from None
    finally:
        dispatcher.transport_dispatcher.close_dispatcher()


async def read_tables(switch: Switch, community: str, port: int = 161) -> Tables:
    """All columns of a switch. Raises NoAnswerError."""
    tables: dict[str, dict[Oid, int | bytes]] = {}
    of_platform = OF_IOS if switch.platform == IOS else {}
    async with asking(switch.address, port, community) as asker:
        for name, column in (REQUIRED | OPTIONAL | of_platform).items():
            tables[name] = await asker.column(column)
            if name in REQUIRED and not tables[name]:
                raise NoAnswerError(f"it has no {name}")
    in_vlan = switch.platform == IOS and switch.vlan != 1
    bridge_community = f"{community}@{switch.vlan}" if in_vlan else community
    async with asking(switch.address, port, bridge_community) as asker:
        for name, column in BRIDGE.items():
            try:
                tables[name] = await asker.column(column)
            except NoAnswerError:
                if not in_vlan:
                    raise
                # A VLAN that the switch does not have yet; nothing else is wrong with it.
                tables |= {name: {} for name in BRIDGE}
                break
    return tables


def _plain(value: Any) -> int | bytes:
    return bytes(value) if hasattr(value, "asOctets") else int(value)


def _dots(oid: Oid) -> str:
    return ".".join(map(str, oid))
