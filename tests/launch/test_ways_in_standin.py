"""The three ways in, by the shipped examples, on stand-in phones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from launching import newest

pytestmark = pytest.mark.standin

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/jobs"
PHONES = ["phone001", "phone002", "phone003"]


def launch(rack: Any, *arguments: str) -> str:
    """What the ranks of a run on three phones have printed, by a launch from the examples."""
    done = subprocess.run(
        ["fleetctl", "launch", "--phones", "phone[001-003]", *arguments],
        cwd=EXAMPLES,
        env=rack.env,
        text=True,
        capture_output=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert newest(rack)["state"] == "done"
    return done.stdout


@pytest.mark.parametrize("name", ["distributed.py", "ddp_hook.py", "own_model.py"])
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) < 30


@pytest.mark.soak
def test_an_unmodified_torch_distributed_program_trains(rack: Any) -> None:
    said = launch(rack, "--", "python", "distributed.py")
    found = re.findall(r"(phone\d+): rank (\d) of 3: loss ([\d.]+)", said)
    assert sorted(phone for phone, _, _ in found) == PHONES
    assert sorted(rank for _, rank, _ in found) == ["0", "1", "2"]
    assert max(float(loss) for _, _, loss in found) < 1  # of 3.2 before


@pytest.mark.soak
def test_a_ddp_program_hands_its_gradients_to_our_exchange(rack: Any) -> None:
    launch(rack, "ddp_hook.yml")
    accuracies = accuracies_of_all_ranks(rack)
    assert len(accuracies) == 3
    assert min(accuracies) > 85


@pytest.mark.soak
def test_a_program_trains_its_own_model_with_fit(rack: Any) -> None:
    launch(rack, "own_model.yml")
    accuracies = accuracies_of_all_ranks(rack)
    assert len(accuracies) == 3
    assert min(accuracies) > 90


def accuracies_of_all_ranks(rack: Any) -> list[float]:
    """In percent, as the ranks of the newest run have printed them."""
    said = rack.fleetctl("logs", newest(rack)["name"]).stdout
    return [
        float(number) for number in re.findall(r"^phone\d+: test accuracy ([\d.]+)%", said, re.M)
    ]
