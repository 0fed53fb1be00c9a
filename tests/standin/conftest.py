"""One small rack for all tests that make faults; each of them heals what it has done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_rack import PHONES, SmallRack


@pytest.fixture(scope="session")
def faulty_rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRack]:
    """A rack whose phones all have their addresses."""
    rack = SmallRack("faults-test", 146, tmp_path_factory.mktemp("faults"))
    rack.write()
    try:
        rack.standin("up")
        with rack.dhcp():
            assert all(rack.answers(phone) for phone in PHONES)
            yield rack
    finally:
        rack.standin("down")
