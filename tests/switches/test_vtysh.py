"""The stand-in's terminal by the side of a real shell of that kind, FRR's vtysh."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import vtysh
from lab import SECRETS

from fleetctl.switches.platforms import platform
from fleetctl.switches.secrets import Secrets
from fleetctl.switches.session import RejectedLineError, Session, Target
from standin.switches.device import Device
from standin.switches.plane import MemoryNetwork
from standin.switches.session import Session as StandinSession
from standin.switches.terminal import Terminal

RECORDED: list[list[str]] = json.loads(vtysh.RECORD.read_text())
PROMPT = re.compile(r"(?P<name>\w+)(?P<mode>\(\S+\))?# ?(?P<typed>.*)")


def shape(printed: str) -> list[str]:
    """What is common to all shells of the kind: echo, that there is an error, prompt, line.

    How an error is worded, and remarks, are each shell's own.
    """
    found = []
    for line in printed.split("\r\n"):
        if match := PROMPT.fullmatch(line):
            found.append(f"{match['name']}{match['mode'] or ''}# {match['typed']}")
        elif line.startswith("%"):
            found.append("%")
        elif not found:
            found.append(line)
    return found


def standin_transcript(hostname: str) -> list[list[str]]:
    device = Device("ios", ("Loopback1", "Loopback2"), MemoryNetwork().plane("sw"), {}, lambda: 0.0)
    device.running.hostname = hostname
    terminal = Terminal(StandinSession(device, "admin"))
    found = []
    for keys, _ in RECORDED:
        printed = ""
        for echo in terminal.keys(keys):
            printed += echo
            if terminal.entered is not None:
                line, terminal.entered = terminal.entered, None
                printed += terminal.answer(line)
        found.append([keys, printed])
    return found


def expected(keys: str, real: str) -> list[str]:
    """What a stand-in must print where the real shell printed that."""
    if "\x03" in keys:
        # vtysh does not echo what Ctrl-C throws away; IOS has echoed it by then.
        return [keys.replace("\x03", ""), *shape(real)[1:]]
    if "?" in keys:
        # vtysh swallows the question mark; IOS echoes it. The line goes on without it on both.
        return [keys, *shape(real)[1:]]
    return shape(real)


def test_the_stand_in_echoes_and_prompts_as_a_real_shell_does() -> None:
    hostname = RECORDED[0][1].strip().rstrip("#")
    ours = standin_transcript(hostname)
    for (keys, real), (_, mine) in zip(RECORDED, ours, strict=True):
        assert (keys, shape(mine)) == (keys, expected(keys, real))


@pytest.mark.tools
@pytest.mark.root
def test_the_record_is_what_the_real_shell_does() -> None:
    then = [[keys, shape(text)[1:]] for keys, text in RECORDED[4:]]
    now = [[keys, shape(text)[1:]] for keys, text in vtysh.transcript()[4:]]
    assert now == then


@pytest.mark.tools
@pytest.mark.root
def test_a_session_of_ours_configures_the_real_shell_and_notices_what_it_rejects(
    tmp_path: Path,
) -> None:
    with vtysh.served() as server:
        known = tmp_path / "known_switches"
        known.write_text(server.known_hosts())
        target = Target("sw1", "127.0.0.1", "admin", "switch_password", None, known, server.port)
        session = Session(
            target, platform("cisco_ios"), Secrets(SECRETS), hostnames=(vtysh.HOSTNAME,)
        )
        with session:
            for line in ("configure terminal", f"hostname {vtysh.HOSTNAME}", "router bgp 65000"):
                session.type(line)
            session.type("neighbor 10.0.0.9 remote-as 65001")
            with pytest.raises(RejectedLineError, match="it rejected `switchport mode access`: %"):
                session.type("switchport mode access")
            session.leave_configuration()
            shown = session.ask("show running-config").splitlines()
    told = (f"hostname {vtysh.HOSTNAME}", "router bgp 65000", " neighbor 10.0.0.9 remote-as 65001")
    assert set(told) <= set(shown)
