"""What `bench net` and the verify phase ask switches about the phones' links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab import PATIENCE

from fleetctl.rack import RackPaths
from fleetctl.switches.fleet import Switches
from fleetctl.switches.ports import PortControl
from standin.switches.plane import End

type Make = Callable[..., Any]


@pytest.mark.parametrize("platform", ["cisco_ios", "arista_eos"])
def test_each_phones_speed_and_duplex_and_which_switch_could_not_be_asked(
    lab: Make, tmp_path: Path, platform: str
) -> None:
    rig = lab(platform)
    rig.settle()
    interfaces = [port.interface for port in rig.job("sw1").intent.ports]
    rig.network.speeds[End("sw1", interfaces[1])] = 100
    del rig.network.hosts["phone003"]
    here = replace(rig.rack.switches["sw1"], address="127.0.0.1")
    dead = replace(here, name="sw2", address="127.66.66.66")
    far = replace(rig.rack.phones["phone004"], switch="sw2", port=1)
    rack = replace(
        rig.rack,
        switches={"sw1": here, "sw2": dead},
        phones={**rig.rack.phones, "phone004": far},
    )
    switches = Switches(
        *(rack, RackPaths("lab", rig.make_home(tmp_path))),
        sources=(rig.secrets.get,),
        patience=PATIENCE,
        port=rig.targets["sw1"].port,
    )
    found, problems = PortControl(switches).links(rack.phones)
    assert {name: (state.speed_mbits, state.full_duplex) for name, state in found.items()} == {
        "phone001": (1000, True),
        "phone002": (100, True),
        "phone003": (None, None),
    }
    assert list(problems) == ["sw2"]
