"""Fixtures of the launch tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from launching import JOB, endless


@pytest.fixture(scope="module")
def rack(provisioned_rack: Any) -> Any:
    provisioned_rack.fleetctl("data", "add", "digits")
    return provisioned_rack


@pytest.fixture
def short_job(tmp_path: Path) -> str:
    path = tmp_path / "short.yml"
    path.write_text(JOB.format(epochs=2))
    return str(path)


@pytest.fixture
def endless_job(tmp_path: Path) -> str:
    return endless(tmp_path)
