"""Who is upgraded when, and what is said about it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from fleetctl.checks.packages import PackageFacts, Snapshot
from fleetctl.checks.phone import PhoneFacts as Probe
from fleetctl.provision import hello, upgrade_steps
from fleetctl.provision.upgrade import Ending, health, judge_wave, make_plan, partners
from fleetctl.rack import Network, Phone, Rack
from fleetctl.rack.variables import phone_packages
from fleetctl.remote import Result
from fleetctl.state import Contact, Drain, Health, PhoneFacts

NOW = 1000.0
PHONES = {
    f"phone{number:03}": Phone(f"phone{number:03}", f"10.1.0.{10 + number}", model=model)
    for number, model in enumerate(["S10", "S10", "S10", "Pixel", "Pixel"], 1)
}
RACK = Rack("lab", Network(IPv4Network("10.1.0.0/24"), "ethernet", controller="10.1.0.1"), PHONES)
WHOLE = {(spec.partition("=")[0], "aarch64"): "2.0" for spec in phone_packages(RACK)}
TARGET = Snapshot("new", WHOLE)
READY = PhoneFacts(health=Health("OK", "", NOW), contact=Contact(seen=NOW))


def standing_on(snapshot: str | None, version: str = "1.0") -> dict[str, PackageFacts]:
    return {
        name: PackageFacts(
            name, snapshot=snapshot, versions=dict.fromkeys(WHOLE, version), wanted=TARGET
        )
        for name in PHONES
    }


def plan(
    found: dict[str, PackageFacts] | None = None,
    canaries: tuple[str, ...] = (),
    former: str = "rack's",
    unproven: tuple[str, ...] = (),
    **state: PhoneFacts,
) -> Any:
    return make_plan(
        RACK,
        found or standing_on("old"),
        {**dict.fromkeys(PHONES, READY), **state},
        NOW,
        target="new",
        former=former,
        canaries=canaries,
        unproven=unproven,
    )


def test_the_first_ready_phone_of_each_model_is_a_canary_and_an_old_one_talks_to_it() -> None:
    made = plan()

    assert made.canaries == ("phone001", "phone004")
    assert made.rest == ("phone002", "phone003", "phone005")
    assert made.reference == "phone002"
    assert made.former["phone003"] == "old"


def test_a_drained_phone_is_no_canary_but_is_upgraded() -> None:
    drained = replace(READY, drains=(Drain("me", "swollen", "person", NOW),))

    made = plan(phone001=drained)

    assert made.canaries == ("phone002", "phone004")
    assert "phone001" in made.rest


def test_a_model_without_a_ready_phone_has_no_canary() -> None:
    suspect = replace(READY, health=Health("CRITICAL", "no MPI", NOW))

    made = plan(phone004=suspect, phone005=suspect)

    assert made.canaries == ("phone001",)
    assert made.rest[-2:] == ("phone004", "phone005")


def test_canaries_can_be_named() -> None:
    assert plan(canaries=("phone003",)).canaries == ("phone003",)


def test_a_phone_with_a_job_and_one_that_does_not_answer_are_left_out_with_the_reason() -> None:
    found = standing_on("old")
    found["phone002"] = PackageFacts("phone002", problem="phone002 is unreachable", reached=False)

    made = plan(found, phone001=replace(READY, run="digits-1"))

    assert made.canaries[0] == "phone003"
    assert made.left_out == {
        "phone001": "busy with run digits-1; upgrade it when that has ended",
        "phone002": "phone002 is unreachable",
    }


def test_a_phone_without_python_is_left_to_site_yml() -> None:
    found = standing_on("old")
    found["phone001"] = replace(found["phone001"], versions={("bash", "aarch64"): "5"})

    assert "not provisioned yet" in plan(found).left_out["phone001"]


def test_phones_that_are_there_are_left_alone_unless_a_package_differs() -> None:
    found = standing_on("new", "2.0")
    odd = {**WHOLE, ("rsync", "aarch64"): "1.0"}
    found["phone003"] = replace(found["phone003"], versions=odd)

    made = plan(found)

    assert made.moving == ("phone003",)
    assert len(made.standing) == 4


def test_strays_come_back_to_the_racks_own_snapshot_without_a_canary() -> None:
    found = standing_on("new", "2.0")
    found["phone003"] = standing_on("old")["phone003"]
    away = replace(READY, contact=Contact(seen=NOW, returned=NOW + 1))

    made = plan(found, former="new", phone003=away)

    assert (made.canaries, made.rest, made.proven) == ((), ("phone003",), "phone001")
    assert not made.untried


def test_a_snapshot_that_no_ready_phone_can_try_is_not_brought_to_any() -> None:
    suspect = replace(READY, health=Health("CRITICAL", "no MPI", NOW))

    assert plan(**dict.fromkeys(PHONES, suspect)).untried


def test_a_phone_between_two_snapshots_goes_back_to_the_racks() -> None:
    assert plan(standing_on(None)).former["phone001"] == "rack's"


def said(**phones: dict[str, Any]) -> dict[str, Any]:
    return {name: {"changed": True, **each} for name, each in phones.items()}


def test_one_canary_that_fails_stops_it_all_and_takes_its_fellows_along() -> None:
    wave = judge_wave(said(phone001={}, phone004={}), {"phone004": "no MPI"}, 0)

    assert wave.outcomes == {"phone001": "failed", "phone004": "failed"}
    assert wave.stopped == "1 of 2 phones failed (phone004: no MPI)"
    assert wave.problems["phone001"] == ""


def test_a_wave_bears_as_many_failures_as_it_may_and_no_more() -> None:
    phones = {f"phone{number:03}": {} for number in range(1, 11)}

    borne = judge_wave(said(**phones), {"phone001": "no MPI"}, 10)
    too_many = judge_wave(said(**phones), dict.fromkeys(["phone001", "phone002"], "no MPI"), 10)

    assert borne.stopped is None
    assert borne.outcomes["phone001"] == "failed"
    assert borne.outcomes["phone002"] == "moved"
    assert too_many.stopped == "2 of 10 phones failed (phone[001-002]: no MPI)"
    assert too_many.outcomes["phone003"] == "moved"


def test_a_phone_that_died_in_the_wave_is_lost_and_counts() -> None:
    wave = judge_wave(said(phone001={"unreachable": True}, phone002={}), {}, 40)

    assert wave.outcomes == {"phone001": "lost", "phone002": "moved"}
    assert wave.stopped == "1 of 2 phones failed (phone001: no longer answers)"


def probes(**openmpi: str) -> dict[str, Probe]:
    return {
        name: Probe(name, "10.1.0.1", openmpi=version, release="1")
        for name, version in openmpi.items()
    }


def well(name: str = "phone001") -> tuple[Probe, PackageFacts]:
    probe = Probe(
        *(name, "10.1.0.11"), python="3.13", openmpi="5.0.11", common_openmpi="5.0.11", release="1"
    )
    return probe, PackageFacts(name, snapshot="new", versions=WHOLE, wanted=TARGET)


@pytest.mark.parametrize(
    ("probe", "packages", "wrong"),
    [
        ({}, {}, {}),
        (
            {"openmpi": None, "openmpi_problem": "CANNOT LINK"},
            {},
            "mpirun does not run: CANNOT LINK",
        ),
        ({"missing_modules": {"torch": "no"}}, {}, "Python cannot import torch (no)"),
        ({}, {"half": ("perl",)}, "half-installed: perl"),
        ({}, {"problem": "phone001: its dpkg does not answer"}, "its dpkg does not answer"),
        (
            {"problem": "phone001 is away", "reached": False},
            {"problem": "phone001 is away", "reached": False},
            "phone001 is away",
        ),
        # Little memory is a reason to spare a phone, not to blame the packages.
        ({"free_memory_bytes": 1}, {}, {}),
    ],
)
def test_a_phone_is_well_if_its_programs_run_and_its_packages_are_the_snapshots(
    probe: dict[str, Any], packages: dict[str, Any], wrong: str | dict[str, str]
) -> None:
    facts, have = well()
    said = health(
        RACK, {"phone001": replace(facts, **probe)}, {"phone001": replace(have, **packages)}
    )

    assert said == ({"phone001": wrong} if wrong else {})


class Phones:
    """A fleet that answers every command in the same way."""

    def __init__(self, answer: Result) -> None:
        self.answer = answer

    async def run_on(self, *_: str, **__: float) -> Result:
        return self.answer


def test_an_sshd_that_would_not_come_up_again_is_a_failure_though_the_old_one_runs() -> None:
    fleet: Any = Phones(Result(255, "", "sshd_config line 3: Bad configuration option"))
    good: Any = Phones(Result(0, "", ""))

    assert asyncio.run(upgrade_steps.unstartable(fleet, ["phone001"])) == {
        "phone001": "its services would not start: exit code 255: sshd_config line 3: Bad "
        "configuration option"
    }
    assert asyncio.run(upgrade_steps.unstartable(good, ["phone001"])) == {}


def test_strays_come_back_by_a_canary_if_no_ready_phone_stands_on_the_snapshot() -> None:
    found = standing_on("old")
    found["phone001"] = replace(found["phone001"], snapshot="new", versions=WHOLE)
    drained = replace(READY, drains=(Drain("me", "swollen", "person", NOW),))

    assert plan(found, former="new").canaries == ()
    assert plan(found, former="new", phone001=drained).canaries == ("phone002", "phone004")


def test_what_an_upgrade_that_was_cut_off_has_moved_is_proven_and_can_go_back() -> None:
    found = standing_on("old")
    for name in ("phone001", "phone002"):
        found[name] = replace(found[name], snapshot="new", versions=WHOLE)

    made = plan(found, unproven=("phone001",))

    assert made.canaries == ("phone001", "phone004")
    assert made.former["phone001"] == "rack's"
    assert made.standing == ("phone002",)


@pytest.mark.parametrize(
    ("outcomes", "standing", "stopped", "moves"),
    [
        ({"phone001": "moved"}, [], None, True),
        ({}, ["phone001"], None, True),
        ({"phone001": "moved"}, [], "1 of 2 phones failed", False),
        ({"phone001": "back"}, [], None, False),
        ({}, [], None, False),
    ],
)
def test_the_rack_moves_only_to_what_some_phone_has_proven(
    outcomes: dict[str, str], standing: list[str], stopped: str | None, moves: bool
) -> None:
    ending = Ending("new", outcomes, {}, {}, {}, stopped)

    assert ending.proven(standing) is moves


def test_an_old_phone_takes_part_in_the_hello_only_if_it_has_the_same_series() -> None:
    same = probes(phone001="5.0.12", phone002="5.0.11")
    other = probes(phone001="5.0.12", phone002="4.1.8")

    assert partners(same, ["phone001"], "phone002") == ["phone001", "phone002"]
    assert partners(other, ["phone001"], "phone002") == ["phone001"]


def test_the_end_is_told_by_fate_phones_together() -> None:
    ending = Ending(
        target="new",
        outcomes={
            **dict.fromkeys(["phone001", "phone002"], "moved"),
            "phone003": "back",
            "phone004": "stuck",
        },
        reasons={"phone003": "no MPI", "phone004": "disk full"},
        former={"phone003": "old", "phone004": "old"},
        left_out={"phone005": "busy with run digits-1"},
    )

    assert ending.lines() == [
        "phone[001-002]: stand on new",
        "phone003: no MPI; went back to old",
        "phone004: disk full; it stands between two snapshots: mend that, then rerun this",
        "phone[003-004]: drained until this has been rerun and went well, or by hand: `fleetctl "
        "undrain phone[003-004]`",
        "phone005: left out: busy with run digits-1",
    ]


class Talkers:
    """Phones that say hello, but for the dumb ones and for pairs that cannot hear each other."""

    def __init__(self, dumb: set[str], deaf: set[frozenset[str]] | None = None) -> None:
        self.dumb = dumb
        self.deaf = deaf or set()

    async def run_on(self, _: str, command: str, **__: float) -> Result:
        hosts = command.split("--host ")[1].split()[0].split(",")
        names = [next(p.name for p in PHONES.values() if p.address == host) for host in hosts]
        if self.dumb & set(names) or any(pair <= set(names) for pair in self.deaf):
            return Result(1, "", "mpirun: a daemon died")
        return Result(0, "".join(f'{{"phone": "{each}"}}\n' for each in names))


def test_what_mpirun_prints_among_the_hellos_is_in_nobodys_way() -> None:
    output = 'warning: {"phone": "phone001", "versions": {}}{"phone": "phone002", "versions"\n{\n'

    assert hello.spoken(output) == {"phone001", "phone002"}


async def silent(talkers: Talkers) -> dict[str, str]:
    fleet: Any = talkers
    return await hello.silent(fleet, RACK, list(PHONES)[:4])


@pytest.mark.parametrize(
    ("dumb", "deaf", "blamed"),
    [
        (set(), set(), []),
        ({"phone003"}, set(), ["phone003"]),
        (set(), {frozenset({"phone001", "phone004"})}, ["phone004"]),
        (set(), {frozenset({"phone002", "phone004"})}, ["phone002", "phone003", "phone004"]),
    ],
)
def test_who_breaks_the_hello_is_found(
    dumb: set[str], deaf: set[frozenset[str]], blamed: list[str]
) -> None:
    assert sorted(asyncio.run(silent(Talkers(dumb, deaf)))) == blamed
