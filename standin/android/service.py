"""The daemon's service `android`: all handsets of a rack, and the orders of hands to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fleetctl.rack.files import write_atomic
from standin.android.handset import Handset
from standin.daemon.desk import Desk, Document
from standin.errors import StandinError
from standin.rig import Rig


async def run(desk: Desk) -> None:
    """Play the Android of all phones, until cancelled."""
    rig = desk.rig
    handsets: dict[str, Handset] = {}
    for name in rig.rack.phones:
        handsets[name] = Handset(
            name, rig.folders.hardware(name), lambda: _tell_ports(rig, handsets)
        )

    async def plug(handset: Handset, arguments: Mapping[str, Any]) -> None:
        await handset.plug(arguments["usb"])
        await asyncio.to_thread(rig.set_carrier, handset.name)

    async def unlock(handset: Handset, _: Mapping[str, Any]) -> None:
        handset.unlock()

    async def lock(handset: Handset, arguments: Mapping[str, Any]) -> None:
        handset.lock(pin=arguments["pin"])

    async def unguard(handset: Handset, _: Mapping[str, Any]) -> None:
        handset.unguard()

    async def authorize(handset: Handset, _: Mapping[str, Any]) -> None:
        handset.authorize()

    try:
        for handset in handsets.values():
            await handset.open()
        _tell_ports(rig, handsets)
        for work in (plug, unlock, lock, unguard, authorize):
            desk.orders[work.__name__] = _on_each(handsets, work)
        await asyncio.Event().wait()
    finally:
        for handset in handsets.values():
            await handset.close()


def _on_each(
    handsets: Mapping[str, Handset], work: Callable[[Handset, Mapping[str, Any]], Awaitable[None]]
) -> Callable[[Mapping[str, Any]], Awaitable[Document]]:
    """An order for the phones that it names; its answer has what went wrong, by phone."""

    async def obey(arguments: Mapping[str, Any]) -> Document:
        problems = {}
        for name in arguments["phones"]:
            try:
                await work(handsets[name], arguments)
            except StandinError as problem:
                problems[name] = str(problem)
        return {"problems": problems}

    return obey


def _tell_ports(rig: Rig, handsets: Mapping[str, Handset]) -> None:
    """Write where the controller's adb finds the phones that are on its USB."""
    path = rig.paths.adb_endpoints
    if not rig.folders.record.exists():
        return
    lines = [f"127.0.0.1:{one.adb.usb_port}\n" for one in handsets.values() if one.adb.on_usb]
    text = "".join(lines)
    if text or path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            write_atomic(path, text, mode=0o600)
