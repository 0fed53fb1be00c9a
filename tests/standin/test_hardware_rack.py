"""Hardware and its faults on real stand-in phones: seen by their tools, felt by programs."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from small_rack import PHONES, SmallRack, output

from standin.daemon.control import ask
from standin.daemon.process import started_ticks
from standin.hardware.cgroups import Group

pytestmark = pytest.mark.standin

PHONE = "phone002"

# As many computing threads as there are cores, for two seconds.
COMPUTE = """
count() { end=$((SECONDS + 2)); while ((SECONDS < end)); do :; done; }
for core in $(seq CORES); do count & done; wait
""".replace("CORES", str(os.cpu_count()))


@pytest.fixture
def rack(faulty_rack: SmallRack) -> Iterator[SmallRack]:
    """The rack in its usual surroundings, before and afterwards."""
    yield faulty_rack
    if any(seen != ("running", []) for seen in faulty_rack.seen().values()):
        faulty_rack.standin("heal")
    folder, usual = faulty_rack.folder / "standin", ["fan=on", "ambient=25", "temperature=26"]
    ask(folder, "hub", phones=PHONES, on=True)
    ask(folder, "hardware", phones=PHONES, set=[*usual, "charge=80"], pace=1.0)


def eventually(holds: Callable[[], Any]) -> bool:
    """Whether it comes to hold while a busy machine gets round to it."""
    deadline = time.monotonic() + 120
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def computed(rack: SmallRack) -> float:
    """What part of its full share of the processor the phone gets while all of it computes."""
    path = output("podman", "inspect", "-f", "{{.State.CgroupPath}}", f"{rack.namespace}-{PHONE}")
    group = Group.at(path.strip())
    began, before = time.monotonic(), group.used_seconds() or 0.0
    assert rack.ssh(PHONE, COMPUTE).returncode == 0
    used, took = (group.used_seconds() or 0.0) - before, time.monotonic() - began
    return used / took / ((os.cpu_count() or 1) / len(PHONES))


def battery(rack: SmallRack) -> dict[str, Any]:
    """What Termux:API would tell of the battery."""
    said: dict[str, Any] = json.loads(
        rack.container(PHONE, "/system/bin/cat", "/standin/hw/battery_status.json")
    )
    return said


def test_real_work_warms_the_processor(rack: SmallRack) -> None:
    rack.hardware("--pace", "20")
    idle = rack.hardware(PHONE)[PHONE]["processor_celsius"]

    def is_warmer() -> bool:
        computed(rack)
        return rack.hardware(PHONE)[PHONE]["processor_celsius"] > idle + 2

    assert eventually(is_warmer)


def test_a_phone_that_is_too_warm_computes_less_and_once_cool_as_before(rack: SmallRack) -> None:
    rack.hardware(PHONE, "fan=off", "ambient=28", "--pace", "0")
    warm = rack.hardware("--step", "3600", "--load", "1")[PHONE]
    assert warm["thermal_status"] in (1, 2)
    assert warm["speed"] < 0.9
    said = rack.container(PHONE, "/system/bin/cat", "/standin/hw/dumpsys_thermalservice.txt")
    assert f"Thermal Status: {warm['thermal_status']}" in said
    # However busy this machine is, a phone never gets more.
    assert 0 < computed(rack) < warm["speed"] * 1.05
    rack.hardware(PHONE, "fan=on", "temperature=26")
    cool = rack.hardware("--step", "1")[PHONE]
    assert (cool["thermal_status"], cool["speed"]) == (0, 1)


def test_a_hot_phone_throttles_at_once_on_top_of_being_slow_and_until_healed(
    rack: SmallRack,
) -> None:
    rack.standin("fault", PHONE, "slow=0.5", "hot")
    assert eventually(lambda: rack.hardware(PHONE)[PHONE]["speed"] == 0.25)
    assert rack.hardware(PHONE)[PHONE]["skin_celsius"] >= 45
    assert 0 < computed(rack) < 0.25 * 1.1
    rack.standin("heal", PHONE)
    assert eventually(lambda: rack.hardware(PHONE)[PHONE]["speed"] == 1)


@pytest.mark.soak
def test_the_hub_cuts_power_and_a_hub_that_lies_does_not(rack: SmallRack) -> None:
    rack.hardware("phone[001-002]", "outlet=A")
    said = json.loads(rack.standin("hub", "off", PHONE, "-o", "json"))["outlets"]
    assert said == [{"outlet": "A", "state": "off", "phones": ["phone001", "phone002"]}]
    assert battery(rack)["plugged"] == "UNPLUGGED"
    assert battery(rack)["current"] < 0
    rack.standin("fault", "phone001", "hub-lies")
    assert eventually(lambda: battery(rack)["plugged"] == "PLUGGED_AC")
    assert json.loads(rack.standin("hub", "show", PHONE, "-o", "json"))["outlets"] == said
    rack.standin("heal")
    assert eventually(lambda: battery(rack)["plugged"] == "UNPLUGGED")
    rack.standin("hub", "on", PHONE)
    assert battery(rack)["plugged"] == "PLUGGED_AC"
    rack.hardware("phone001", "outlet=phone001")
    rack.hardware("phone002", "outlet=phone002")


def test_a_phone_without_power_dies_when_its_battery_is_empty(rack: SmallRack) -> None:
    rack.standin("hub", "off", PHONE)
    rack.hardware(PHONE, "charge=1")
    rack.hardware("--step", "3600", "--load", "1")
    assert eventually(lambda: rack.seen()[PHONE] == ("dead", None))
    assert "battery empty" in rack.standin("list")
    rack.standin("hub", "on", PHONE)
    rack.standin("heal", PHONE)
    assert rack.answers(PHONE)
    assert battery(rack)["percentage"] >= 5


def test_a_full_phone_writes_nothing_and_loses_nothing(rack: SmallRack) -> None:
    rack.ssh(PHONE, "echo kept > mark")
    rack.standin("fault", PHONE, "disk-full", "reboot")
    assert rack.answers(PHONE)
    for place in ("$HOME", "$TMPDIR", "$PREFIX/var/lib/dpkg"):
        full = rack.ssh(PHONE, f"head -c 100000 /dev/zero > {place}/more")
        assert full.returncode != 0
        assert "No space left on device" in full.stderr
    free = rack.ssh(PHONE, "df --output=avail $HOME | tail -n 1").stdout
    assert int(free) == 0
    rack.standin("fault", PHONE, "disk-full=200m")
    free = rack.ssh(PHONE, "df --output=avail $HOME | tail -n 1").stdout
    assert 200_000 < int(free) <= 204_800
    rack.standin("heal", PHONE)
    assert (
        rack.ssh(PHONE, "head -c 300000000 /dev/zero > more; rm more; cat mark").stdout == "kept\n"
    )


def test_a_phones_clock_is_wrong_for_all_its_programs_and_it_stays_reachable(
    rack: SmallRack,
) -> None:
    def phones_time() -> float:
        return datetime.fromisoformat(rack.ssh(PHONE, "date -Iseconds").stdout.strip()).timestamp()

    rack.standin("fault", PHONE, "clock=+90s")
    assert rack.answers(PHONE)
    assert 85 < phones_time() - time.time() < 95
    rack.standin("fault", PHONE, "clock=1970")
    assert rack.answers(PHONE)
    assert datetime.fromtimestamp(phones_time(), UTC).year == 1970
    assert (
        rack.ssh(PHONE, "sleep 0.1 && tail -n 1 $PREFIX/var/log/sv/sshd/current").stdout[:4]
        == "1970"
    )
    assert rack.seen()[PHONE] == ("running", ["clock=1970"])
    rack.standin("heal", PHONE)
    assert rack.answers(PHONE)
    assert abs(phones_time() - time.time()) < 30


def test_a_slow_adapter_carries_no_more_than_it_can(rack: SmallRack) -> None:
    rack.standin("fault", PHONE, "300mbit")
    rack.standin("fault", PHONE, "100mbit", "reboot")
    assert rack.seen()[PHONE] == ("running", ["100mbit"])
    assert rack.answers(PHONE)
    before = time.monotonic()
    assert rack.ssh(PHONE, "head -c 25000000 /dev/zero").returncode == 0
    assert time.monotonic() - before > 25e6 * 8 / 100e6 * 0.9
    rack.standin("heal", PHONE)
    port = ("tc", "-n", rack.namespace, "qdisc", "show", "dev", "sw1.2")
    assert "tbf" not in output(*port)


def test_lost_syns_keep_new_connections_out_and_old_ones_up(rack: SmallRack) -> None:
    rack.standin("fault", PHONE, "syn-loss=100%")
    assert rack.is_silent(PHONE)
    rack.standin("fault", PHONE, "syn-loss=0.001%", "reboot")
    assert rack.answers(PHONE)
    rack.standin("heal", PHONE)
    assert rack.answers(PHONE)


def test_a_flapping_link_goes_down_and_comes_back_and_stays_up_once_healed(
    rack: SmallRack,
) -> None:
    def is_up() -> bool:
        shown = output("ip", "-n", rack.namespace, "-json", "link", "show", "sw1.2")
        return "UP" in json.loads(shown)[0]["flags"]

    rack.standin("fault", PHONE, "flap=4s")
    assert rack.seen()[PHONE] == ("running", ["flap=4s"])
    assert eventually(lambda: not is_up())
    assert eventually(is_up)
    assert eventually(lambda: not is_up())
    rack.standin("heal", PHONE)
    assert eventually(is_up)
    assert rack.answers(PHONE)


def test_all_faults_at_once_are_listed_and_healed(rack: SmallRack) -> None:
    faults = ["hot", "flap=20s", "300mbit", "syn-loss=3%", "disk-full=1g", "hub-lies", "hang"]
    rack.standin("fault", PHONE, *faults)
    state, seen = rack.seen()[PHONE]
    assert (state, set(seen or ())) == ("paused", set(faults))
    rack.standin("heal", PHONE)
    assert rack.seen()[PHONE] == ("running", [])
    assert rack.answers(PHONE)


def test_a_background_process_that_died_is_named_and_up_starts_it_again(rack: SmallRack) -> None:
    pid = json.loads(rack.standin("list", "-o", "json"))["daemon"]["pid"]
    rack.hardware(PHONE, "charge=33")
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: started_ticks(pid) is None)
    assert json.loads(rack.standin("list", "-o", "json"))["daemon"]["pid"] is None
    refused = rack.try_standin("fault", PHONE, "hot")
    assert refused.returncode == 1
    assert "`fleetctl standin up` starts it" in refused.stderr
    assert rack.seen()[PHONE] == ("running", [])
    rack.standin("up")
    assert json.loads(rack.standin("list", "-o", "json"))["daemon"]["pid"] not in (None, pid)
    assert 32 < rack.hardware(PHONE)[PHONE]["charge_percent"] < 34


def test_what_cannot_be_set_is_refused_with_what_can(rack: SmallRack) -> None:
    for arguments, hint in [
        ((PHONE, "colour=red"), "ambient"),
        ((PHONE, "ambient=500"), "-20 to 70"),
        (("fan=off",), "Name the phones"),
        (("--load", "1"), "--step"),
    ]:
        refused = rack.try_standin("hardware", *arguments)
        assert refused.returncode == 2
        assert hint in refused.stderr


@pytest.mark.soak
def test_a_locked_phone_that_starts_anew_waits_for_its_owner(rack: SmallRack) -> None:
    rack.standin("fault", PHONE, "locked")
    assert rack.answers(PHONE)
    rack.standin("fault", PHONE, "reboot")
    assert rack.is_silent(PHONE, 4)
    assert rack.seen()[PHONE] == ("running", ["locked"])
    rack.standin("heal", PHONE)
    assert rack.answers(PHONE)
    rack.standin("fault", PHONE, "reboot")
    assert rack.answers(PHONE)


def test_android_kills_the_oldest_of_too_many_children_unless_it_is_told_not_to(
    rack: SmallRack,
) -> None:
    def limit(children: int) -> None:
        setting = ("activity_manager", "max_phantom_processes", str(children))
        rack.container(PHONE, "/system/bin/device_config", "put", *setting)

    def children() -> list[str]:
        return rack.container(PHONE, "/system/bin/ps", "-o", "user,args").splitlines()

    def count() -> int:
        return sum(line.startswith("u0_a") for line in children())

    rack.ssh(PHONE, "for i in $(seq 40); do sleep 987 >/dev/null 2>&1 & done")
    assert count() >= 44
    limit(32)
    try:
        assert eventually(lambda: count() <= 32)
        assert not any("runsvdir" in line for line in children())
        assert any("sleep 987" in line for line in children())
    finally:
        limit(2**31 - 1)
        rack.standin("fault", PHONE, "reboot")
    assert rack.answers(PHONE)
