"""The SNMP agent of a stand-in switch: v2c, read only, for whom its configuration lets ask."""

from __future__ import annotations

import asyncio
import bisect
from typing import Any

from pyasn1.codec.ber import decoder, encoder
from pyasn1.error import PyAsn1Error
from pysnmp.proto import api, rfc1905

from standin.switches.device import Device
from standin.switches.mibs import Object, Oid, objects

_LOOK_SECONDS = 0.2
_V2C = 1
_MOST_BYTES = 1400
"""One packet; a switch leaves out rows that would not fit."""


class SnmpAgent(asyncio.DatagramProtocol):
    """Answers on one socket for one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._protocol = api.PROTOCOL_MODULES[_V2C]
        self._transport: Any = None
        self._looked = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.device.on_tick.append(self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.device.on_tick.remove(self._look)

    def _look(self) -> None:
        """A switch notices each carrier that goes, whether anybody asks or not."""
        now = asyncio.get_running_loop().time()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self.device.look_at_links()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        device = self.device
        if device.down or device.frozen or not device.plane.manageable():
            return
        try:
            answer = self._answer(data, addr[0])
        except (PyAsn1Error, ValueError):
            return  # no SNMP
        if answer is None:
            return
        if device.knobs.latency_seconds:
            loop = asyncio.get_running_loop()
            loop.call_later(device.knobs.latency_seconds, self._transport.sendto, answer, addr)
        else:
            self._transport.sendto(answer, addr)

    def _answer(self, data: bytes, source: str) -> bytes | None:
        if int(api.decodeMessageVersion(data)) != _V2C:
            return None
        message, _ = decoder.decode(data, asn1Spec=self._protocol.Message())
        said = bytes(self._protocol.apiMessage.get_community(message)).decode("latin-1")
        community, _, vlan = said.partition("@")
        vlan_number = int(vlan) if vlan.isdigit() else None
        if not self._lets(community, source) or not self._knows(vlan, vlan_number):
            return None
        request = self._protocol.apiMessage.get_pdu(message)
        reply = self._protocol.apiMessage.get_response(message)
        uptime = self.device.uptime_seconds
        everything = objects(self.device, uptime, vlan_number)
        self._protocol.apiPDU.set_varbinds(
            self._protocol.apiMessage.get_pdu(reply), self._pairs(request, everything)
        )
        answer: bytes = encoder.encode(reply)
        return answer

    def _lets(self, community: str, source: str) -> bool:
        """A list that does not exist keeps nobody out."""
        settings = self.device.running
        rights = settings.snmp_communities.get(community)
        if rights is None:
            return False
        _, _, name = rights.partition(" ")
        allowed = settings.access_lists.get(name)
        return allowed is None or f"permit {source}" in allowed

    def _knows(self, vlan: str, number: int | None) -> bool:
        if not vlan:
            return True
        known = {1, *self.device.running.vlans}
        return self.device.kind == "ios" and number in known

    def _pairs(self, request: Any, everything: list[Object]) -> list[tuple[Any, Any]]:
        names = [tuple(name) for name, _ in self._protocol.apiPDU.get_varbinds(request)]
        if request.isSameTypeWith(self._protocol.GetRequestPDU()):
            values = dict(everything)
            return [(name, values.get(name, rfc1905.noSuchInstance)) for name in names]
        if request.isSameTypeWith(self._protocol.GetNextRequestPDU()):
            return [_next(everything, name) for name in names]
        if request.isSameTypeWith(self._protocol.GetBulkRequestPDU()):
            bulk = self._protocol.apiBulkPDU
            return _bulk(
                everything,
                names,
                int(bulk.get_non_repeaters(request)),
                int(bulk.get_max_repetitions(request)),
            )
        raise ValueError("only reading is answered")


def _next(everything: list[Object], name: Oid) -> tuple[Oid, Any]:
    place = bisect.bisect_right(everything, name, key=lambda item: item[0])
    return everything[place] if place < len(everything) else (name, rfc1905.endOfMibView)


def _bulk(
    everything: list[Object], names: list[Oid], single: int, repetitions: int
) -> list[tuple[Any, Any]]:
    pairs = [_next(everything, name) for name in names[:single]]
    rest, size = names[single:], 0
    for _ in range(repetitions):
        row = [_next(everything, name) for name in rest]
        size += sum(len(encoder.encode(value)) + 2 * len(name) for name, value in row)
        if pairs and size > _MOST_BYTES:
            break
        pairs += row
        rest = [name for name, _ in row]
        if all(value is rfc1905.endOfMibView for _, value in row):
            break
    return pairs
