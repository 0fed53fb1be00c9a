"""Knobs of stand-in switches as they are written: read, shown, and refused with what there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleetctl.rack import InputError
from standin.switches.device import Knobs
from standin.switches.knobs import KNOBS, turned, written

type Make = Callable[..., Any]


@pytest.mark.parametrize(
    "text",
    [
        *("latency=0.2", "clock=60", "paging=off", "echo-twice=on", "prompt-chars=20"),
        *("sha1-only=on", "asks-before-saving=on", "revert-timer=off", "celsius=71.5", "poe=370"),
        *("reject=^shutdown", "freeze-seconds=30", "freeze=20", "drop=1", "power-off=7"),
    ],
)
def test_a_knob_is_shown_as_it_is_written(text: str) -> None:
    assert list(written(turned(Knobs(), [text]))) == [text]


def test_a_switch_without_troubles_shows_none_and_usual_takes_all_away() -> None:
    assert list(written(Knobs())) == []
    troubled = turned(Knobs(), ["latency=1", "sha1-only=on", "drop=3"])
    assert turned(troubled, [], usual=True) == Knobs()
    assert list(written(turned(troubled, ["latency=2"], usual=True))) == ["latency=2"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("melt=1", "a switch has no knob `melt`"),
        ("latency", "a number from 0 to 60"),
        ("latency=much", "a number from 0 to 60"),
        ("latency=nan", "a number from 0 to 60"),
        ("paging=maybe", "on or off"),
        ("prompt-chars=1.5", "a whole number from 1 to 64"),
        ("reject=(", "a regular expression"),
        ("freeze=0", "a whole number from 1"),
    ],
)
def test_what_cannot_be_set_is_refused_with_what_can(text: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        turned(Knobs(), [text])
    assert hint in str(refused.value)
    if "no knob" in hint:
        assert all(name in str(refused.value) for name in KNOBS)


def test_a_switch_that_knows_sha1_only_is_told_so_while_it_runs(lab: Make) -> None:
    """Its next logins are of that kind, and later ones are not any more."""
    import asyncio

    import asyncssh

    rig = lab("cisco_ios")
    target = rig.targets["sw1"]

    async def key_exchange() -> str:
        login = {"username": "nobody", "password": "", "known_hosts": str(target.known_hosts)}
        offered = {"kex_algs": ["diffie-hellman-group14-sha1", "curve25519-sha256"]}
        host_key = ["ssh-rsa", "rsa-sha2-256"]
        try:
            await asyncssh.connect(
                target.address,
                target.port,
                **login,
                **offered,
                server_host_key_algs=host_key,
                encryption_algs=["aes128-cbc"],
                mac_algs=["hmac-sha1"],
            )
        except asyncssh.PermissionDenied:
            return "old"
        except (asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost):
            return "new"  # both sides find out that they have nothing in common, and one is first
        raise AssertionError("nobody was let in")

    assert asyncio.run(key_exchange()) == "new"
    device = rig.devices["sw1"]
    rig.server.turn(device, turned(device.knobs, ["sha1-only=on"]))
    assert asyncio.run(key_exchange()) == "old"
    rig.server.turn(device, turned(device.knobs, ["sha1-only=off"]))
    assert asyncio.run(key_exchange()) == "new"
