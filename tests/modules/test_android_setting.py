"""The module that brings Android to what the rack wants, on phones that exist only as answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fleetctl.provision import android, enrol_facts, enrol_look
from fleetctl.provision.enrol_facts import Found
from fleetctl.remote import adb
from fleetctl.remote.adb import AdbError, AdbLost, Link, LinkState

FOUND = {
    "usb1": Found("usb1", "SERIAL1", "SM-G975F", "samsung", 31),
    "usb2": Found("usb2", "STRANGER", "SM-G975F", "samsung", 31),
}
PHONES = {"phone001": "SERIAL1", "phone002": "AWAY", "phone003": None}


class Phones:
    """adb and the phones behind it; each keeps its values by name."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, str | None]] = {link: {} for link in FOUND}
        self.stubborn: set[str] = set()
        self.shut: dict[str, LinkState] = {}
        self.gone: set[str] = set()

    async def links(self) -> list[Link]:
        shut = [Link(name, state, "usb:1") for name, state in self.shut.items()]
        return [Link(name, "device", "") for name in FOUND] + shut

    def phone(self, link: str) -> str:
        return link

    async def ask(self, link: str) -> Found:
        if link in self.gone:
            raise AdbLost(f"device '{link}' not found: the phone has left; look at its cable")
        return FOUND[link]

    async def ensure(
        self, link: str, wanted: list[android.Wish], check: bool = False
    ) -> android.Outcome:
        before = {wish.name: self.values[link].get(wish.name) for wish in wanted}
        kept = {wish.name: wish.value for wish in wanted if wish.name not in self.stubborn}
        if not check:
            self.values[link] |= kept
        after = before | kept
        problems = {name: f"{name} stays" for name in self.stubborn & set(before)}
        return android.Outcome(before, after, problems)


@pytest.fixture
def phones(monkeypatch: pytest.MonkeyPatch) -> Phones:
    made = Phones()

    @asynccontextmanager
    async def session(_: object) -> AsyncIterator[Phones]:
        yield made

    monkeypatch.setattr(adb, "session", session)
    monkeypatch.setattr(enrol_look, "STEADY_SECONDS", 0.0)
    monkeypatch.setattr(enrol_facts, "ask", made.ask)
    monkeypatch.setattr(android, "ensure", made.ensure)
    return made


@pytest.fixture
def bring(run_module: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., Any]:
    def run(**options: Any) -> dict[str, Any]:
        return run_module("android_setting", rack_dir=str(tmp_path), phones=PHONES, **options)

    return run


def test_phones_of_the_rack_get_the_table_and_others_nothing(
    phones: Phones, bring: Callable[..., Any]
) -> None:
    result = bring(services="10.0.0.2", serves_time=True)
    profile = android.Profile(31, "samsung", "10.0.0.2", serves_time=True)
    wanted = {wish.name for wish in android.wishes(profile)}
    assert result["changed"]
    assert set(result["phones"]["phone001"]) == wanted
    assert set(result["unreached"]) == {"phone002", "phone003"}
    for why in result["unreached"].values():
        assert "adb does not see it: plug it into this machine by USB" in why
    assert result["unusable"] == {}
    assert phones.values["usb2"] == {}


def test_a_phone_that_lets_nobody_in_is_told_from_one_that_is_not_there(
    phones: Phones, bring: Callable[..., Any]
) -> None:
    phones.shut = {"AWAY": "unauthorized", "10.0.0.9:5555": "offline"}
    phones.gone = {"usb1"}
    result = bring()
    assert "adb does not see it" in result["unreached"]["phone001"]
    assert result["unreached"]["phone002"].startswith("unauthorized: unlock its screen and accept")
    assert set(result["unusable"]) == {"10.0.0.9:5555", "usb1"}
    assert result["unusable"]["10.0.0.9:5555"].startswith("offline: ")
    assert "look at its cable" in result["unusable"]["usb1"]


def test_a_second_run_changes_nothing(phones: Phones, bring: Callable[..., Any]) -> None:
    bring()
    assert not bring()["changed"]


def test_check_mode_says_it_and_does_nothing(phones: Phones, bring: Callable[..., Any]) -> None:
    result = bring(check=True)
    assert result["changed"]
    assert phones.values["usb1"] == {}
    assert "phone001: global/stay_on_while_plugged_in = unreadable" in result["diff"]["before"]
    assert "phone001: global/stay_on_while_plugged_in = 7" in result["diff"]["after"]


def test_wifi_is_switched_off_only_where_the_wire_is_proven(
    phones: Phones, bring: Callable[..., Any]
) -> None:
    assert "radio/wifi" not in bring()["phones"]["phone001"]
    assert "radio/wifi" in bring(wired=["phone001"])["phones"]["phone001"]


def test_settings_of_ones_own_take_the_tables_place(
    phones: Phones, bring: Callable[..., Any]
) -> None:
    bring(settings={"system/screen_brightness": 10})
    assert phones.values["usb1"] == {"system/screen_brightness": "10"}


def test_what_does_not_hold_is_told_by_phone(phones: Phones, bring: Callable[..., Any]) -> None:
    phones.stubborn = {"global/protect_battery"}
    assert bring()["problems"] == {"phone001": "global/protect_battery stays"}


def test_without_adb_it_fails_with_the_cure(
    run_module: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @asynccontextmanager
    async def session(_: object) -> AsyncIterator[None]:
        raise AdbError("`adb` is not installed: run `apt-get install adb`")
        yield

    monkeypatch.setattr(adb, "session", session)
    with pytest.raises(Exception, match="apt-get install adb"):
        run_module("android_setting", rack_dir=str(tmp_path), phones=PHONES)
