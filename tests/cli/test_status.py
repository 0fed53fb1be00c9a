"""What `fleetctl status` says about phones."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from io import StringIO
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from rich.console import Console

from exporters import metrics
from exporters.metrics import Sample
from exporters.sampler import Reading, Snapshot
from fleetctl.checks import vitals as vitals_module
from fleetctl.checks.vitals import Vitals
from fleetctl.cli.status_view import as_json, make_rows, remarks, render
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import AdbTry, Contact, Drain, Health, PhoneFacts, Revocations

NOW = 1_000_000.0
SEEN = PhoneFacts(contact=Contact(seen=NOW - 3))


def rack(phones: int) -> Rack:
    return Rack(
        "lab",
        Network(IPv4Network("10.0.0.0/16"), "ethernet"),
        {
            f"phone{n:03}": Phone(f"phone{n:03}", f"10.0.1.{n}", switch="sw1", port=n)
            for n in range(1, phones + 1)
        },
    )


def text_of(
    phones: int,
    facts: dict[str, PhoneFacts],
    vitals: dict[str, Vitals],
    width: int = 80,
) -> str:
    chosen = rack(phones)
    known = dict.fromkeys(chosen.phones, SEEN) | facts
    rows = make_rows(chosen, list(chosen.phones), known, vitals, NOW)
    console = Console(file=StringIO(), width=width)
    console.print(render(chosen, rows, width))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def snapshot(*samples: Sample, age_seconds: float = 2) -> str:
    """What the probe prints on a phone whose exporter kept these samples so long ago."""
    kept = Snapshot(500.0, (Reading("any", 0.1, samples, None, 500.0),))
    return f"{500 + age_seconds:.0f}\n{json.dumps(kept.document())}"


def test_the_version_of_the_list_of_revoked_keys_is_seen_whatever_the_exporter_says() -> None:
    def seen(first_line: str) -> int | None:
        return vitals_module.read("phone001", Result(0, f"{first_line}\n")).revocations

    assert seen("502 - 0000000000000003") == 3
    assert seen("502 1234 0000000000000003") == 3
    assert seen("502 - 00000000") is None
    assert seen("502 - ") is None
    assert vitals_module.read("phone001", Result(0, snapshot())).revocations is None


def test_a_phone_tells_for_how_long_what_started_the_look_has_been_running(tmp_path: Path) -> None:
    shell = tmp_path / "s) h 1"  # a process's name may hold what ends a name
    shell.symlink_to("/bin/sh")

    def now() -> float:
        return float(Path("/proc/uptime").read_text().split()[0])

    began = float(Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]) / 100
    own_seconds = now() - began
    said = subprocess.check_output([str(shell), "-c", vitals_module.PROBE], text=True)
    up_seconds = vitals_module.read("phone001", Result(0, said)).up_seconds
    assert up_seconds is not None
    assert own_seconds - 0.05 < up_seconds <= now()
    without = vitals_module.PROBE.replace("/proc/", "/none/")
    said = subprocess.check_output(["sh", "-c", without], text=True, stderr=subprocess.DEVNULL)
    assert vitals_module.read("phone001", Result(0, said)) == Vitals(reached=True)


def test_a_phone_that_is_silent_over_ssh_and_answers_over_adb_needs_no_walk() -> None:
    gone = Contact(seen=NOW - 9, missed_since=NOW - 5)
    facts = {
        "phone001": PhoneFacts(contact=gone, adb=AdbTry(NOW - 1, True)),
        "phone002": PhoneFacts(contact=gone, adb=AdbTry(NOW - 1, False)),
        "phone003": PhoneFacts(contact=gone, adb=AdbTry(NOW - 7, True)),
    }
    said = text_of(3, facts, {}, width=200)
    assert "2 lost, 1 needs-hands" in said
    assert "phone001 answers over adb: `fleetctl enroll --serial" in said
    assert "phone002 is silent over adb too: go there" in said
    assert "phone003 answers" not in said


def test_a_phone_that_accepts_revoked_keys_is_suspect_with_the_cure() -> None:
    facts = replace(SEEN, revocations=Revocations(2, 3))
    said = text_of(2, {"phone002": facts}, {}, width=200)
    assert "1 suspect" in said
    assert "phone002 suspect: it accepts keys that were revoked" in said
    assert "site.yml -t ssh" in said


def test_a_training_phone_is_read_from_its_exporters_snapshot() -> None:
    text = snapshot(
        metrics.BATTERY_TEMPERATURE.sample(31.4),
        metrics.THERMAL_ZONE.sample(40.0, "0", "BIG"),
        metrics.THERMAL_ZONE.sample(52.5, "1", "G3D"),
        metrics.THROTTLED.sample(12.0, "frequency_limit"),
        metrics.BATTERY_CHARGE.sample(0.8),
        metrics.TRAINING_INFO.sample(1, "digits-1", "0"),
        metrics.TRAINING_ITERATION.sample(7),
        metrics.TRAINING_ITERATIONS.sample(80),
        metrics.TRAINING_LOSS.sample(0.5),
        metrics.TRAINING_ACCURACY.sample(0.97),
    )
    assert vitals_module.read("phone001", Result(0, text)) == Vitals(
        reached=True,
        temperature_celsius=31.4,
        battery_ratio=0.8,
        run="digits-1",
        iteration=7,
        iterations=80,
        loss=0.5,
        test_accuracy=0.97,
        hottest_celsius=52.5,
        throttled_seconds=12.0,
    )


def test_phones_that_have_less_for_their_heat_are_named() -> None:
    chosen, busy = rack(3), replace(SEEN, run="digits-1")
    heated = {"phone001": (12, 16), "phone002": (12, 16), "phone003": (0, 16)}
    known = dict.fromkeys(chosen.phones, busy)
    rows = make_rows(chosen, list(chosen.phones), known, {}, NOW, heated)
    assert remarks(rows) == [
        "phone[001-002] slowed for heat in digits-1: 12 of 16 samples",
        "phone003 paused for heat in digits-1",
    ]
    told = as_json(chosen, rows)["phones"]
    assert [phone["heated"] for phone in told] == [(12, 16), (12, 16), (0, 16)]


@pytest.mark.parametrize(
    "rest",
    [
        '"metrics": []',
        '"metrics": {"phonerack_cpus_allowed": [{"value": Infinity}]}',
        '"metrics": {"phonerack_cpus_allowed": [{"value": null}]}',
        '"metrics": {"phonerack_thermal_zone_celsius": [7]}',
        '"metrics": {"phonerack_training_info": {}, "x": 1}, "time": "noon"',
    ],
)
def test_a_damaged_snapshot_is_named_and_ends_nothing(rest: str) -> None:
    look = vitals_module.read("phone001", Result(0, '500\n{"time": 499, ' + rest + "}"))
    assert look.reached
    assert look.problem == "phone001: its exporter's snapshot is damaged"


def test_what_the_exporter_cannot_read_is_unknown_not_zero() -> None:
    look = vitals_module.read("phone001", Result(0, snapshot()))
    assert look == Vitals(reached=True)


def test_a_bare_phone_is_reached_and_says_nothing() -> None:
    assert vitals_module.read("phone001", Result(0, "500\n")) == Vitals(reached=True)


def test_a_silent_exporter_is_named_and_its_old_values_are_not_shown() -> None:
    look = vitals_module.read(
        "phone001", Result(0, snapshot(metrics.TRAINING_LOSS.sample(0.5), age_seconds=90))
    )
    assert look.loss is None
    assert look.problem is not None
    assert look.problem.startswith("phone001: its exporter has been silent for 90 s")


@pytest.mark.parametrize("text", ["", "x\n{", "500\n{}", "500\n[1]"])
def test_a_damaged_snapshot_is_a_problem_or_nothing_but_never_a_crash(text: str) -> None:
    look = vitals_module.read("phone001", Result(0, text))
    assert look.reached
    assert look.loss is None


@pytest.mark.parametrize(
    ("fault", "reached"),
    [
        (Fault.UNREACHABLE, False),
        (Fault.REFUSED, False),
        (Fault.TIMEOUT, False),
        (Fault.LOST, False),
        (Fault.FAILED, False),
        (Fault.THROTTLED, True),
        (Fault.AUTH, True),
        (Fault.HOST_KEY_CHANGED, None),
    ],
)
def test_throttled_is_not_down(fault: Fault, reached: bool | None) -> None:
    result = Result(None, error=PhoneError("phone001", fault, "phone001 …"))
    look = vitals_module.read("phone001", result)
    assert look.reached is reached
    assert look.throttled is (fault is Fault.THROTTLED)


def test_a_phone_that_lets_us_wait_is_shown_as_throttled_unless_somebody_has_it() -> None:
    look = Vitals(reached=True, problem="phone001 is throttled: wait a minute", throttled=True)
    drain = Drain("ann", "screen broken", "person", NOW)
    facts = {
        "phone001": PhoneFacts(contact=Contact(seen=NOW)),
        "phone002": PhoneFacts(drains=(drain,), contact=Contact(seen=NOW)),
    }
    shown = text_of(2, facts, dict.fromkeys(facts, look))
    assert "rack lab: 2 phones, 1 drained, 1 throttled" in shown
    assert "wait a minute" in shown


def test_the_table_counts_states_and_shows_training() -> None:
    shown = text_of(
        2,
        {"phone001": PhoneFacts(run="digits-1", contact=Contact(seen=NOW))},
        {
            "phone001": Vitals(
                True, None, 31.4, 0.8, "digits-1", iteration=12, iterations=80, loss=0.25
            )
        },
    )
    assert "rack lab: 2 phones, 1 ready, 1 busy" in shown
    line = next(line for line in shown.splitlines() if line.startswith("phone001"))
    assert line.split() == [
        "phone001",
        "busy",
        "sw1:1",
        "31",
        "80%",
        "digits-1",
        "12/80",
        "0.2500",
        "-",
        "0s",
    ]


def test_who_drained_a_phone_and_why_is_said() -> None:
    drain = Drain("ann", "screen broken", "person", NOW)
    shown = text_of(1, {"phone001": PhoneFacts(drains=(drain,))}, {})
    assert "phone001 drained by ann: screen broken" in shown


def test_a_suspect_phone_is_explained() -> None:
    sick = PhoneFacts(health=Health("CRITICAL", "disk full", NOW))
    away = PhoneFacts(contact=Contact(seen=NOW, returned=NOW))
    shown = text_of(3, {"phone001": away, "phone002": away, "phone003": sick}, {})
    assert "phone[001-002] suspect: it was away" in shown
    assert "phone003 suspect: disk full" in shown


def test_a_phone_that_is_kept_off_its_fast_cores_is_named() -> None:
    text = snapshot(metrics.CPUS_ALLOWED.sample(4), metrics.CPUS_POSSIBLE.sample(8))
    looks = dict.fromkeys(("phone001", "phone002"), vitals_module.read("any", Result(0, text)))

    said = text_of(3, {}, looks)

    assert "phone[001-002] has a restricted cpuset: 4 of 8 cores" in said


def test_equal_problems_of_many_phones_are_one_line() -> None:
    problems = {
        f"phone{n:03}": Vitals(False, f"phone{n:03} (10.0.1.{n}) is unreachable: no answer; check")
        for n in range(1, 41)
    }
    shown = text_of(40, {}, problems)
    assert "phone[001-040] is unreachable: no answer; check" in shown
    assert shown.count("unreachable") == 1


def test_json_has_every_phone_with_unknown_as_null() -> None:
    chosen = rack(2)
    rows = make_rows(chosen, list(chosen.phones), {}, {}, NOW)
    document = as_json(chosen, rows)
    first = document["phones"][0]
    assert (first["name"], first["state"], first["port"]) == ("phone001", "suspect", 1)
    assert first["temperature_celsius"] is None
    assert len(document["phones"]) == 2
