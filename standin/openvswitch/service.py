"""The daemon's service that plays the command lines of switches: each in its own namespace, over
ssh at the address that the rack file gives it.

When the daemon ends, its switches are without power; what they forwarded they forward on.
"""

from __future__ import annotations

import asyncio

from standin.daemon.desk import Desk


async def run(desk: Desk) -> None:
    """Play them until cancelled. A rack without such switches needs nobody."""
    rig = desk.rig
    if rig.ovs is None or not rig.ovs.managed:
        return
    # Only here: no other daemon needs an ssh server.
    from standin.openvswitch.played import Played

    changed = asyncio.Event()
    desk.on_change.append(changed.set)
    try:
        while True:
            played = await asyncio.to_thread(Played, rig, rig.ovs)
            desk.orders["switches"] = played.order
            try:
                # Namespaces that were made anew have new switches in them.
                while played.stands():
                    await asyncio.to_thread(played.look_again)
                    await changed.wait()
                    changed.clear()
            finally:
                await asyncio.to_thread(played.stop)
    finally:
        desk.on_change.remove(changed.set)
        desk.orders.pop("switches", None)
