"""What Ansible learns about a rack."""

from __future__ import annotations

import json
import shlex
from ipaddress import IPv4Network
from pathlib import Path

from fleetctl.rack import Network, Phone, Rack, RackPaths, Switch
from fleetctl.rack.variables import (
    phone_variables,
    phones_variables,
    rack_variables,
    roster_references,
    roster_variables,
    services_variables,
)

PATHS = RackPaths("lab", Path("/srv/phone rack"))
NETWORK = Network(
    IPv4Network("10.1.0.0/24"), "ethernet", "ours", controller="10.1.0.1", services="10.1.0.2"
)
RACK = Rack(
    "lab",
    NETWORK,
    {
        "phone001": Phone("phone001", "10.1.0.11", switch="sw1", port=2, mac="02:00:00:00:00:01"),
        "phone002": Phone("phone002", "10.1.0.12", switch="sw1", port=1),
    },
    {"sw1": Switch("sw1")},
)


def test_all_hosts_know_the_rack() -> None:
    variables = rack_variables(RACK, PATHS)
    assert variables["rack_name"] == "lab"
    assert variables["rack_dir"] == "/srv/phone rack/lab"
    assert variables["rack_cidr"] == "10.1.0.0/24"
    assert variables["rack_medium"] == "ethernet"
    assert variables["rack_mtu"] == 1500
    assert variables["rack_dhcp"] == "ours"
    assert variables["rack_controller_address"] == "10.1.0.1"
    assert variables["rack_services_address"] == "10.1.0.2"
    assert variables["rack_openmpi_series"] == "5.0"
    assert "python-torch" in variables["rack_phone_packages"]
    assert variables["rack_thresholds"]["min_free_disk_bytes"] == 1 << 30


def test_the_ring_is_by_port_the_list_of_phones_by_rack_file() -> None:
    variables = roster_variables(RACK)
    assert [phone["name"] for phone in variables["rack_ring"]] == ["phone002", "phone001"]
    assert variables["rack_phones"] == [
        {"name": "phone001", "address": "10.1.0.11", "mac": "02:00:00:00:00:01"},
        {"name": "phone002", "address": "10.1.0.12", "mac": None},
    ]


def test_only_one_host_has_the_lists_and_the_others_refer_to_it() -> None:
    assert roster_references().keys() == roster_variables(RACK).keys()
    assert not roster_references().keys() & rack_variables(RACK, PATHS).keys()


def test_a_phone_is_verified_by_its_name_against_the_racks_own_keys() -> None:
    arguments = shlex.split(
        phone_variables(RACK.phones["phone001"], PATHS)["ansible_ssh_common_args"]
    )
    options = set(arguments) - {"-o"}
    assert options == {
        "IdentitiesOnly=yes",
        'UserKnownHostsFile="/srv/phone rack/lab/ssh/known_hosts"',
        "HostKeyAlias=phone001",
        "StrictHostKeyChecking=yes",
    }


def test_paths_on_a_phone_are_absolute() -> None:
    variables = phones_variables(RACK, PATHS)
    for name in (
        "ansible_remote_tmp",
        "ansible_python_interpreter",
        "ansible_shell_executable",
        "termux_prefix",
        "termux_home",
    ):
        assert variables[name].startswith("/data/data/com.termux/files/"), name
    assert variables["ansible_port"] == 8022


def test_a_services_host_without_an_address_of_its_own_is_the_controller() -> None:
    alone = Network(IPv4Network("10.1.0.0/24"), "wifi", controller="10.1.0.1")
    rack = Rack("lab", alone, RACK.phones, RACK.switches)
    assert services_variables(rack, PATHS) == {"ansible_connection": "local"}
    assert rack_variables(rack, PATHS)["rack_services_address"] == "10.1.0.1"


def test_variables_are_plain_values() -> None:
    variables = (
        rack_variables(RACK, PATHS)
        | phones_variables(RACK, PATHS)
        | roster_variables(RACK)
        | services_variables(RACK, PATHS)
        | phone_variables(RACK.phones["phone001"], PATHS)
    )
    text = json.dumps(variables)
    assert json.loads(text) == variables
    assert "{{" not in text
