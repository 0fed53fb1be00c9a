"""A rack of 5,000 phones is a rack."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from fleetctl.rack import load_rack
from fleetctl.rack.lock import Locked, write_lock

SWITCHES, PORTS = 105, 48
PHONES = 5000


def test_5000_phones_on_105_switches_with_their_lock_file_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    names = [f"phone{number:04}" for number in range(PHONES)]
    groups = [names[first : first + PORTS] for first in range(0, PHONES, PORTS)]
    text = "rack: big\nnetwork: {cidr: 10.64.0.0/16, medium: ethernet}\nswitches:\n"
    text += "".join(f"  sw{place}: {{ports: {PORTS}}}\n" for place in range(len(groups)))
    text += "phones:\n" + "".join(
        f"  - {{names: 'phone[{group[0][5:]}-{group[-1][5:]}]', switch: sw{place}, "
        f"ports: 1-{len(group)}, addresses: 10.64.{place + 1}.1-{len(group)}}}\n"
        for place, group in enumerate(groups)
    )
    file = tmp_path / "rack.yml"
    file.write_text(text)
    entries = {
        name: Locked(f"R58M{number:07}", f"02:00:00:00:{number // 256:02x}:{number % 256:02x}")
        for number, name in enumerate(names)
    }
    write_lock(tmp_path / "rack.lock.yml", "big", entries)

    rack = load_rack(file)

    assert len(rack.switches) == SWITCHES
    assert list(rack.phones) == rack.enrolled == names
    assert {name: phone.mac for name, phone in rack.phones.items()} == {
        name: entry.mac for name, entry in entries.items()
    }
    # The ring leaves each switch once.
    places = [rack.phones[name].switch for name in rack.ring()]
    assert sum(here != there for here, there in pairwise(places)) == (SWITCHES - 1)
