"""Which phones an enrolment begins with: adb's server sees them one after the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleetctl.provision import enrol_look
from fleetctl.remote.adb import Link


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
