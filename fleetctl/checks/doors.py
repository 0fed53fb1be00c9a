"""A phone has two doors, ssh and adb: one that is shut is no phone that is down."""

from __future__ import annotations

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
            seen = set()
            for link in await server.links():
                if link.state == "device":
                    said = await server.phone(link.name).shell(
                        "getprop ro.serialno", limit_seconds=LIMIT_SECONDS
                    )
                    seen.add(said.stdout.strip() or link.name)
    except adb.AdbError:
        return {}
    return {name: serial in seen for name, serial in serials.items()}


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
