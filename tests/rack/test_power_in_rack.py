"""Outlets, what they feed, and guard's limits in the rack file."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.rack import GuardLimits, Rack, RackError, load_rack

HEAD = """\
rack: lab
network: {cidr: 10.1.0.0/24, medium: ethernet, controller: 10.1.0.1}
switches: {sw1: {ports: 10}}
phones:
  - {names: "phone[001-004]", switch: sw1, ports: 1-4, addresses: 10.1.0.11-14}
"""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))


def load(tmp_path: Path, text: str) -> Rack:
    path = tmp_path / "rack.yml"
    path.write_text(HEAD + text)
    return load_rack(path)


def mistake(tmp_path: Path, text: str) -> str:
    with pytest.raises(RackError) as caught:
        load(tmp_path, text)
    (found,) = caught.value.mistakes
    return str(found).removeprefix(f"{tmp_path}/")


def test_by_default_each_phone_has_an_outlet_of_its_own(tmp_path: Path) -> None:
    rack = load(tmp_path, 'power: {command: [hub, "{state}", "port-{phone}"]}\n')
    assert list(rack.outlets) == ["phone001", "phone002", "phone003", "phone004"]
    assert rack.outlets["phone002"].phones == ("phone002",)
    assert rack.outlets["phone002"].argv(on=False) == ["hub", "off", "port-phone002"]


def test_an_outlet_may_feed_several_phones_and_kinds_of_outlets_may_differ(tmp_path: Path) -> None:
    rack = load(
        tmp_path,
        "power:\n"
        '  - {command: [pdu, "{outlet}", "{state}"], limit_seconds: 9,\n'
        '     outlets: {"3": "phone[001-002]", "4": phone003}}\n'
        '  - {command: [plug, "{state}"], phones: phone004}\n',
    )
    assert {name: each.phones for name, each in rack.outlets.items()} == {
        "3": ("phone001", "phone002"),
        "4": ("phone003",),
        "phone004": ("phone004",),
    }
    assert rack.outlets["3"].argv(on=True) == ["pdu", "3", "on"]
    assert [each.limit_seconds for each in rack.outlets.values()] == [9, 9, 5]


def test_groups_name_phones_too(tmp_path: Path) -> None:
    rack = load(
        tmp_path, 'power: {command: [plug, "{state}"], outlets: {strip: "@sw1!phone001"}}\n'
    )
    assert rack.outlets["strip"].phones == ("phone002", "phone003", "phone004")


def test_a_rack_without_power_has_no_outlets_and_the_usual_limits(tmp_path: Path) -> None:
    rack = load(tmp_path, "")
    assert rack.outlets == {}
    assert rack.guard == GuardLimits()
    assert (rack.guard.warn_celsius, rack.guard.drain_celsius, rack.guard.cut_celsius) == (
        40,
        45,
        50,
    )


def test_fans_are_switched_like_outlets_and_may_cool_a_phone_together(tmp_path: Path) -> None:
    rack = load(
        tmp_path,
        'fans: {command: [fan, "{outlet}", "{state}"],\n'
        '       outlets: {front: "@sw1", back: "phone[001-002]"}}\n',
    )
    assert rack.fans["front"].argv(on=True) == ["fan", "front", "on"]
    assert rack.fans["back"].phones == ("phone001", "phone002")
    assert rack.outlets == {}


def test_a_program_beside_the_rack_file_is_found(tmp_path: Path) -> None:
    program = tmp_path / "tools/hub"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    rack = load(tmp_path, 'power: {command: [tools/hub, "{state}", "{phone}"]}\n')
    assert rack.outlets["phone001"].command[0] == str(program)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'power: {command: "uhubctl -a off"}\n',
            "rack.yml:6: `uhubctl -a off` is one text, and no shell takes it apart; "
            "write a list such as [uhubctl, -a, '{state}', -p, '{outlet}']",
        ),
        (
            'power: {command: [hub, "{phone}"]}\n',
            "rack.yml:6: the command does not say on or off; write `{state}` where it does",
        ),
        (
            'power: {command: [hub, "{state}"]}\n',
            "rack.yml:6: one command for 4 outlets; "
            "write `{outlet}` or `{phone}` where it says which one",
        ),
        (
            'power: {command: [hub, "{state}", "{port}", "{phone}"]}\n',
            "rack.yml:6: `{port}` stands for nothing; there are `{phone}`, `{outlet}`, `{state}`",
        ),
        (
            'power: {command: [hub, "{state}"], outlets: {a: phone009}}\n',
            "rack.yml:6: no phone phone009 in this rack; did you mean `phone004` or `phone003`?",
        ),
        (
            'power: {command: [hub, "{state}", "{outlet}"],'
            ' outlets: {a: phone001, b: "phone[001-002]"}}\n',
            "rack.yml:6: phone001 is fed by outlet a and by b; "
            "a phone that two outlets feed cannot be cut off; name one",
        ),
        (
            'power: {command: [tools/hub, "{state}", "{phone}"]}\n',
            "rack.yml:6: no program {here}/tools/hub that may be run; "
            "correct its path, which begins at this file's folder, or `chmod +x` it",
        ),
        (
            'power: {command: [hub, "{state}"], outlets: {"a b": phone001}}\n',
            "rack.yml:6: 'a b' is no name of an outlet; use letters, digits and . : / -",
        ),
        (
            "guard: {warn_celsius: 46}\n",
            "rack.yml:6: `drain_celsius: 45` is not above `warn_celsius: 46`; "
            "leave at least 2 °C between them",
        ),
        (
            "guard: {charge_low_percent: 55}\n",
            "rack.yml:6: a charge window from 55 to 60 %; leave at least 10 between them",
        ),
        (
            "guard: {poll_seconds: 60, silent_seconds: 100}\n",
            "rack.yml:6: 100 s of silence with a poll every 60 s; "
            "allow at least three polls, since one may be lost",
        ),
        (
            'power: {command: [hub, "{state}", "{outlet}"],'
            ' outlets: {a: phone001, b: "phone[002-004]"}}\nguard: {max_charging: 2}\n',
            "rack.yml:7: outlet b feeds 3 phones, and 2 may charge at the same time; "
            "allow at least 3, or give them outlets of their own",
        ),
        (
            'guard: {call: [page, "{phone}"]}\n',
            "rack.yml:6: `{phone}` stands for nothing; there are `{message}` and `{phones}`",
        ),
    ],
)
def test_mistakes_name_the_line_and_what_would_be_right(
    tmp_path: Path, text: str, expected: str
) -> None:
    assert mistake(tmp_path, text) == expected.replace("{here}", str(tmp_path))


def test_as_many_may_charge_as_one_outlet_feeds(tmp_path: Path) -> None:
    power = 'power: {command: [hub, "{state}"], outlets: {a: "phone[001-004]"}}\n'
    assert load(tmp_path, power + "guard: {max_charging: 4}\n").guard.max_charging == 4
