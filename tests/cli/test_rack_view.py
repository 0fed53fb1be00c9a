"""The rack at a glance: `fleetctl status --watch`."""

from __future__ import annotations

import re
from io import StringIO
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fleetctl.checks.alerts import Alert
from fleetctl.checks.vitals import Vitals
from fleetctl.cli import rack_view
from fleetctl.cli.status_view import make_rows, remarks
from fleetctl.rack import Network, Phone, Rack, Switch
from fleetctl.state import Contact, Drain, PhoneFacts

NOW = 1_000_000.0
READY = PhoneFacts(contact=Contact(seen=NOW))
LOST = PhoneFacts(contact=Contact(seen=NOW - 60, missed_since=NOW - 30))
WIDTH, HEIGHT = 80, 24


def rack(phones: int, switches: int) -> Rack:
    """Phones on switches of 48 ports, 46 of them for phones; without switches on Wi-Fi."""
    names = [f"sw{n}" for n in range(1, switches + 1)]

    def phone(n: int) -> Phone:
        place: dict[str, Any] = (
            {"switch": names[(n - 1) // 46], "port": (n - 1) % 46 + 1} if names else {}
        )
        return Phone(f"phone{n:03}", f"10.0.1.{n}", **place)

    return Rack(
        "lab",
        Network(IPv4Network("10.0.0.0/16"), "ethernet" if names else "wifi"),
        {f"phone{n:03}": phone(n) for n in range(1, phones + 1)},
        {name: Switch(name) for name in names},
    )


def shown(
    chosen: Rack,
    facts: dict[str, PhoneFacts],
    vitals: dict[str, Vitals],
    alerts: list[Alert] | None = None,
    *,
    colour: bool = False,
    height: int = HEIGHT,
) -> list[str]:
    """The lines that a terminal of 80 columns shows."""
    known = dict.fromkeys(chosen.phones, READY) | facts
    rows = make_rows(chosen, list(chosen.phones), known, vitals, NOW)
    console = Console(
        file=StringIO(), width=WIDTH, force_terminal=colour, color_system="256" if colour else None
    )
    console.print(rack_view.render(chosen, rows, remarks(rows), alerts, WIDTH, height, NOW))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue().splitlines()


def full_rack() -> tuple[Rack, dict[str, PhoneFacts], dict[str, Vitals], list[Alert]]:
    """138 phones on three switches, of which some have what phones have."""
    chosen = rack(138, 3)
    vitals = {
        name: Vitals(True, None, 31.0 + place % 9) for place, name in enumerate(chosen.phones)
    }
    facts = {}
    for n in range(1, 65):
        name = f"phone{n:03}"
        facts[name] = PhoneFacts(run="digits-4", contact=Contact(seen=NOW))
        vitals[name] = Vitals(True, None, 40.0 + n % 4, 0.8, "digits-4", 120, 400, 0.3219)
    vitals["phone017"] = Vitals(True, None, 47.2, 0.8, "digits-4", 120, 400, 0.3219)
    for n in (70, 71, 72):
        drain = Drain("ann", "battery swollen", "person", NOW)
        facts[f"phone{n:03}"] = PhoneFacts(drains=(drain,), contact=Contact(seen=NOW))
    facts["phone100"] = LOST
    vitals["phone100"] = Vitals(False, "phone100 (10.0.1.100) is unreachable: no answer; check it")
    alerts = [
        Alert("PhoneHot", "critical", "phone017", "47 °C"),
        *(Alert("PhoneClockOff", "warning", f"phone{n:03}", "clock") for n in (3, 4, 5)),
    ]
    return chosen, facts, vitals, alerts


def test_138_phones_fit_80_by_24_with_jobs_drains_and_alerts() -> None:
    chosen, facts, vitals, alerts = full_rack()

    lines = shown(chosen, facts, vitals, alerts)

    assert len(lines) <= HEIGHT - 1
    assert max(map(len, lines)) <= WIDTH
    shelves = [line for line in lines if re.match(r"sw\d:\d", line)]
    assert [line.split()[0] for line in shelves] == [
        "sw1:1", "sw1:25", "sw2:1", "sw2:25", "sw3:1", "sw3:25",
    ]  # fmt: skip
    cells = [line[8 + 3 * place : 11 + 3 * place] for line in shelves for place in range(24)]
    assert len([each for each in cells if each.strip()]) == 138
    text = "\n".join(lines)
    assert "phone017 with 47 °C, 1 over 45 °C: phone017" in text
    assert "job digits-4 at iteration 120 of 400, loss 0.3219, on 64: phone[001-064]" in text
    assert "phone[070-072] drained by ann: battery swollen" in text
    assert "phone100 is unreachable" in text
    assert "alert PhoneHot (critical) phone017: 47 °C" in text
    assert "alert PhoneClockOff (warning) phone[003-005]" in text


def test_what_colour_tells_stands_there_without_colour_too() -> None:
    chosen = rack(5, 1)
    vitals = {
        "phone001": Vitals(True, None, 30.2),
        "phone002": Vitals(True, None, 41.0),
        "phone003": Vitals(True, None, 48.0),
        "phone005": Vitals(False, "phone005 is away", 33.0),
    }
    facts = {"phone002": PhoneFacts(run="a-1", contact=Contact(seen=NOW)), "phone005": LOST}

    plain = shown(chosen, facts, vitals)
    coloured = shown(chosen, facts, vitals, colour=True)

    assert next(line for line in plain if line.startswith("sw1")) == "sw1:1   30 41*48 -- --x"
    codes = {
        number: re.search(rf"\x1b\[([\d;]+)m{number}", "\n".join(coloured))
        for number in (30, 41, 48)
    }
    assert all(codes.values())
    assert len({found[1] for found in codes.values() if found}) == 3


def test_phones_stand_at_their_ports_and_empty_ports_between_them() -> None:
    chosen = Rack(
        "lab",
        Network(IPv4Network("10.0.0.0/16"), "ethernet"),
        {
            "a": Phone("a", "10.0.1.1", switch="sw1", port=4),
            "b": Phone("b", "10.0.1.2", switch="sw1", port=2),
        },
        {"sw1": Switch("sw1")},
    )
    vitals = {"a": Vitals(True, None, 44.0), "b": Vitals(True, None, 22.0)}
    line = next(line for line in shown(chosen, {}, vitals) if line.startswith("sw1"))
    assert line.split() == ["sw1:1", "··", "22", "··", "44"]


def test_phones_on_wifi_stand_in_rack_order() -> None:
    lines = shown(rack(30, 0), {}, {})
    labels = [line.split()[0] for line in lines if line.startswith(("phone0", "…"))]
    assert labels == ["…one001", "…one025"] or len(labels) == 2


@settings(max_examples=25)
@given(
    phones=st.sampled_from([1, 6, 30, 138]),
    switches=st.sampled_from([0, 3]),
    height=st.integers(8, 60),
    odd=st.lists(
        st.tuples(st.integers(1, 138), st.one_of(st.none(), st.floats(-50, 500))), max_size=20
    ),
)
def test_whatever_there_is_to_say_it_fits(
    phones: int, switches: int, height: int, odd: list[tuple[int, float | None]]
) -> None:
    chosen = rack(phones, switches)
    vitals = {
        f"phone{n:03}": Vitals(True, f"phone{n:03}: trouble {n} " + "x" * 90, celsius, run=f"r-{n}")
        for n, celsius in odd
        if n <= phones
    }
    alerts = [Alert(f"Alert{n}", "warning", f"phone{n:03}", "y" * 90) for n, _ in odd]
    lines = shown(chosen, {}, vitals, alerts, height=height)
    assert len(lines) <= max(6, height - 1)
    assert max(map(len, lines)) <= WIDTH


def test_what_has_no_room_is_counted() -> None:
    chosen = rack(138, 3)
    problems = {
        name: Vitals(True, f"{name}: problem number {place}")
        for place, name in enumerate(chosen.phones)
    }
    lines = shown(chosen, {}, problems)
    assert len(lines) == HEIGHT - 1
    assert re.fullmatch(r"… and \d+ more remarks", lines[-1])


@pytest.mark.parametrize("height", [8, 12])
def test_a_low_terminal_counts_the_phones_that_it_cannot_show(height: int) -> None:
    lines = shown(rack(138, 3), {}, {}, height=height)
    assert any(re.fullmatch(r"… and \d+ more lines of phones", line) for line in lines) == (
        height == 8
    )
