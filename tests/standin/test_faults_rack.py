"""Faults of stand-in phones are real: seen over ssh and by the clock, and undone by `heal`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from small_rack import PHONES, SmallRack, output

pytestmark = pytest.mark.standin

# As many computing threads as there are cores; the shell tells the seconds that passed.
LOOPS = """
TIMEFORMAT=%R
count() { for ((i = 0; i < 40000; i++)); do :; done; }
time { for core in $(seq CORES); do count & done; wait; }
""".replace("CORES", str(os.cpu_count()))

RUNS = 6


@pytest.fixture
def rack(faulty_rack: SmallRack) -> Iterator[SmallRack]:
    yield faulty_rack
    if any(seen != ("running", []) for seen in faulty_rack.seen().values()):
        faulty_rack.standin("heal")


@pytest.mark.parametrize(
    ("fault", "state"), [("kill", "dead"), ("hang", "paused"), ("unplug", "running")]
)
def test_a_lost_phone_is_silent_until_it_is_healed(rack: SmallRack, fault: str, state: str) -> None:
    rack.standin("fault", "phone003", fault)
    assert rack.seen()["phone003"] == (state, [fault])
    assert rack.is_silent("phone003")
    assert rack.answers("phone004")
    rack.standin("heal", "phone003")
    assert rack.seen()["phone003"] == ("running", [])
    assert rack.answers("phone003")


def test_several_phones_take_several_faults_and_one_heal_undoes_all(rack: SmallRack) -> None:
    rack.standin("fault", "phone[001-002]", "slow=0.5", "unplug")
    rack.standin("fault", "phone002", "kill")
    seen = rack.seen()
    assert seen["phone001"] == ("running", ["slow=0.5", "unplug"])
    assert set(seen["phone002"][1] or ()) == {"slow=0.5", "unplug", "kill"}
    assert seen["phone003"] == ("running", [])
    rack.standin("heal")
    assert all(fine == ("running", []) for fine in rack.seen().values())
    assert all(rack.answers(phone) for phone in PHONES)


def test_a_rebooted_phone_comes_back_with_its_files_and_without_its_processes(
    rack: SmallRack,
) -> None:
    rack.ssh("phone001", "echo kept > mark; sleep 987 > mark.log 2>&1 &")
    rack.standin("fault", "phone001", "reboot")
    assert rack.answers("phone001")
    found = rack.ssh("phone001", "cat mark; cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout
    assert found.startswith("kept")
    assert "sleep 987" not in found


def test_two_phones_change_ports_and_both_go_on(rack: SmallRack) -> None:
    rack.standin("fault", "phone001", "swap-port=phone003")
    assert rack.seen()["phone003"] == ("running", ["swap-port=phone001"])
    assert all(rack.answers(phone) for phone in ("phone001", "phone003"))
    rack.standin("fault", "phone001", "unplug")
    links = json.loads(output("ip", "-n", rack.namespace, "-json", "link", "show"))
    up = {link["ifname"]: "UP" in link["flags"] for link in links}
    assert (up["sw1.1"], up["sw2.1"]) == (True, False)
    rack.standin("heal", "phone003")
    assert rack.seen()["phone003"] == ("running", [])
    assert rack.seen()["phone001"] == ("running", ["unplug"])
    rack.standin("heal")
    assert all(rack.answers(phone) for phone in ("phone001", "phone003"))


# A ratio of times: it needs the machine to itself, and the suite runs two racks side by side.
@pytest.mark.soak
def test_a_phone_at_half_its_share_computes_for_twice_as_long(rack: SmallRack) -> None:
    def compute_seconds() -> float:
        """The shortest of several runs: other work on this machine only lengthens one."""
        return min(float(rack.ssh("phone002", LOOPS).stderr.split()[0]) for _ in range(RUNS))

    before = compute_seconds()
    rack.standin("fault", "phone002", "slow=0.5")
    slowed = compute_seconds()
    rack.standin("fault", "phone002", "reboot")
    assert rack.answers("phone002")
    still_slowed = compute_seconds()
    rack.standin("heal", "phone002")
    healed = compute_seconds()
    assert slowed / before == pytest.approx(2, rel=0.25)
    assert still_slowed / before == pytest.approx(2, rel=0.25)
    assert healed / before == pytest.approx(1, rel=0.25)


def test_faults_survive_a_mending_up(rack: SmallRack) -> None:
    rack.standin("fault", "phone001", "unplug")
    rack.standin("fault", "phone004", "kill")
    rack.standin("up")
    seen = rack.seen()
    assert seen["phone001"] == ("running", ["unplug"])
    assert seen["phone004"] == ("dead", ["kill"])
    rack.standin("heal")
    assert rack.answers("phone004")


def test_wrong_input_changes_nothing_and_names_what_is_right(rack: SmallRack) -> None:
    for arguments, hint in [
        (("phone001", "melt"), "unplug"),
        (("phone009", "kill"), "phone009"),
        (("phone001", "slow=3"), "less than 1"),
        (("phone001", "hang", "melt"), "unknown fault `melt`"),
    ]:
        refused = rack.try_standin("fault", *arguments)
        assert refused.returncode == 2
        assert hint in refused.stderr
    assert all(fine == ("running", []) for fine in rack.seen().values())


def test_a_dead_phone_takes_no_other_fault(rack: SmallRack) -> None:
    rack.standin("fault", "phone001", "kill")
    refused = rack.try_standin("fault", "phone[001-002]", "unplug")
    assert refused.returncode == 3
    assert "phone001" in refused.stderr
    assert rack.seen()["phone002"] == ("running", ["unplug"])
    rack.standin("heal")
