"""Apps that a phone has already, beside those that the operator brings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleetctl.provision import enrol_termux
from fleetctl.provision.android import TERMUX_APPS
from fleetctl.provision.apk import Apk, read_apk
from fleetctl.provision.enrol_facts import Found, understand
from fleetctl.provision.enrol_files import Luggage
from fleetctl.provision.enrol_termux import Failed, install_apps, set_up_ssh
from fleetctl.remote.adb import Said
from standin.android import apk, dump, fresh, packages

OURS, THEIRS = "e3ca78d8", "1f"
FILES = {
    app: Apk(Path(f"/apks/{app}.apk"), app, 118, "0.118", False, "com.termux", "s", signature=OURS)
    for app in TERMUX_APPS
}


GOOD = Said(0, "", "")


@dataclass
class Phone:
    """Answers as a phone whose Termux is a debug build or not."""

    debuggable: bool | None = False
    run_as: Said = GOOD
    installed: list[str] = field(default_factory=list)
    shells: list[str] = field(default_factory=list)

    async def install(self, path: Path) -> Said:
        self.installed.append(path.stem)
        return Said(0, "Success\n", "")

    async def push(self, *_: object) -> Said:
        return Said(0, "", "")

    async def shell(self, command: str, **_: float) -> Said:
        self.shells.append(command)
        if command.startswith("dumpsys package"):
            if self.debuggable is None:
                return Said(0, "", "")
            state = fresh.enrolled(
                31, "x86_64", 1, wired=True, time_server=None, signer="s", signature=OURS
            )
            state.apps["com.termux"].debuggable = self.debuggable
            text = dump._package(state, "com.termux")
            return Said(0, "".join(line for line in text.splitlines(True) if "lags=" in line), "")
        if command.startswith("n=0; until run-as"):
            return self.run_as
        return Said(0, "", "")


def install(phone: Phone, found: Found) -> list[str]:
    wanted: Any = phone
    asyncio.run(install_apps(wanted, FILES, found))
    return phone.installed


def found(signature: str | None, *apps: str, code: int = 118) -> Found:
    signatures = dict.fromkeys(apps, signature) if signature else {}
    return Found("R1", "R1", apps=dict.fromkeys(apps, code), signatures=signatures)


def test_what_is_missing_or_older_is_installed() -> None:
    assert install(Phone(), found(OURS)) == list(TERMUX_APPS)
    assert install(Phone(), found(OURS, *TERMUX_APPS)) == []
    assert install(Phone(), found(OURS, "com.termux", code=117)) == list(TERMUX_APPS)
    assert install(Phone(), found(OURS, "com.termux", code=119)) == list(TERMUX_APPS[1:])


@pytest.mark.parametrize("code", [117, 118, 119])
def test_apps_of_another_signer_are_refused_before_anything_is_installed(code: int) -> None:
    """Whatever their versions are: Android would let none of ours share data with them."""
    phone = Phone()
    with pytest.raises(Failed) as refusal:
        install(phone, found(THEIRS, "com.termux", code=code))
    said = str(refusal.value)
    assert phone.installed == []
    assert "com.termux is signed by another key than com.termux.apk" in said
    assert "uninstall com.termux, com.termux.api and com.termux.boot" in said
    assert "deletes their data" in said
    assert "/apks" in said


def test_where_android_does_not_tell_the_signer_versions_decide() -> None:
    assert install(Phone(), found(None, *TERMUX_APPS)) == []


def test_a_stand_in_tells_the_signer_of_what_was_installed_on_it(tmp_path: Path) -> None:
    signer = apk.load_signer(tmp_path / "a.pem")
    built = apk.build(apk.standin_apps(debuggable=False)["com.termux_release.apk"], signer)
    (tmp_path / "termux.apk").write_bytes(built)
    state = fresh.boxed(31, "x86_64", 1)
    packages.enter(state, "com.termux", packages.decide(state, packages.content_of(built), []))
    said = "@@phonerack" * 5 + dump._package(state, "com.termux")
    assert understand("usb", said).signatures == {
        "com.termux": read_apk(tmp_path / "termux.apk").signature
    }


def way(phone: Phone, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which way the first key goes into Termux."""

    async def spoken(*_: object) -> str:
        return "done"

    monkeypatch.setattr(enrol_termux, "last_word", spoken)
    monkeypatch.setattr(enrol_termux, "_POLL_SECONDS", 0.0)
    wanted: Any = phone
    asyncio.run(set_up_ssh(wanted, Luggage((), ()), "ssh-ed25519 A", lambda _: None))
    return "run-as" if any("run-as" in command for command in phone.shells) else "keyboard"


@pytest.mark.parametrize(
    ("debuggable", "wanted"), [(True, "run-as"), (False, "keyboard"), (None, "keyboard")]
)
def test_the_first_key_goes_the_way_that_the_phones_own_build_allows(
    debuggable: bool | None, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's file may be of another build with the same version."""
    phone = Phone(debuggable)
    if wanted == "keyboard":
        monkeypatch.setattr(enrol_termux, "_by_run_as", None)
    assert way(phone, monkeypatch) == wanted


def test_a_termux_that_run_as_does_not_enter_is_told_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phone = Phone(True, run_as=Said(1, "", "run-as: couldn't stat /data/user/0/com.termux"))
    with pytest.raises(Failed, match=r"run-as: couldn't stat .*open Termux on the phone"):
        way(phone, monkeypatch)
