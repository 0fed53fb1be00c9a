"""Whatever happens in the middle of a change: the old configuration or the new one, never between.

Each trouble strikes at a line that is drawn by a seed. A few points are tried here; all of them,
twenty for each kind of trouble and platform, bear the marker `soak`.
"""

from __future__ import annotations

import difflib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import KINDS
from lab import PATIENCE

from fleetctl.switches.apply import Application
from fleetctl.switches.job import Report
from fleetctl.switches.plan import Step
from standin.switches.device import Knobs
from standin.switches.editor import Editor
from standin.switches.grammar import Invalid
from standin.switches.session import Session
from standin.switches.show import ios_config
from standin.switches.state import Settings

type Make = Callable[..., Any]

TROUBLES = ("freeze", "freeze-long", "drop", "power-off", "reject")
SEED = 20261129

# Somebody has changed a settled switch in many places; provisioning mends it. The phones can all
# be reached, if in another VLAN.
DRIFT = """
vlan 30
name cellar
interface {0}
switchport access vlan 30
no spanning-tree bpduguard
interface {1}
switchport access vlan 30
description wrong
interface {2}
switchport access vlan 30
no description
no spanning-tree portfast
interface {3}
switchport access vlan 30
interface {4}
no shutdown
interface {8}
switchport trunk allowed vlan 10,30
shutdown
interface {bundle}1
switchport trunk allowed vlan 10,30
hostname elsewhere
"""

# Not so long that the timer is not reached within a test.
HASTY = replace(PATIENCE, settle_seconds=0.5, line_seconds=0.8, show_seconds=2.0)


START = {"drifted": {}, "reload-timer": {"revert_timer": False}, "factory": {}}
"""What a run starts from: a switch that somebody has changed, the same without a revert timer, one
that knows nothing yet."""


def drifted(lab: Make, name: str, start: str = "drifted") -> Any:
    rig = lab(name, **START[start])
    if start == "factory":
        return rig
    rig.settle()
    job = rig.job("sw1")
    ports = [port.interface for port in job.intent.ports]
    rig.type(DRIFT.format(*ports, bundle=job.platform.bundle_interface))
    return rig


class Rejecting:
    """Makes the line of configuration that is the `at`-th from now invalid input; counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int = 0) -> None:
        self.at, self.lines = at, 0
        take = Session._configure

        def configure(session: Session, editor: Editor, line: str) -> list[str]:
            first = line.split()[0]
            if first in ("do", "end", "exit"):
                return take(session, editor, line)
            self.lines += 1
            if self.lines == self.at:
                return session._wrong(Invalid(0, 0, first), line)
            return take(session, editor, line)

        monkeypatch.setattr(Session, "_configure", configure)


def lines_of_a_run(
    lab: Make, monkeypatch: pytest.MonkeyPatch, name: str, kind: str, start: str = "drifted"
) -> int:
    """How many lines a run enters when nothing happens; of configuration, if one is rejected."""
    rig = drifted(lab, name, start)
    before = rig.look(lambda device: device.lines_entered)
    with monkeypatch.context() as patch:
        counting = Rejecting(patch)
        (report,) = rig.run(patience=HASTY)
    assert isinstance(report, Report), report
    if kind == "reject":
        return counting.lines
    lines: int = rig.look(lambda device: device.lines_entered) - before
    return lines


def trouble(rig: Any, kind: str, point: int) -> None:
    """Let it strike when `point` more lines have been entered."""
    changes: dict[str, Any] = {"fault_after_lines": point}
    if kind == "freeze-long":
        changes |= {"fault": "freeze", "freeze_seconds": 1200.0}
    else:
        changes |= {"fault": kind, "freeze_seconds": 240.0}
    rig.look(lambda device: setattr(device, "knobs", replace(device.knobs, **changes)))


def prepared(old: Settings) -> Settings:
    """An IOS that has what changes need, and nothing else yet."""
    ready = old.copy()
    ready.vtp, ready.archive_path = "transparent", "flash:phonerack"
    return ready


def end_of(rig: Any, old: Settings, new: Settings) -> str:
    """Which configuration runs in the end, once the switch answers and no timer runs. What an IOS
    is prepared with for good does not make it another."""
    olds = [old, prepared(old)] if rig.devices["sw1"].kind == "ios" else [old]
    calm = Knobs(timer_speed=PATIENCE.timer_speed)
    rig.look(lambda device: setattr(device, "knobs", calm))
    rig.look(lambda device: setattr(device, "frozen_until", None))
    rig.look(lambda device: setattr(device, "clock", lambda now=device.clock: now() + 9e6))
    running, startup = rig.settings(), rig.startup()
    assert startup in (*olds, new), "what it would boot with is in between"
    assert rig.look(lambda device: not device.down and device.revert is None)
    assert running in (*olds, new), f"what runs is in between: {apart(running, old)}"
    return "old" if running in olds else "new"


def apart(one: Settings, other: Settings) -> list[str]:
    """Where two configurations differ, for a person to read."""
    texts = ["\n".join(ios_config(settings)).splitlines() for settings in (other, one)]
    return list(difflib.unified_diff(*texts, lineterm="", n=0))


def strike(
    lab: Make,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: str,
    point: int,
    start: str = "drifted",
) -> tuple[str, str]:
    """One run with one trouble; what the run said, and what the switch has in the end."""
    rig = drifted(lab, name, start)
    old = rig.settings()
    new = settled(lab, name)
    there = rig.reachable()
    assert there == set(rig.rack.phones)
    with monkeypatch.context() as patch:
        if kind == "reject":
            Rejecting(patch, point)
        else:
            trouble(rig, kind, point)
        (answer,) = rig.run(patience=HASTY)
    said = "changed" if isinstance(answer, Report) else str(answer)
    found = end_of(rig, old, new)
    assert rig.reachable() == there, f"who was reachable before is reachable after: {said}"
    if isinstance(answer, Report):
        assert found == "new", said
        assert rig.startup() == new
    else:
        assert found == "old", said
        ends = ("the old configuration is back", "nothing was changed, but for")
        assert any(end in said for end in ends) or not rig.backups, said
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
    strike(lab, monkeypatch, name, kind, drawn.randint(8, 30))


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
    lab: Make, monkeypatch: pytest.MonkeyPatch, name: str, line: int, kind: str, found: str
) -> None:
    rig = drifted(lab, name)
    old = rig.settings()
    new = settled(lab, name)
    at = LATE[name][line]
    changes: dict[str, Any] = {"fault": kind, "fault_at": at}
    if at == "show startup-config":  # its first look is before the change, its last line is meant
        changes |= {
            "fault_at": "",
            "fault_after_lines": lines_of_a_run(lab, monkeypatch, name, kind),
        }
    rig.look(lambda device: setattr(device, "knobs", replace(device.knobs, **changes)))
    (answer,) = rig.run(patience=HASTY)
    assert end_of(rig, old, new) == found, answer
    if found == "new":
        assert isinstance(answer, Report), answer
        assert rig.startup() == new
    else:
        assert "the old configuration is back" in str(answer)


MATRIX = [
    (name, kind, start)
    for name in KINDS
    for kind in TROUBLES
    for start in START
    if name == "cisco_ios" or start != "reload-timer"
]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind", "start"), MATRIX)
def test_trouble_at_twenty_points(
    lab: Make,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    kind: str,
    start: str,
) -> None:
    monkeypatch.setattr("fleetctl.switches.apply._SECONDS_A_LINE", 0.1)
    lines = lines_of_a_run(lab, monkeypatch, name, kind, start)
    drawn = random.Random(f"{SEED} {name} {kind} {start} all")  # noqa: S311
    points = drawn.sample(range(1, lines + 1), min(20, lines))
    counts = Counter(
        strike(lab, monkeypatch, name, kind, point, start)[1] for point in sorted(points)
    )
    with capsys.disabled():
        print(f"\n{name} {kind} {start}: {dict(counts)} of {lines} lines")
    assert sum(counts.values()) == len(points)


@pytest.mark.parametrize(
    ("kind", "point", "found"),
    [
        ("drop", "path flash", "old"),
        ("power-off", "reload cancel", "old"),
        ("drop", "reload cancel", "new"),
    ],
)
def test_trouble_while_a_new_ios_is_prepared(lab: Make, kind: str, point: str, found: str) -> None:
    rig = drifted(lab, "cisco_ios", "factory")
    old, new = rig.settings(), settled(lab, "cisco_ios")
    rig.look(
        lambda device: setattr(device, "knobs", replace(device.knobs, fault=kind, fault_at=point))
    )
    (answer,) = rig.run(patience=HASTY)
    assert isinstance(answer, Report) == (found == "new"), answer
    assert end_of(rig, old, new) == found, answer
    assert rig.reachable() == set(rig.rack.phones)


def test_what_a_new_ios_is_prepared_with_is_guarded_by_a_reload(
    lab: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = lab()
    armed: dict[str, bool] = {}
    type_line = Application._type

    def watch(application: Application, line: str, step: Step) -> None:
        type_line(application, line, step)
        armed[line] = rig.look(lambda device: device.reload_at is not None)

    monkeypatch.setattr(Application, "_type", watch)
    (report,) = rig.run(patience=HASTY)
    assert isinstance(report, Report), report
    lines = ("vtp mode transparent", "archive", "path flash:phonerack")
    assert [line for line in armed if armed[line]] == list(lines)
    assert rig.look(lambda device: device.reload_at) is None
