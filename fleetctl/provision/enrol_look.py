"""Which phones an enrolment begins with, and what is told of each on its way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from fleetctl.provision import enrol_facts
from fleetctl.provision.enrol_facts import Found
from fleetctl.rack import InputError
from fleetctl.remote.adb import Adb, AdbLost, Link

STEADY_SECONDS = 2.0
_POLL_SECONDS = 0.5

type Step = Literal["look", "settings", "apps", "key", "ssh", "network", "done"]
type End = Literal["enrolled", "known", "refused", "needs-hands", "failed"]

LINK_CURES = {
    "unauthorized": "unlock its screen and accept its dialog about USB debugging (tick `always`)",
    "offline": "adb gets no answer: plug it in again",
    "no permissions": "this user may not open the USB device: install "
    "android-sdk-platform-tools-common, or run as root",
    "other": "adb cannot use it as it is: look at its screen",
}


@dataclass(slots=True)
class Report:
    """One phone's way through enrolment. `remarks`: what did not work and was not needed;
    `address`: where it was met in the rack's network, if it was."""

    link: str
    serial: str
    name: str | None = None
    model: str = ""
    step: Step = "look"
    note: str = ""
    end: End | None = None
    reason: str = ""
    address: str | None = None
    remarks: list[str] = field(default_factory=list)


type Watch = Callable[[Sequence[Report]], None]


async def settled(adb: Adb, wait_seconds: float, watch: Watch) -> list[Link]:
    """The phones that adb sees, once no dialog of theirs waits for a person, or time is over.

    Its server has just started: phones come to it one after the other, so that those which it sees
    have to stay the same for a moment.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_seconds
    links, since = await adb.links(), clock()
    while True:
        asking = [link for link in links if link.state in ("unauthorized", "offline")]
        steady = clock() - since >= STEADY_SECONDS
        if steady and (not asking or clock() >= deadline):
            return links
        if asking:
            watch([Report(link.name, link.name, note=LINK_CURES[link.state]) for link in asking])
        await asyncio.sleep(_POLL_SECONDS)
        now = await adb.links()
        if {link.name for link in now} != {link.name for link in links}:
            since = clock()
        links = now


async def look(
    adb: Adb, links: Sequence[Link], serials: Sequence[str]
) -> tuple[list[Report], dict[str, Found]]:
    """A report for each phone that adb sees, and the facts of those that answer."""
    reports = [Report(link.name, link.name) for link in links]
    found: dict[str, Found] = {}
    names = Counter(link.name for link in links)

    async def one(link: Link, report: Report) -> None:
        if link.state != "device":
            report.end, report.reason = "needs-hands", f"{link.state}: {LINK_CURES[link.state]}"
            return
        if names[link.name] > 1:
            return
        try:
            facts = await enrol_facts.ask(adb.phone(link.name))
        except AdbLost as problem:
            report.end, report.reason = "failed", str(problem)
            return
        report.serial, report.model = facts.serial, facts.model
        found[link.name] = facts

    await asyncio.gather(*map(one, links, reports))
    _refuse_shared(links, reports)
    ordered = _without_doubles(reports)
    if serials:
        seen = {report.serial for report in ordered} | {report.link for report in ordered}
        if missing := [serial for serial in serials if serial not in seen]:
            raise InputError(
                f"adb does not see {', '.join(missing)}: plug it into this machine, switch USB "
                "debugging on, and look at `adb devices`"
            )
        ordered = [
            report for report in ordered if report.serial in serials or report.link in serials
        ]
    return ordered, found


def _refuse_shared(links: Iterable[Link], reports: Iterable[Report]) -> None:
    """Refuse phones that share a serial: a phone is on USB once, so these are several."""
    on_usb: dict[str, list[Report]] = {}
    for link, report in zip(links, reports, strict=True):
        if link.place:
            on_usb.setdefault(report.serial, []).append(report)
    for serial, several in on_usb.items():
        for report in several if len(several) > 1 else ():
            report.end = "refused"
            report.reason = (
                f"{len(several)} phones on USB bear the serial {serial}, by which a rack knows a "
                "phone: keep one of them, and leave the others out"
            )


def _without_doubles(reports: Iterable[Report]) -> list[Report]:
    """One report a phone, though adb may reach one by USB and by the network."""
    ordered: list[Report] = []
    for report in reports:
        if report.end == "refused" or report.serial not in {one.serial for one in ordered}:
            ordered.append(report)
    return ordered
