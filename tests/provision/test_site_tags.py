"""Whatever tags choose or leave out of site.yml, phones are met before they are changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
OF_PHONES = {"termux", "ssh", "openmpi", "release", "exporter"}
PHASES = {"validate", "bootstrap", "controller", "switches", "phones", "monitoring", "verify"}
TAGS = sorted(OF_PHONES | PHASES | {"roster"})


@dataclass(frozen=True)
class Step:
    """A task that a run would come to."""

    play: str
    role: str
    task: str

    @property
    def is_contact(self) -> bool:
        return self.task in ("Ask the phone what it has", "Make first contact")

    @property
    def is_part(self) -> bool:
        """Of a role that says what phones need."""
        return self.play == "Provision the phones" and self.role in OF_PHONES


type Runs = dict[tuple[str, str], list[Step]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    """What is run by (`--tags`, `--skip-tags`)."""
    asked = [("all", skip) for skip in ("", *TAGS)] + [(run, "") for run in TAGS]
    asked += [("phones", skip) for skip in OF_PHONES] + [("ssh", "roster"), ("roster", "ssh")]
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("chosen_tasks.py")],
        input=json.dumps([[[run], [skip] if skip else []] for run, skip in asked]),
        env={
            **os.environ,
            "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
            "ANSIBLE_INVENTORY_ENABLED": "host_list",
        },
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout)
    return {key: [Step(*each) for each in steps] for key, steps in zip(asked, answers, strict=True)}


def test_a_phone_is_met_before_anything_of_a_role_comes_to_it(runs: Runs) -> None:
    for (run, skip), steps in runs.items():
        where = f"-t {run} --skip-tags {skip}"
        met = [place for place, step in enumerate(steps) if step.is_contact]
        needs = [
            place
            for place, step in enumerate(steps)
            if step.is_part or (step.role in ("phone", "verify") and not step.is_contact)
        ]
        assert not needs or (met and met[0] < needs[0]), where


def test_what_the_roles_want_is_brought_after_the_last_of_them(runs: Runs) -> None:
    for (run, skip), steps in runs.items():
        where = f"-t {run} --skip-tags {skip}"
        parts = [place for place, step in enumerate(steps) if step.is_part]
        brings = [place for place, step in enumerate(steps) if step.role == "phone"]
        assert not parts or (len(brings) == 4 and max(parts) < min(brings)), where


@pytest.mark.parametrize("skip", sorted(OF_PHONES))
def test_a_role_that_is_left_out_takes_no_other_along(runs: Runs, skip: str) -> None:
    left = {step.role for step in runs["all", skip] if step.is_part}
    assert left == OF_PHONES - {skip}
    assert {step.role for step in runs["all", "monitoring"] if step.is_part} >= {"ssh", "release"}


@pytest.mark.parametrize("tag", ["validate", "controller", "switches", "bootstrap"])
def test_phases_before_the_phones_meet_none(runs: Runs, tag: str) -> None:
    assert runs[tag, ""]
    assert not any(step.is_contact for step in runs[tag, ""])


def test_switches_are_configured_before_anything_is_reached_through_them(runs: Runs) -> None:
    """A larger MTU than 1500 does not pass a switch that was not told of it."""
    roles = [step.role for step in runs["all", ""]]
    reached = ("services", *OF_PHONES, "phone", "monitoring", "verify")
    assert roles.index("switch") < min(roles.index(role) for role in reached)
    assert {step.role for step in runs["controller", ""]} == {"controller", "services"}
