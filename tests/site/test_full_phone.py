"""A phone whose storage is really full: named with room and cure, and nobody else's trouble."""

from __future__ import annotations

from typing import Any

import pytest
from test_site import failure_of, recap

pytestmark = pytest.mark.standin

FULL = "phone003"


@pytest.mark.soak
def test_a_full_phone_is_named_everywhere_and_completes_once_it_has_room(
    provisioned_rack: Any,
) -> None:
    rack = provisioned_rack

    def has_iperf() -> bool:
        command = ("ssh", "-F", str(rack.folder / "ssh_config"), FULL, "command -v iperf3")
        return bool(rack.run(*command, check=False).stdout)

    rack.run("ssh", "-F", str(rack.folder / "ssh_config"), FULL, "apt-get remove -y iperf3")
    rack.fleetctl("standin", "fault", FULL, "disk-full")
    try:
        check = rack.fleetctl("check", check=False)
        assert check.returncode == 3
        assert f"{FULL}: free disk is 0 MiB, needs 1024 MiB; remove old runs" in check.stdout

        job = ("examples/jobs/digits.yml", "--phones", f"phone002,{FULL}")
        launch = rack.fleetctl("launch", *job, check=False)
        assert launch.returncode == 6
        assert f"{FULL}: free disk is 0 MiB" in launch.stderr
        assert "phone002:" not in launch.stderr

        phones = ("-t", "phones", "-l", f"phone002,{FULL}")
        run = rack.playbook(*phones, check=False)
        assert run.returncode == 2
        assert f"{FULL}: storage is full, 0 MiB free" in failure_of(run.stdout, FULL)
        hosts = recap(run.stdout)
        assert (hosts[FULL]["failed"], hosts["phone002"]["failed"]) == (1, 0)
        assert not has_iperf()
    finally:
        rack.fleetctl("standin", "heal", FULL)
    assert recap(rack.playbook("-t", "phones", "-l", FULL).stdout)[FULL]["failed"] == 0
    assert has_iperf()
    assert rack.fleetctl("check", FULL).returncode == 0
