"""Silence over ssh, and what adb says."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from fleetctl.checks import doors
from fleetctl.rack import RackPaths
from fleetctl.remote import adb
from fleetctl.state import AdbTry, Contact, PhoneFacts

SERIALS = {"phone001": "R58M1", "phone002": "R58M2", "phone003": "R58M3"}


def ask(monkeypatch: pytest.MonkeyPatch, session: Any) -> dict[str, bool]:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/adb")
    monkeypatch.setattr(adb, "session", session)
    return asyncio.run(doors.over_adb(RackPaths("home"), SERIALS))


def test_a_phone_is_known_by_its_serial_whatever_adb_calls_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    links = [
        adb.Link("R58M1", "device", "usb:1"),
        adb.Link("10.0.0.12:5555", "device", ""),
        adb.Link("R58M3", "unauthorized", "usb:2"),
    ]
    serials = {"R58M1": "R58M1", "10.0.0.12:5555": "R58M2"}

    @asynccontextmanager
    async def session(_: RackPaths) -> AsyncIterator[Any]:
        async def found() -> list[adb.Link]:
            return links

        def phone(link: str) -> Any:
            async def shell(_: str, **__: float) -> adb.Said:
                return adb.Said(0, serials[link], "")

            return SimpleNamespace(shell=shell)

        yield SimpleNamespace(links=found, phone=phone)

    assert ask(monkeypatch, session) == {"phone001": True, "phone002": True, "phone003": False}


def test_a_phone_that_hangs_takes_nobody_elses_answer_away(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def session(_: RackPaths) -> AsyncIterator[Any]:
        async def found() -> list[adb.Link]:
            return [adb.Link(serial, "device", "usb:1") for serial in SERIALS.values()]

        def phone(link: str) -> Any:
            async def shell(_: str, **__: float) -> adb.Said:
                if link == "R58M1":
                    raise adb.AdbLost("`adb shell` did not finish within 5 s")
                return adb.Said(0, f"{link}\n", "")

            return SimpleNamespace(shell=shell)

        yield SimpleNamespace(links=found, phone=phone)

    assert ask(monkeypatch, session) == {"phone001": False, "phone002": True, "phone003": True}


def test_without_adb_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def session(_: RackPaths) -> AsyncIterator[Any]:
        raise adb.AdbHeld("another fleetctl uses adb")
        yield

    assert ask(monkeypatch, session) == {}
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert asyncio.run(doors.over_adb(RackPaths("home"), SERIALS)) == {}


def test_silence_says_something_only_where_adb_has_answered_since_ssh_does_not() -> None:
    away = Contact(seen=1.0, missed_since=2.0)
    known = {
        "phone002": PhoneFacts(contact=away, adb=AdbTry(3.0, True)),
        "phone003": PhoneFacts(contact=away),
        # Enrolled by USB, and in the rack ever since.
        "phone004": PhoneFacts(contact=away, adb=AdbTry(1.0, True)),
    }
    answers = dict.fromkeys(["phone002", "phone003", "phone004", "phone005"], False)
    answers["phone001"] = True

    assert doors.worth_noting(answers, known) == {"phone001": True, "phone002": False}
