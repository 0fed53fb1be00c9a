"""The registry as a whole: nothing is missing, everything is said."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import fields

import pytest

from fleetctl.checks.registry import Check, all_checks
from fleetctl.rack import Thresholds
from fleetctl.rack.schema import ThresholdsFile

for _module in ("phone", "rack", "controller", "packages"):
    importlib.import_module(f"fleetctl.checks.{_module}")

CHECKS = {item.name: item for item in all_checks()}
LIMITS = {field.name for field in fields(Thresholds)}


@pytest.mark.parametrize("item", CHECKS.values(), ids=CHECKS)
def test_each_says_what_it_looks_at_what_cures_it_and_by_which_limits(item: Check) -> None:
    assert item.function.__doc__
    assert item.cure
    assert item.level in (1, 2, 3)
    assert set(item.limits) <= LIMITS


def test_every_threshold_is_a_limit_of_some_check_and_can_be_set_in_the_rack_file() -> None:
    assert {name for item in CHECKS.values() for name in item.limits} == LIMITS
    assert set(ThresholdsFile.model_fields) == LIMITS


def test_what_a_quick_check_would_forget_is_kept_by_a_drain() -> None:
    """But for what any later look sees anew."""
    deep = {name for name, item in CHECKS.items() if item.scope == "phone" and item.level > 1}
    assert {name for name in deep if not CHECKS[name].drains} == {"wake-lock"}


@pytest.mark.parametrize(
    ("level", "names"),
    [
        (1, "reachable host-key interpreter release openmpi free-memory free-disk load strays"),
        (1, "awake clock temperature charge plugged link battery-health"),
        (2, "identity mtu loss wake-lock"),
        (3, "goodput burn-in sustained"),
    ],
)
def test_what_others_have_learnt_to_check_is_checked(level: int, names: str) -> None:
    assert {name: CHECKS[name].level for name in names.split()} == dict.fromkeys(
        names.split(), level
    )


def test_the_list_shows_all_of_them() -> None:
    """In a process of its own, where nobody else has imported them."""
    program = (
        "import sys; from fleetctl.cli.main import main; sys.argv[1:] = ['check', 'list']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PHONERACK_RACK": "inventory/standin.yml", "PATH": "/usr/bin", "COLUMNS": "80"},
        text=True,
        capture_output=True,
        check=True,
    )
    shown = {line.split()[0] for line in done.stdout.splitlines()[1:] if not line.startswith(" ")}
    assert shown == set(CHECKS)
    assert max(map(len, done.stdout.splitlines())) <= 80
