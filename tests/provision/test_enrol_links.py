"""Which phones an enrolment begins with: adb's server sees them one after the other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.provision import enrol_look
from fleetctl.remote.adb import Link, Said


class Server:
    """Answers with one list of links after the other, and with the last one for ever."""

    def __init__(self, *looks: dict[str, str]) -> None:
        self.looks = [[parsed(name, state) for name, state in look.items()] for look in looks]

    async def links(self) -> list[Link]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def parsed(name: str, state: Any) -> Link:
    return Link(name, state, place="usb:1")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrol_look, "STEADY_SECONDS", 0.2)
    monkeypatch.setattr(enrol_look, "_POLL_SECONDS", 0.02)


def begun_with(server: Server, wait_seconds: float, seen: list[Any] | None = None) -> list[str]:
    watch = (seen if seen is not None else []).append
    adb: Any = server
    links = asyncio.run(enrol_look.settled(adb, wait_seconds, watch))
    return [f"{link.name} {link.state}" for link in links]


def test_phones_that_come_late_are_not_left_behind() -> None:
    server = Server({}, {}, {"A": "device"}, {"A": "device", "B": "device"})
    assert begun_with(server, 0) == ["A device", "B device"]


def test_a_dialog_is_waited_for_and_said() -> None:
    seen: list[Any] = []
    server = Server(*[{"A": "device", "B": "unauthorized"}] * 30, {"A": "device", "B": "device"})
    assert begun_with(server, 60, seen) == ["A device", "B device"]
    assert [report.link for report in seen[0]] == ["B"]


def test_a_dialog_that_nobody_accepts_is_waited_for_until_the_time_is_over() -> None:
    assert begun_with(Server({"A": "unauthorized"}), 0.3) == ["A unauthorized"]
    assert begun_with(Server({}), 0.3) == []


class Answering:
    """An adb whose phones tell these serials, by link."""

    def __init__(self, **serials: str) -> None:
        self.serials = {name.replace("_", ":"): serial for name, serial in serials.items()}

    def phone(self, link: str) -> Any:
        assert link in self.serials, "adb cannot tell phones of one name apart"

        async def shell(_: str) -> Said:
            facts = f"[ro.serialno]: [{self.serials[link]}]\n[ro.build.version.sdk]: [31]\n"
            return Said(0, f"@@phonerack\n{facts}@@phonerack\n@@phonerack\n@@phonerack\n", "")

        return SimpleNamespace(shell=shell, link=link)


def looked_at(adb: Answering, *links: tuple[str, str]) -> list[enrol_look.Report]:
    seen: Any = adb
    listed = [Link(name, "device", place) for name, place in links]
    return asyncio.run(enrol_look.look(seen, listed, ()))[0]


def test_a_phone_that_adb_reaches_by_two_ways_is_one() -> None:
    adb = Answering(R1="R1", lan_5555="R1")
    (report,) = looked_at(adb, ("R1", "1-1"), ("lan:5555", ""))
    assert (report.link, report.end) == ("R1", None)


@pytest.mark.parametrize("second", ["0123456789ABCDEF", "other"])
def test_phones_that_share_a_serial_are_each_refused_and_the_rest_go_on(second: str) -> None:
    """As cheap ones do: adb may call both by it, or not."""
    first = "0123456789ABCDEF"
    adb = Answering(R1="R1", other=first, **({first: first} if second != first else {}))
    reports = looked_at(adb, (first, "1-1"), ("R1", "1-2"), (second, "1-3"))
    assert [report.end for report in reports] == ["refused", None, "refused"]
    for report in (reports[0], reports[2]):
        assert report.serial == first
        assert f"2 phones on USB bear the serial {first}" in report.reason
