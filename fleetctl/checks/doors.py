"""A phone has two doors, ssh and adb: one that is shut is no phone that is down."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping

from fleetctl.rack import RackPaths
from fleetctl.remote import adb
from fleetctl.state import PhoneFacts

LIMIT_SECONDS = 5.0


async def over_adb(paths: RackPaths, serials: Mapping[str, str]) -> dict[str, bool]:
    """Which phones (name -> serial) answer over adb; empty where adb cannot be used here."""
    if not serials or shutil.which("adb") is None:
        return {}
    try:
        async with adb.session(paths) as server:
            links = [link.name for link in await server.links() if link.state == "device"]
            seen = set(await asyncio.gather(*(_serial(server.phone(link)) for link in links)))
    except adb.AdbError:
        return {}
    return {name: serial in seen for name, serial in serials.items()}


async def _serial(phone: adb.AdbPhone) -> str | None:
    """The serial of a phone that answers; one that hangs is silent, whatever adb lists it as."""
    try:
        said = await phone.shell("getprop ro.serialno", limit_seconds=LIMIT_SECONDS)
    except adb.AdbLost:
        return None
    return said.stdout.strip() or phone.link


def worth_noting(answers: Mapping[str, bool], known: Mapping[str, PhoneFacts]) -> dict[str, bool]:
    """Silence says something only of a phone that adb has reached since ssh does not: the cable
    that carries Ethernet carries no adb, and adb over the network is closed after enrolment."""
    return {
        name: answered
        for name, answered in answers.items()
        if answered or _seen_in_this_absence(known.get(name, PhoneFacts()))
    }


def _seen_in_this_absence(facts: PhoneFacts) -> bool:
    since = facts.contact.missed_since
    return facts.adb is not None and since is not None and facts.adb.time >= since
