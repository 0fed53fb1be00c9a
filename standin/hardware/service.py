"""The daemon's service that plays the hardware: once a second, and when somebody sets something."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from standin import engine
from standin.daemon.desk import Desk, Document
from standin.hardware.cgroups import Groups
from standin.hardware.plant import Plant
from standin.hardware.settings import parse_setting

PERIOD_SECONDS = 1.0
PHONES_A_PERIOD = 16
"""A larger rack is played less often, so that it costs no more."""

LONGEST_TICK_SECONDS = 60.0
CHUNK_SECONDS = 600.0

log = logging.getLogger(__name__)


async def run(desk: Desk) -> None:
    """Play the rack's hardware until cancelled."""
    service = Service(Plant(desk.rig), desk.groups)
    desk.orders |= {
        "hardware": service.hardware,
        "hardware-step": service.step,
        "hub": service.hub,
    }
    await service.play()


class Service:
    """Time and orders for a plant; one of them at once."""

    def __init__(self, plant: Plant, groups: Groups) -> None:
        self.plant = plant
        self._groups = groups
        self._turn = asyncio.Lock()

    async def play(self) -> None:
        period = PERIOD_SECONDS * max(1.0, len(self.plant.states) / PHONES_A_PERIOD)
        last = time.monotonic()
        while True:
            async with self._turn:
                self.plant.groups = await self._groups.find()
                now = time.monotonic()
                ending = self.plant.tick(min(now - last, LONGEST_TICK_SECONDS))
                last = now
            await self._switch_off(ending)
            await asyncio.sleep(period)

    async def _switch_off(self, names: list[str]) -> None:
        for name in names:
            why = "too hot" if self.plant.states[name].heat.status else "battery empty"
            log.info("%s switches off: %s", name, why)
            await asyncio.to_thread(engine.kill, self.plant.rig.container_name(name))

    async def hardware(self, arguments: Mapping[str, Any]) -> Document:
        """Set what `set` holds on the phones `phones`, the rack's `pace`; answer how they are."""
        changes = [parse_setting(text) for text in arguments.get("set", ())]
        async with self._turn:
            if (pace := arguments.get("pace")) is not None:
                self.plant.set_pace(pace)
            for change in changes:
                self.plant.change(arguments["phones"], change)
            self.plant.refresh()
            return self._described(arguments["phones"])

    async def step(self, arguments: Mapping[str, Any]) -> Document:
        """Go forward by `seconds` of model time under `load`; answer how `phones` are then."""
        left: float = arguments["seconds"]
        async with self._turn:
            ending: set[str] = set()
            while left > 0:
                ending |= set(self.plant.step(min(CHUNK_SECONDS, left), arguments.get("load")))
                left -= CHUNK_SECONDS
                await asyncio.sleep(0)
            answer = self._described(arguments["phones"])
        await self._switch_off(sorted(ending))
        return answer

    async def hub(self, arguments: Mapping[str, Any]) -> Document:
        """Switch the outlets of `phones` on or off (`on`; None only looks)."""
        async with self._turn:
            found = self.plant.switch(arguments["phones"], arguments.get("on"))
            self.plant.refresh()
        return {
            "outlets": [
                {"outlet": outlet, "state": "on" if is_on else "off", "phones": phones}
                for outlet, (is_on, phones) in found.items()
            ]
        }

    def _described(self, names: list[str]) -> Document:
        return {
            "pace": self.plant.hub.pace,
            "phones": [self.plant.describe(name) for name in names],
        }
