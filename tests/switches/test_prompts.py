"""Something answers at a switch's address that is no such switch: nothing is sent to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import asyncssh
import pytest
from ssh_server import SshServer

from fleetctl.switches.errors import SwitchError
from standin.switches import printed
from standin.switches.device import Device

type Make = Callable[..., Any]


SHELL_AND_MENU = ("admin@box:~$ ", "[1] status  [2] setup: ")


class Stranger(SshServer):
    """Answers every line with one prompt; `lines` is what it was told."""

    def __init__(self, prompt: str, **offer: Any) -> None:
        self.prompt = prompt
        self.lines: list[str] = []
        super().__init__(self._answer, **offer)

    async def _answer(self, process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write(self.prompt)
        while line := await process.stdin.readline():
            self.lines.append(line.strip())
            process.stdout.write(f"{line}\r\n{self.prompt}")


@pytest.fixture
def stranger() -> Iterator[Callable[..., Stranger]]:
    made: list[Stranger] = []

    def make(prompt: str, **offer: Any) -> Stranger:
        made.append(Stranger(prompt, **offer))
        return made[-1]

    yield make
    for item in made:
        item.close()


@pytest.mark.parametrize("name", ["cisco_ios", "arista_eos"])
@pytest.mark.parametrize(
    "prompt",
    [
        "sw1(config)#",
        # netmiko looks for half a minute.
        *(pytest.param(text, marks=pytest.mark.soak) for text in SHELL_AND_MENU),
    ],
)
def test_a_wrong_prompt_is_refused_before_anything_is_sent(
    lab: Make, stranger: Callable[[str], Stranger], name: str, prompt: str
) -> None:
    rig, there = lab(name), stranger(prompt)
    known = rig.targets["sw1"].known_hosts
    known.write_text(known.read_text() + there.known_hosts())
    rig.targets["sw1"] = replace(rig.targets["sw1"], port=there.port)
    (answer,) = rig.run()
    assert isinstance(answer, SwitchError), answer
    assert f"sw1: it answered the login with `{prompt.strip()}`" in str(answer)
    assert f"which is no prompt of its platform {name}; `sw1#` would be right" in str(answer)
    harmless = ("", "enable", "terminal", "show", "exit", "end")
    assert [line for line in there.lines if line.split(" ")[0] not in harmless] == []


class Leaving(Stranger):
    """Says that it goes down, and does, before it has shown any prompt."""

    async def _answer(self, process: asyncssh.SSHServerProcess[str]) -> None:
        process.stdout.write("\r\n***\r\n*** --- SHUTDOWN NOW ---\r\n***\r\n")
        await asyncio.sleep(1)  # whoever logs in waits for a prompt by now
        process.exit(0)


def test_a_switch_that_goes_down_during_the_login_is_lost_and_no_stranger(lab: Make) -> None:
    rig = lab()
    there = Leaving("")
    try:
        known = rig.targets["sw1"].known_hosts
        known.write_text(known.read_text() + there.known_hosts())
        rig.targets["sw1"] = replace(rig.targets["sw1"], port=there.port)
        (answer,) = rig.run()
        assert "sw1: no answer to the login (the session has ended)" in str(answer)
    finally:
        there.close()


@pytest.mark.parametrize("name", ["cisco_ios", "arista_eos"])
def test_a_configuration_that_comes_torn_is_refused_before_anything_is_sent(
    lab: Make, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rig = lab(name)
    before = rig.settings()
    whole, entered = printed.configuration, Device.strikes
    lines: list[str] = []

    def torn(*words: Any) -> list[str]:
        shown = list(whole(*words))
        return shown[: len(shown) // 2]

    def note(device: Device, line: str) -> Any:
        lines.append(line)
        return entered(device, line)

    monkeypatch.setattr(printed, "configuration", torn)
    monkeypatch.setattr(Device, "strikes", note)
    (answer,) = rig.run()
    assert "sw1: its running configuration cannot be read" in str(answer)
    assert "show running-config" in lines
    assert [line for line in lines if line.split(" ")[0] not in ("", "enable", "terminal")] == [
        "show running-config"
    ]
    assert rig.settings() == before == rig.startup()


@pytest.mark.parametrize(
    ("offer", "told"),
    [
        (
            {"kex_algs": ["diffie-hellman-group18-sha512"]},
            "no key exchange in common; it offers diffie-hellman-group18-sha512",
        ),
        (
            {"encryption_algs": ["chacha20-poly1305@openssh.com"]},
            "no ciphers in common; it offers chacha20-poly1305@openssh.com",
        ),
        (
            {"mac_algs": ["umac-64@openssh.com"], "encryption_algs": ["aes128-ctr"]},
            "no MACs in common; it offers umac-64@openssh.com",
        ),
        (
            {"server_host_keys": [asyncssh.generate_private_key("ssh-ed448")]},
            "no host keys in common; it offers ssh-ed448",
        ),
    ],
    ids=["kex", "ciphers", "macs", "keys"],
)
def test_what_two_sides_cannot_agree_on_is_named(
    lab: Make, stranger: Callable[..., Stranger], offer: dict[str, Any], told: str
) -> None:
    rig, there = lab(), stranger("sw1#", **offer)
    rig.targets["sw1"] = replace(rig.targets["sw1"], port=there.port)
    (answer,) = rig.run()
    assert told in str(answer)
    assert "below `management ssh` on EOS" in str(answer)
    assert there.lines == []


def test_a_switch_of_another_platform_is_refused_before_anything_is_sent(lab: Make) -> None:
    """The rack file says IOS and EOS is there: it has none of the ports."""
    rig = lab("arista_eos")
    switch = replace(rig.rack.switches["sw1"], platform="cisco_ios")
    rig.rack = replace(rig.rack, switches={"sw1": switch})
    before = rig.settings()
    (answer,) = rig.run()
    assert isinstance(answer, SwitchError), answer
    assert "GigabitEthernet1/0/1" in str(answer)
    assert rig.settings() == before
    assert rig.look(lambda device: not device.log)
