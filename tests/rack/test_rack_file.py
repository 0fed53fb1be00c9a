"""What a rack file may say, and what it says back when it is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.rack import Rack, RackError, load_rack

GOOD = """\
rack: lab
network:
  cidr: 10.1.0.0/24
  medium: ethernet
  controller: 10.1.0.1
switches:
  sw1: {ports: 10, uplinks: 9-10, reserved: 8}
phones:
  - names: phone[001-002]
    switch: sw1
    ports: 1-2
    addresses: 10.1.0.11-12
  - names: phone003
    switch: sw1
    ports: 3
    addresses: 10.1.0.13
"""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))


def load(tmp_path: Path, text: str) -> Rack:
    path = tmp_path / "rack.yml"
    path.write_text(text)
    return load_rack(path)


def mistakes(tmp_path: Path, text: str) -> list[str]:
    """Messages without the folder in front."""
    with pytest.raises(RackError) as caught:
        load(tmp_path, text)
    return [str(mistake).removeprefix(f"{tmp_path}/") for mistake in caught.value.mistakes]


def with_line(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_a_rack_without_mistakes_loads(tmp_path: Path) -> None:
    rack = load(tmp_path, GOOD)
    assert [(p.name, p.address, p.switch, p.port) for p in rack.phones.values()] == [
        ("phone001", "10.1.0.11", "sw1", 1),
        ("phone002", "10.1.0.12", "sw1", 2),
        ("phone003", "10.1.0.13", "sw1", 3),
    ]
    assert rack.warnings == ()


def test_two_phones_need_three_lines(tmp_path: Path) -> None:
    rack = load(
        tmp_path,
        "rack: home\n"
        "network: {cidr: 192.168.1.0/24, medium: wifi}\n"
        "phones: [192.168.1.20, 192.168.1.21]\n",
    )
    assert {p.name: p.address for p in rack.phones.values()} == {
        "phone001": "192.168.1.20",
        "phone002": "192.168.1.21",
    }
    assert rack.network.dhcp == "theirs"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "10.1.0.13",
            "10.1.0.12",
            "rack.yml:16: address 10.1.0.12 of phone003 belongs to phone002 already (line 12)",
            id="duplicate address",
        ),
        pytest.param(
            "addresses: 10.1.0.13",
            "addresses: 10.1.0.1",
            "rack.yml:16: address 10.1.0.1 of phone003 belongs to the controller host already",
            id="a phone with the controller's address",
        ),
        pytest.param(
            "ports: 3",
            "ports: 2",
            "rack.yml:15: phone003 on port 2 of sw1, where phone002 is already (line 11)",
            id="overlapping ports",
        ),
        pytest.param(
            "ports: 3",
            "ports: 11",
            "rack.yml:15: phone003 on port 11 of sw1, which has ports 1 to 10",
            id="port beyond the switch",
        ),
        pytest.param(
            "ports: 3",
            "ports: 9",
            "rack.yml:15: phone003 on port 9 of sw1, which is an uplink",
            id="port on an uplink",
        ),
        pytest.param(
            "ports: 3",
            "ports: 8",
            "rack.yml:15: phone003 on port 8 of sw1, which is reserved",
            id="port on a reserved port",
        ),
        pytest.param(
            "uplinks: 9-10",
            "uplinks: 9-11",
            "rack.yml:7: uplinks port 11 of sw1, which has ports 1 to 10",
            id="uplink beyond the switch",
        ),
        pytest.param(
            "ports: 1-2",
            "ports: 1-3",
            "rack.yml:11: 3 ports for 2 addresses",
            id="more ports than phones",
        ),
        pytest.param(
            "phone[001-002]",
            "phone[001-003]",
            "rack.yml:9: 3 names for 2 addresses",
            id="more names than addresses",
        ),
        pytest.param(
            "names: phone003",
            "names: phone002",
            "rack.yml:13: phone phone002 twice",
            id="duplicate name",
        ),
        pytest.param(
            "    ports: 3\n",
            "    prots: 3\n",
            "rack.yml:15: unknown key `prots`; did you mean `ports`?",
            id="unknown key of a group",
        ),
        pytest.param(
            "  medium:",
            "  mediun: wifi\n  medium:",
            "rack.yml:4: unknown key `mediun`; did you mean `medium`?",
            id="unknown key of the network",
        ),
        pytest.param(
            "uplinks",
            "uplink",
            "rack.yml:7: unknown key `uplink`; did you mean `uplinks`?",
            id="unknown key of a switch",
        ),
        pytest.param(
            "medium: ethernet",
            "medium: lan",
            "rack.yml:4: `medium: lan` is unknown; use 'ethernet' or 'wifi'",
            id="unknown medium",
        ),
        pytest.param(
            "  medium: ethernet\n",
            "",
            "rack.yml:2: `medium` is missing; add it",
            id="missing medium",
        ),
        pytest.param(
            "10.1.0.13",
            "10.2.0.13",
            "rack.yml:16: address 10.2.0.13 of phone003 is no host address of 10.1.0.0/24",
            id="address outside the network",
        ),
        pytest.param(
            "10.1.0.13",
            "10.1.0.255",
            "rack.yml:16: address 10.1.0.255 of phone003 is no host address of 10.1.0.0/24",
            id="broadcast address",
        ),
        pytest.param(
            "10.1.0.13",
            "10.1.0.300",
            "rack.yml:16: `10.1.0.300` is no address",
            id="no address",
        ),
        pytest.param(
            "10.1.0.11-12",
            "10.1.0.12-11",
            "rack.yml:12: `10.1.0.12-11` is no rising range",
            id="falling address range",
        ),
        pytest.param(
            "10.1.0.0/24",
            "10.1.0.7/24",
            "rack.yml:3: `10.1.0.7/24` names a host, not a network; write 10.1.0.0/24",
            id="host bits in the network",
        ),
        pytest.param(
            "names: phone003\n    switch: sw1",
            "names: phone003\n    switch: sw2",
            "rack.yml:14: no switch `sw2`; did you mean `sw1`?",
            id="unknown switch",
        ),
        pytest.param(
            "    switch: sw1\n    ports: 3\n",
            "    ports: 3\n",
            "rack.yml:14: ports without a switch; add `switch: NAME`",
            id="ports without switch",
        ),
        pytest.param(
            "    ports: 3\n",
            "",
            "rack.yml:14: phones on switch sw1 without ports",
            id="switch without ports",
        ),
        pytest.param(
            "names: phone003",
            "names: Phone 3",
            "rack.yml:13: 'Phone 3' is no phone name",
            id="a name that is no slug",
        ),
        pytest.param(
            "names: phone003",
            "names: services",
            "rack.yml:13: `services` is a name that every rack has",
            id="a phone called as the services host",
        ),
        pytest.param(
            "names: phone003",
            "names: sw1",
            "rack.yml:13: phone sw1 bears the name of a group or switch",
            id="a phone called as a switch",
        ),
        pytest.param(
            "names: phone[001-002]",
            "names: phone[002,001]",
            "rack.yml:9: `phone[002,001]` counts downwards",
            id="names in falling order",
        ),
        pytest.param(
            "names: phone003",
            "names: phone003\n    group: sw1",
            "rack.yml:14: group `sw1` bears a switch's name",
            id="a group called as a switch",
        ),
        pytest.param(
            "rack: lab",
            "rack: lab\nversion: 2",
            "rack.yml:2: version 2 is newer than 1, the newest that this fleetctl knows",
            id="version of the future",
        ),
        pytest.param(
            "phones:",
            "versions: {openmpi: 6.1}\nphones:",
            "rack.yml:8: `openmpi: 6.1` is unknown; use '5.0' or '4.1'",
            id="unknown Open MPI series",
        ),
        pytest.param(
            "  medium: ethernet\n",
            "  medium: ethernet\n  medium: wifi\n",
            "rack.yml:5: key `medium` twice (first on line 4); keep one",
            id="doubled key",
        ),
        pytest.param(
            "  medium: ethernet\n",
            "  medium: ethernet\n  dhcp: ours\n  controller:\n",
            "rack.yml:7: key `controller` twice",
            id="doubled key with an empty value",
        ),
        pytest.param(
            "sw1: {ports",
            "sw1: {platform: cisco_ios, ports",
            "rack.yml:7: switch sw1 has no address; add it, or `platform: unmanaged`",
            id="a managed switch without address",
        ),
        pytest.param(
            "sw1: {ports",
            "switch-number-one-in-the-rack: {ports",
            "rack.yml:7: 'switch-number-one-in-the-rack' is no switch name",
            id="switch name too long",
        ),
    ],
)
def test_a_mistake_names_line_and_cure(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = mistakes(tmp_path, with_line(old, new))
    assert [text for text in found if text.startswith(expected)], found


@pytest.mark.parametrize("model", ["'S10?'", '"S10\\t"', "S'10", "'S10 '", "'S\"10'", "'{{ x }}'"])
def test_text_that_switches_choke_on_is_refused(tmp_path: Path, model: str) -> None:
    text = with_line("names: phone003", f"names: phone003\n    model: {model}")
    (found,) = mistakes(tmp_path, text)
    assert found.startswith("rack.yml:14: ")


def test_all_mistakes_come_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = GOOD.replace("ports: 3", "ports: 9").replace("10.1.0.11-12", "10.9.0.11-12")
    lines = [found.split(":")[1] for found in mistakes(tmp_path, text)]
    assert lines == ["12", "12", "15"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rack: [", "rack.yml:2: no valid YAML"),
        ("rack: lab\n\tnetwork: 1\n", "rack.yml:2: no valid YAML"),
        ("", "rack.yml:1: the file holds no mapping"),
        ("- a\n- b\n", "rack.yml:1: the file holds no mapping"),
        ("rack: &a [*a]\n", "rack.yml:1: an alias inside its own anchor"),
        (
            "rack: lab\nphones: {}\nnetwork: {cidr: 10.0.0.0/24, medium: wifi}\n",
            "rack.yml:2: `phones`",
        ),
        (
            "rack: lab\nphones: []\nnetwork: {cidr: 10.0.0.0/24, medium: wifi}\n",
            "rack.yml:2: `phones`",
        ),
    ],
)
def test_what_is_no_rack_at_all(tmp_path: Path, text: str, expected: str) -> None:
    assert mistakes(tmp_path, text)[0].startswith(expected)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RackError, match=r"none\.yml: cannot be read: No such file"):
        load_rack(tmp_path / "none.yml")


def test_wifi_from_eight_phones_on_is_a_warning_not_a_mistake(tmp_path: Path) -> None:
    text = "rack: home\nnetwork: {cidr: 10.0.0.0/24, medium: wifi}\nphones: [10.0.0.20-%d]\n"
    assert load(tmp_path, text % 26).warnings == ()
    (warning,) = load(tmp_path, text % 27).warnings
    assert str(warning).endswith(
        "rack.yml:2: 8 phones on Wi-Fi share its air time; "
        "wire racks of 8 phones or more, or expect slow training"
    )


@pytest.mark.parametrize("service", ["dhcp", "time"])
def test_a_service_of_our_own_needs_a_machine(tmp_path: Path, service: str) -> None:
    text = with_line("  controller: 10.1.0.1\n", f"  {service}: ours\n")
    (found,) = mistakes(tmp_path, text)
    assert found.startswith(f"rack.yml:5: `{service}: ours` needs a machine that serves it")


def test_time_is_theirs_unless_the_rack_file_says_ours(tmp_path: Path) -> None:
    assert load(tmp_path, GOOD).network.time == "theirs"
    line = "  controller: 10.1.0.1\n"
    assert load(tmp_path, with_line(line, f"{line}  time: ours\n")).network.time == "ours"
    (found,) = mistakes(tmp_path, with_line(line, f"{line}  time: mine\n"))
    assert found.startswith("rack.yml:6: ")


def test_sizes_may_carry_units(tmp_path: Path) -> None:
    rack = load(tmp_path, GOOD + "thresholds: {min_free_disk_bytes: 2GiB}\n")
    assert rack.thresholds.min_free_disk_bytes == 2 << 30
    assert rack.thresholds.min_free_memory_bytes == 512 << 20
