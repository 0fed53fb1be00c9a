"""Every query of the dashboards on a live Prometheus, while the stand-in rack trains."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dashboard_queries import ANNOTATIONS, PANELS, Asked, has_values, is_denied
from live import eventually, query
from which_rack import NAME

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

PROJECT = Path(__file__).resolve().parents[2]
VARIABLES = {"$__rate_interval": "20s", "$rack": NAME, "$phone": ".+", "$run": ".+"}
NOT_HERE = re.compile("phonerack_switch_|phonerack_fleet_guard_")
OF_TROUBLE = {"Alerts", "Firing", "Findings of checks", "Not good"}
"""Empty while nothing is wrong; they are seen on the rack with faults."""


@pytest.fixture
def training(provisioned_rack: RackUnderTest, tmp_path: Path) -> Iterator[str]:
    """A run under way, looked at by serve; yields a phone of it that is on battery and drained."""
    provisioned_rack.fleetctl("data", "add", "digits")
    commands = (["launch", "examples/jobs/digits.yml"], ["serve"])
    started = []
    with (tmp_path / "said.log").open("w") as log:
        for command in commands:
            started.append(
                subprocess.Popen(
                    ["fleetctl", *command],
                    cwd=PROJECT,
                    env=provisioned_rack.env,
                    stdout=log,
                    stderr=log,
                )
            )
            eventually(lambda: bool(query("phonerack_training_info")), "the run is seen")
    phone = query("phonerack_training_info")[0][0]["phone"]
    try:
        provisioned_rack.fleetctl("standin", "hub", "off", phone)
        eventually(lambda: bool(query("phonerack_fleet_phones")), "serve is seen")
        provisioned_rack.fleetctl("drain", phone, "--why", "dashboards are tried")
        yield phone
    finally:
        launch, serve = started
        launch.send_signal(signal.SIGINT)  # stops the run on the phones, too
        launch.wait(120)
        serve.terminate()
        serve.wait(60)
        provisioned_rack.fleetctl("undrain", phone)
        provisioned_rack.fleetctl("standin", "hub", "on", phone)


def filled(asked: Asked, phone: str) -> str:
    """One phone has a dashboard of its own."""
    own = {"$phone": phone} if asked.dashboard == "phone" else {}
    return asked.filled(VARIABLES | own)


def test_every_panel_shows_something_in_its_range_while_phones_train(training: str) -> None:
    """All but what switches and guard tell, of which there is none here."""
    missing = [
        asked
        for asked in [*PANELS, *ANNOTATIONS]
        if asked.title not in OF_TROUBLE and not NOT_HERE.search(asked.expression)
    ]
    places: set[tuple[str, str]] = set()

    def look() -> bool:
        for asked in list(missing):
            found = query(filled(asked, training))
            if has_values(asked, found):
                missing.remove(asked)
                if asked.title.endswith("by place"):
                    places.update((labels["switch"], labels["port"]) for labels, _ in found)
        return all(is_denied(asked, query) for asked in missing)

    try:
        eventually(look, "values for all")
    finally:
        print("missing:", *(asked.name() for asked in missing), sep="\n")
    assert places == {(switch, port) for switch in ("sw1", "sw2") for port in "123"}
