"""Files with mistakes never reach a Prometheus or an Alertmanager that works."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from live import in_services, query

from fleetctl.rack import load_rack

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = [pytest.mark.standin, pytest.mark.soak]

FILES = (
    "/etc/prometheus/prometheus.yml",
    "/etc/prometheus/phonerack/rules.yml",
    "/etc/prometheus/alertmanager.yml",
)
LOADED = "prometheus_config_last_reload_success_timestamp_seconds"


def broken(rack: RackUnderTest, what: str) -> dict[str, Any]:
    """Variables that make one of the files wrong, in a way that nobody checks before."""
    limits = {**asdict(load_rack(rack.file).guard), "cut_celsius": "50 +"}
    return {
        "rules": {"rack_guard": limits},
        "receivers": {"monitoring_webhook_url": "no address"},
        "configuration": {"rack_fleet_exporter": "http://no/target"},
        "pair": {"monitoring_down_minutes": {"warning": 30, "critical": 2}},
    }[what]


@pytest.mark.parametrize("what", ["rules", "receivers", "configuration", "pair"])
def test_a_file_with_a_mistake_is_refused_and_the_old_one_stays(
    provisioned_rack: RackUnderTest, what: str
) -> None:
    before = in_services(provisioned_rack, "sha256sum", *FILES)
    loaded = [value for _, value in query(LOADED)]
    variables = json.dumps(broken(provisioned_rack, what))
    done = provisioned_rack.playbook("-t", "monitoring", "-e", variables, check=False)
    assert done.returncode != 0
    assert in_services(provisioned_rack, "sha256sum", *FILES) == before
    assert [value for _, value in query(LOADED)] == loaded
