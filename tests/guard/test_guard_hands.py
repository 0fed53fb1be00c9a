"""What guard does at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleetctl.guard.acting import AT_ONCE, Hands
from fleetctl.guard.actions import Outcome, Switch
from fleetctl.power.actuator import Actuator, Ran
from fleetctl.rack import Outlet, RackPaths, load_rack
from fleetctl.remote import Fleet

RACK = """\
rack: lab
network: {cidr: 10.1.0.0/24, medium: ethernet, controller: 10.1.0.1}
phones: [{names: "phone[001-050]", addresses: 10.1.0.11-60}]
power: {command: [hub, "{outlet}", "{state}"]}
"""
LAST = "phone050"


@pytest.mark.parametrize(("on", "reached"), [(False, [LAST]), (True, [])])
def test_hubs_that_hang_hold_up_no_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool, reached: list[str]
) -> None:
    """Power is given by a few hubs at a time, and taken away by as many as there are."""
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    rack = load_rack(file)
    told: list[Outcome] = []

    async def switch(_: Actuator, outlet: Outlet, __: bool) -> Ran:
        if outlet.name != LAST:
            await asyncio.Event().wait()
        return Ran(0, "ok", 0.1)

    monkeypatch.setattr(Actuator, "switch", switch)

    async def act() -> None:
        paths = RackPaths(rack.name)
        async with Fleet(rack, paths) as fleet:
            hands = Hands(rack, file, paths, fleet, told.append, print)
            for name in rack.phones:
                hands.begin(Switch(name, on, "why"))
            for _ in range(100):
                await asyncio.sleep(0)
            await hands.close()

    assert len(rack.phones) > AT_ONCE
    asyncio.run(act())
    assert [one.key for one in told] == [f"switch:{n}" for n in reached]
