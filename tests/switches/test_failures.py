"""Whatever happens in the middle of a change: the old configuration or the new one, never between.

Each trouble strikes at a line that is drawn by a seed. A few points are tried here; all of them,
twenty for each kind of trouble and platform, bear the marker `soak`.
"""

from __future__ import annotations

import difflib
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import KINDS
from lab import PATIENCE

from fleetctl.switches.job import Report
from standin.switches.device import Knobs
from standin.switches.show import ios_config
from standin.switches.state import Settings

type Make = Callable[..., Any]

TROUBLES = ("freeze", "freeze-long", "drop", "power-off", "reject")
SEED = 20261129

# Somebody has changed a settled switch in many places; provisioning mends it.
DRIFT = """
vlan 30
name cellar
interface {0}
switchport access vlan 30
no spanning-tree bpduguard
interface {1}
description wrong
shutdown
interface {2}
no description
no spanning-tree portfast
interface {8}
switchport trunk allowed vlan 10,30
interface {bundle}1
switchport trunk allowed vlan 10,30
hostname elsewhere
"""

# Not so long that the timer is not reached within a test.
HASTY = replace(PATIENCE, settle_seconds=0.5, line_seconds=0.8, show_seconds=2.0)


def drifted(lab: Make, name: str) -> Any:
    rig = lab(name)
    rig.settle()
    job = rig.job("sw1")
    ports = [port.interface for port in job.intent.ports]
    rig.type(DRIFT.format(*ports, bundle=job.platform.bundle_interface))
    return rig


def lines_of_a_run(lab: Make, name: str) -> int:
    """How many lines a run enters when nothing happens."""
    rig = drifted(lab, name)
    start = rig.look(lambda device: device.lines_entered)
    (report,) = rig.run(patience=HASTY)
    assert isinstance(report, Report)
    lines: int = rig.look(lambda device: device.lines_entered) - start
    return lines


def trouble(rig: Any, kind: str, point: int) -> None:
    """Let it strike when `point` more lines have been entered."""
    changes: dict[str, Any] = {"fault_after_lines": point}
    if kind == "reject":
        texts = ["description phone002", "switchport access vlan 10", "hostname sw1", "no vlan 30"]
        texts += ["spanning-tree portfast", "switchport trunk allowed vlan"]
        changes = {"reject": re.escape(texts[point % len(texts)])}
    elif kind == "freeze-long":
        changes |= {"fault": "freeze", "freeze_seconds": 1200.0}
    else:
        changes |= {"fault": kind, "freeze_seconds": 240.0}
    rig.look(lambda device: setattr(device, "knobs", replace(device.knobs, **changes)))


def end_of(rig: Any, old: Settings, new: Settings) -> str:
    """Which configuration runs in the end, once the switch answers and no timer runs."""
    calm = Knobs(timer_speed=PATIENCE.timer_speed)
    rig.look(lambda device: setattr(device, "knobs", calm))
    rig.look(lambda device: setattr(device, "frozen_until", None))
    rig.look(lambda device: setattr(device, "clock", lambda now=device.clock: now() + 9e6))
    running, startup = rig.settings(), rig.startup()
    assert startup in (old, new), "what it would boot with is in between"
    assert rig.look(lambda device: not device.down and device.revert is None)
    assert running in (old, new), f"what runs is in between: {apart(running, old)}"
    if running == new:
        assert rig.reachable("sw1") == set(rig.rack.phones)
    return "old" if running == old else "new"


def apart(one: Settings, other: Settings) -> list[str]:
    """Where two configurations differ, for a person to read."""
    texts = ["\n".join(ios_config(settings)).splitlines() for settings in (other, one)]
    return list(difflib.unified_diff(*texts, lineterm="", n=0))


def strike(lab: Make, name: str, kind: str, point: int) -> tuple[str, str]:
    """One run with one trouble; what the run said, and what the switch has in the end."""
    rig = drifted(lab, name)
    old = rig.settings()
    new = settled(lab, name)
    trouble(rig, kind, point)
    (answer,) = rig.run(patience=HASTY)
    said = "changed" if isinstance(answer, Report) else str(answer)
    found = end_of(rig, old, new)
    if isinstance(answer, Report):
        assert found == "new", said
        assert rig.startup() == new
    else:
        assert found == "old", said
        assert "the old configuration is back" in said or not rig.backups, said
    return said, found


def settled(lab: Make, name: str) -> Settings:
    rig = lab(name)
    rig.settle()
    settings: Settings = rig.settings()
    return settings


SAMPLE = [
    ("cisco_ios", "freeze"),
    ("arista_eos", "freeze-long"),
    ("cisco_ios", "drop"),
    ("arista_eos", "drop"),
    ("cisco_ios", "power-off"),
    ("arista_eos", "power-off"),
]


@pytest.mark.parametrize(("name", "kind"), SAMPLE)
def test_trouble_at_a_point_leaves_the_old_configuration_or_the_new_one(
    lab: Make, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setattr("fleetctl.switches.apply._SECONDS_A_LINE", 0.1)
    drawn = random.Random(f"{SEED} {name} {kind}")  # noqa: S311
    strike(lab, name, kind, drawn.randint(8, 30))


LATE = {
    "cisco_ios": ("configure confirm", "write memory", "show startup-config"),
    "arista_eos": ("phonerack commit", "write memory", "show startup-config"),
}


@pytest.mark.parametrize(
    ("name", "line", "kind", "found"),
    [
        ("cisco_ios", 0, "drop", "new"),
        ("arista_eos", 0, "drop", "new"),
        ("cisco_ios", 0, "power-off", "old"),
        ("cisco_ios", 1, "drop", "new"),
        ("arista_eos", 1, "power-off", "new"),
        ("arista_eos", 2, "drop", "new"),
    ],
)
def test_a_session_that_breaks_once_the_change_is_kept_is_taken_up_again(
    lab: Make, name: str, line: int, kind: str, found: str
) -> None:
    rig = drifted(lab, name)
    old = rig.settings()
    new = settled(lab, name)
    at = LATE[name][line]
    changes: dict[str, Any] = {"fault": kind, "fault_at": at}
    if at == "show startup-config":  # its first look is before the change, its last line is meant
        changes |= {"fault_at": "", "fault_after_lines": lines_of_a_run(lab, name)}
    rig.look(lambda device: setattr(device, "knobs", replace(device.knobs, **changes)))
    (answer,) = rig.run(patience=HASTY)
    assert end_of(rig, old, new) == found, answer
    if found == "new":
        assert isinstance(answer, Report), answer
        assert rig.startup() == new
    else:
        assert "the old configuration is back" in str(answer)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize("name", list(KINDS))
def test_trouble_at_twenty_points(
    lab: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
) -> None:
    monkeypatch.setattr("fleetctl.switches.apply._SECONDS_A_LINE", 0.1)
    lines = lines_of_a_run(lab, name)
    drawn = random.Random(f"{SEED} {name} {kind} all")  # noqa: S311
    counts = Counter(strike(lab, name, kind, drawn.randint(1, lines))[1] for _ in range(20))
    with capsys.disabled():
        print(f"\n{name} {kind}: {dict(counts)}")
    assert sum(counts.values()) == 20
