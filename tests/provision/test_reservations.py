"""Whose address is whose: what the services host is told once adapters are known."""

from __future__ import annotations

import asyncio
import subprocess
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from fleetctl.provision import wire
from fleetctl.rack import Network, Phone, Rack

RACK = Rack(
    "lab",
    Network(IPv4Network("10.1.0.0/28"), "ethernet", controller="10.1.0.1", services="10.1.0.2"),
    {
        "phone001": Phone("phone001", "10.1.0.3", mac="02:00:00:00:00:01"),
        "phone002": Phone("phone002", "10.1.0.4"),
    },
)


class Services:
    """A services host that notes what is done to it."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files, self.restarted = files, 0

    async def read(self, path: str) -> str:
        return self.files.get(path, "")

    async def write(self, path: str, text: str) -> None:
        self.files[path] = text

    async def restart(self, unit: str) -> None:
        assert unit == "dnsmasq"
        self.restarted += 1


OLD, NEW = "02:00:00:00:00:09", "02:00:00:00:00:01"


@pytest.mark.parametrize(
    ("reserved", "leased", "restarts"),
    [
        ("", "", 0),
        (f"{NEW},10.1.0.3,phone001,infinite\n", f"0 {NEW} 10.1.0.3 phone001 *\n", 0),
        ("", f"0 {OLD} 10.1.0.9 * *\n", 0),
        (f"{OLD},10.1.0.3,phone001,infinite\n", "", 1),
        ("", f"0 {OLD} 10.1.0.3 phone001 *\n", 1),
    ],
    ids=["first", "known", "guest", "reserved for another", "leased to another"],
)
def test_an_address_that_was_another_adapters_is_given_away_by_a_restart_alone(
    reserved: str, leased: str, restarts: int
) -> None:
    services = Services({wire.RESERVATIONS: reserved, wire.LEASES: leased})
    asyncio.run(wire._reserve(RACK, services))  # type: ignore[arg-type]
    assert services.files[wire.RESERVATIONS] == f"{NEW},10.1.0.3,phone001,infinite\n"
    assert services.restarted == restarts


def test_before_it_starts_dnsmasq_forgets_leases_of_addresses_that_are_anothers_now(
    tmp_path: Path,
) -> None:
    project = Path(__file__).resolve().parents[2]
    script = project / "roles/services/files/drop-stale-leases"
    reservations, leases = tmp_path / "rack", tmp_path / "leases"
    kept = f"0 {NEW.upper()} 10.1.0.3 phone001 *\n1764450000 {OLD} 10.1.0.9 * *\n"
    reservations.write_text(f"{NEW},10.1.0.3,phone001,infinite\n{OLD},10.1.0.4,phone002,infinite\n")

    def drop() -> None:
        subprocess.run(["sh", script, reservations, leases], check=True)

    drop()
    assert not leases.exists()
    leases.write_text(f"{kept}0 {NEW} 10.1.0.4 phone001 *\nduid 00:01\n")
    drop()
    drop()
    assert leases.read_text() == f"{kept}duid 00:01\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leases", "rack"]
