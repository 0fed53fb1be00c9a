"""Measure the rack's network: pairs of phones alone and at the same time, and the MTU."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.bench.links import Flow, Pair, payload_bytes
from fleetctl.remote.fleet import Result

if TYPE_CHECKING:
    from fleetctl.rack import Rack
    from fleetctl.remote import Fleet

_PORT = 5201
_SPARE_SECONDS = 30
"""Beyond the time of the measurement itself: phones are busy, and logins take a moment."""

_MTU_PROBE = Path(__file__).with_name("mtu_probe.py")
_MTU_SECONDS = 20

_MTU_WORDS = {
    "small": "packets of {mtu} bytes are lost on the way; smaller ones arrive",
    "local": "the phone's own MTU is below {mtu} bytes",
    "silent": None,
}
"""What is wrong; `silent` tells nothing: a firewall keeps the answers back."""


@dataclass
class Network:
    """The phones of one rack, over their kept connections."""

    rack: Rack
    fleet: Fleet
    say: Callable[[str], None] = lambda _: None

    async def alone(self, pairs: Sequence[Pair], seconds: float) -> list[Flow]:
        """Each pair by itself, one after the other."""
        flows = []
        for pair in pairs:
            self.say(f"{pair} alone")
            flows.append(await self._flow(pair, seconds))
        return flows

    async def together(self, pairs: Sequence[Pair], seconds: float) -> list[Flow]:
        """All pairs at the same time. Each phone may be in one of them only."""
        self.say(f"{len(pairs)} pairs at the same time")
        return list(await asyncio.gather(*(self._flow(pair, seconds) for pair in pairs)))

    async def _flow(self, pair: Pair, seconds: float) -> Flow:
        """iperf3 of one pair. The server listens on the phone's own address, for one client, and
        not for ever."""
        address = self.rack.phones[pair.receiver].address
        limit = seconds + _SPARE_SECONDS
        server = asyncio.create_task(
            self.fleet.run_on(
                pair.receiver,
                f"timeout {limit:.0f} iperf3 --server --one-off --bind {address} --port {_PORT}",
                timeout_seconds=limit + 10,
            )
        )
        call = f"iperf3 --client {address} --port {_PORT} --time {seconds:g} --json"
        # The server may need a moment.
        client = f"for _ in 1 2 3 4 5 6 7 8; do out=$({call}) && break; sleep 0.5; done"
        client += '; echo "$out"'
        try:
            told = await self.fleet.run_on(
                pair.sender, shlex.join(["sh", "-c", client]), timeout_seconds=limit + 10
            )
            if not told.ok:
                return Flow(pair, None, problem=told.failure(pair.sender))
            return read_report(pair, told, server.result() if server.done() else None)
        finally:
            if not server.done():
                server.cancel()
            await asyncio.gather(server, return_exceptions=True)

    async def mtu(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """Pairs between which packets of the rack's MTU do not pass, with what is wrong."""
        code = _MTU_PROBE.read_text()
        mtu = self.rack.network.mtu

        async def one(pair: Pair) -> tuple[Pair, str | None]:
            words = [self.rack.phones[pair.receiver].address, str(payload_bytes(mtu))]
            told = await self.fleet.run_on(
                pair.sender,
                shlex.join(["python", "-", *words]),
                timeout_seconds=_MTU_SECONDS,
                stdin=code,
            )
            if not told.ok:
                return pair, told.failure(pair.sender)
            said = _MTU_WORDS.get(told.stdout.strip())
            return pair, said.format(mtu=mtu) if said else None

        found = await asyncio.gather(*(one(pair) for pair in pairs))
        return {pair: problem for pair, problem in found if problem}


def read_report(pair: Pair, told: Result, server: Result | None = None) -> Flow:
    """A flow from what iperf3's client printed."""
    try:
        report = json.loads(told.stdout)
    except ValueError:
        return Flow(pair, None, problem=f"{pair.sender}: iperf3 printed no report")
    if "error" in report:
        reason = str(report["error"])
        if server is not None and not server.ok:
            reason = f"{reason}; {server.failure(pair.receiver)}"
        return Flow(pair, None, problem=f"{pair}: {reason}")
    end = report["end"]
    bits = float(end["sum_received"]["bits_per_second"])
    return Flow(pair, bits / 1e6, end["sum_sent"].get("retransmits"))
