"""A rack's hardware as the daemon plays it, with control groups of files instead of containers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from test_daemon import make_rig

from standin.android.fresh import enrolled
from standin.android.state import read_state, write_state
from standin.engine import CpuLimit
from standin.faults import Faults, write_faults
from standin.hardware import HardwareState
from standin.hardware.cgroups import Group
from standin.hardware.files import kept_state, write_hardware
from standin.hardware.plant import Plant
from standin.hardware.settings import parse_setting

ONE, TWO = "phone001", "phone002"


class World:
    """Two phones on one outlet each, and what their control groups say."""

    def __init__(self, home: Path) -> None:
        self.rig = make_rig(home)
        self.cgroup = home / "cgroup"
        for name in (ONE, TWO):
            folder = self.rig.folders.hardware(name)
            folder.mkdir(parents=True)
            write_hardware(folder, HardwareState.plausible(name, "SM-G975F", 31, outlet=name))
            made = enrolled(31, "x86_64", 10_001, wired=True, time_server="10.0.0.2", signer="s")
            write_state(folder, made)
            self.switch_on(name)
        self.plant = Plant(self.rig)
        self.plant.groups = {name: Group.at(name, self.cgroup) for name in (ONE, TWO)}

    def switch_on(self, name: str) -> None:
        for controller in ("cpu", "cpuacct"):
            (self.cgroup / controller / name).mkdir(parents=True)
        (self.cgroup / "cpuacct" / name / "cpuacct.usage").write_text("0")
        (self.cgroup / "cpu" / name / "cpu.cfs_quota_us").write_text("-1\n")
        (self.cgroup / "cpu" / name / "cpu.cfs_period_us").write_text("100000\n")

    def compute(self, name: str, seconds: float) -> None:
        usage = self.cgroup / "cpuacct" / name / "cpuacct.usage"
        usage.write_text(str(int(usage.read_text()) + round(seconds * 1e9)))

    def quota(self, name: str) -> float:
        """The part of one processor that it may use."""
        folder = self.cgroup / "cpu" / name
        quota, period = (
            int((folder / file).read_text()) for file in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        )
        return quota / period

    def faults(self, **faults: Faults) -> None:
        path = self.rig.folders.faults
        write_faults(path, faults)
        # Two writes within one tick of the file system's clock are two all the same.
        os.utime(path, ns=(0, path.stat().st_mtime_ns + len(faults) + 1))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.plant.tick(1)
    return world


SHARE = (os.cpu_count() or 1) / 2


def test_a_phone_gets_its_share_and_is_measured_against_it(world: World) -> None:
    assert world.quota(ONE) == pytest.approx(SHARE, rel=0.01)
    world.compute(ONE, 0.5 * SHARE)
    world.plant.tick(1)
    assert world.plant.states[ONE].load == pytest.approx(0.5)
    assert world.plant.states[TWO].load == 0


def test_a_hot_phone_throttles_at_once_and_a_healed_one_no_more(world: World) -> None:
    world.faults(phone001={"hot": None, "slow": 0.5})
    world.plant.tick(1)
    assert world.quota(ONE) == pytest.approx(SHARE * 0.25, rel=0.01)
    assert world.quota(TWO) == pytest.approx(SHARE, rel=0.01)
    world.faults()
    world.plant.tick(1)
    assert world.quota(ONE) == pytest.approx(SHARE, rel=0.01)


def test_a_limit_that_somebody_else_has_set_is_put_right(world: World) -> None:
    world.plant.groups[ONE].limit(CpuLimit(1000, 100_000))
    world.plant.tick(1)
    assert world.quota(ONE) == pytest.approx(SHARE, rel=0.01)


def test_a_phone_that_is_off_stays_off_and_charges_and_starts_with_some_charge(
    world: World, tmp_path: Path
) -> None:
    world.plant.switch([ONE], on=False)
    world.plant.change([ONE], parse_setting("charge=0"))
    assert world.plant.tick(1) == [ONE]
    (world.cgroup / "cpuacct" / ONE).rename(tmp_path / "gone")
    assert world.plant.tick(1) == []
    assert world.plant.describe(ONE)["is_on"] is False
    world.plant.switch([ONE], on=True)
    assert world.plant.step(600, load=1.0) == []
    assert world.plant.states[ONE].battery.charge_percent > 3
    (tmp_path / "gone").rename(world.cgroup / "cpuacct" / ONE)
    assert world.plant.tick(1) == []
    assert world.plant.states[ONE].battery.charge_percent >= 5


def test_a_phone_too_hot_to_live_switches_off(world: World) -> None:
    world.plant.change([TWO], parse_setting("temperature=70"))
    assert world.plant.tick(1) == [TWO]


def test_one_outlet_feeds_all_that_hang_on_it_also_when_it_lies(world: World) -> None:
    world.plant.change([ONE, TWO], parse_setting("outlet=A"))
    assert world.plant.switch([ONE], on=False) == {"A": (False, [ONE, TWO])}
    world.plant.refresh()
    assert not world.plant.states[TWO].battery.is_plugged
    world.faults(phone001={"hub-lies": None})
    world.plant.refresh()
    assert world.plant.states[TWO].battery.is_plugged
    assert world.plant.switch([TWO], on=None) == {"A": (False, [ONE, TWO])}


@pytest.mark.parametrize(("usb", "is_plugged"), [("nothing", False), ("controller", True)])
def test_a_phone_off_its_hub_does_not_hang_on_the_outlet(
    world: World, usb: str, is_plugged: bool
) -> None:
    folder = world.rig.folders.hardware(ONE)
    write_state(folder, replace(read_state(folder), usb=usb))  # type: ignore[arg-type]
    world.plant.switch([ONE], on=False)
    world.plant.tick(1)
    assert world.plant.states[ONE].battery.is_plugged is is_plugged


def test_the_charge_limit_follows_android_and_not_where_a_person_has_set_it(world: World) -> None:
    folder = world.rig.folders.hardware(ONE)

    def protect(value: str) -> float:
        state = read_state(folder)
        state.put_setting("global", "protect_battery", value)
        write_state(folder, state)
        world.plant.tick(1)
        return world.plant.states[ONE].battery.charge_limit_percent

    assert [protect(value) for value in ("0", "1", "0")] == [100, 85, 100]
    world.plant.change([ONE], parse_setting("limit=70"))
    assert [protect(value) for value in ("1", "0")] == [70, 70]


def test_what_is_set_lasts_over_the_daemons_end(world: World) -> None:
    world.plant.change([ONE], parse_setting("ambient=33"))
    world.plant.switch([TWO], on=False)
    world.plant.set_pace(60)
    world.plant.tick(1)
    again = Plant(world.rig)
    assert again.states[ONE].surroundings.ambient_celsius == 33
    assert again.hub == world.plant.hub
    assert kept_state(world.rig.folders.hardware(ONE)) == again.states[ONE]


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_time_goes_at_its_pace_and_stands_still_at_none(world: World, seconds: float) -> None:
    def discharged(work: Callable[[], object]) -> float:
        before = world.plant.states[ONE].battery.charge_percent
        work()
        return before - world.plant.states[ONE].battery.charge_percent

    world.plant.switch([ONE], on=False)
    world.plant.set_pace(0)
    assert discharged(lambda: world.plant.tick(seconds)) == 0
    slow = discharged(lambda: world.plant.step(10 * seconds, load=None))
    world.plant.set_pace(10)
    assert discharged(lambda: world.plant.tick(seconds)) == pytest.approx(slow, rel=1e-2)


def test_a_group_of_version_2_is_read_and_limited_too(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    group = Group.at("/machine.slice/libpod-1.scope", tmp_path)
    assert group.used_seconds() is None
    assert group.pids() == []
    group.accounting.mkdir(parents=True)
    (group.accounting / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (group.accounting / "cpu.max").write_text("max 100000\n")
    (group.accounting / "cgroup.procs").write_text("12\n13\n")
    assert group.used_seconds() == 2.5
    assert group.pids() == [12, 13]
    assert group.limit(CpuLimit(3_333, 10_000))
    assert not group.limit(CpuLimit(3_333, 10_000))
    assert (group.accounting / "cpu.max").read_text() == "3333 10000"
