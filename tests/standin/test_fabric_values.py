"""What a stand-in rack is made of besides wires: shares, rack files, identities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetctl.rack import Rack, RackError, RackPaths, load_rack
from standin.derived import derive_rack_file
from standin.engine import Spec, run_command
from standin.enrolment import enrol, merge_known_hosts, renew_retired
from standin.share import QUOTA_PHONES_LIMIT, cpu_limit

PROJECT = Path(__file__).resolve().parents[2]
KERNEL_LEAST_QUOTA_MICROSECONDS = 1_000
KERNEL_LONGEST_PERIOD_MICROSECONDS = 1_000_000


@pytest.fixture(scope="module")
def rack() -> Rack:
    return load_rack(PROJECT / "inventory/standin.yml")


# --- shares of the processor


def test_six_phones_on_two_cores_get_a_third_of_a_core_each_in_a_short_period() -> None:
    limit = cpu_limit(cores=2, phones=6)
    assert limit is not None
    assert limit.period_microseconds == 10_000
    assert limit.quota_microseconds == 3_333


@example(cores=1, phones=16, speed=0.01)
@given(st.integers(1, 128), st.integers(1, QUOTA_PHONES_LIMIT), st.floats(0.01, 1))
def test_every_share_is_one_that_the_kernel_takes(cores: int, phones: int, speed: float) -> None:
    limit = cpu_limit(cores, phones, speed)
    assert limit is not None
    assert limit.quota_microseconds >= KERNEL_LEAST_QUOTA_MICROSECONDS
    assert limit.period_microseconds <= KERNEL_LONGEST_PERIOD_MICROSECONDS
    share = limit.quota_microseconds / limit.period_microseconds
    assert share == pytest.approx(max(cores / phones * speed, 0.001), rel=0.001)


def test_large_racks_have_no_shares() -> None:
    assert cpu_limit(cores=2, phones=QUOTA_PHONES_LIMIT + 1) is None


# --- derived rack files


@given(phones=st.integers(1, 144), switches=st.none() | st.integers(0, 4))
def test_a_derived_rack_file_is_valid_and_has_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory, phones: int, switches: int | None
) -> None:
    rack = load_rack(PROJECT / "inventory/standin.yml")
    needed = -(-phones // 48)
    if switches and switches < needed:
        with pytest.raises(RackError, match=f"need {needed} switches"):
            derive_rack_file(rack, "linux-x86_64", phones, switches)
        return
    file = tmp_path_factory.mktemp("derived") / "rack.yml"
    file.write_text(derive_rack_file(rack, "linux-x86_64", phones, switches))
    derived = load_rack(file)
    assert len(derived.phones) == phones
    wanted = max(len(rack.switches), needed) if switches is None else switches
    assert len(derived.switches) == min(wanted, phones)
    assert derived.network == rack.network
    sizes = [len(derived.groups[name]) for name in derived.switches] or [phones]
    assert max(sizes) - min(sizes) <= 1


def test_a_derived_rack_file_can_ask_for_the_other_open_mpi(rack: Rack, tmp_path: Path) -> None:
    (tmp_path / "rack.yml").write_text(derive_rack_file(rack, "linux-x86_64", 6, openmpi="4.1"))
    assert load_rack(tmp_path / "rack.yml").versions.openmpi == "4.1"


def test_more_phones_than_the_network_has_addresses_are_refused(rack: Rack) -> None:
    with pytest.raises(RackError, match="has room for 244 phones, not for 250"):
        derive_rack_file(rack, "linux-x86_64", 250, 6)


def test_addresses_of_the_controller_and_the_services_host_are_stepped_over(
    rack: Rack, tmp_path: Path
) -> None:
    network = replace(rack.network, controller="10.138.0.12", services="10.138.0.14")
    text = derive_rack_file(replace(rack, network=network), "linux-x86_64", 3, 0)
    assert "[10.138.0.11, 10.138.0.13, 10.138.0.15]" in text


# --- identities


def test_known_hosts_keep_foreign_lines_and_replace_those_of_the_rack() -> None:
    present = "@cert-authority phone* ssh-ed25519 CA\nphone001 ssh-ed25519 OLD\nother ssh-rsa X\n"
    merged = merge_known_hosts(present, [("phone001", "ssh-ed25519 NEW phone001\n")])
    assert merged.splitlines() == [
        "@cert-authority phone* ssh-ed25519 CA",
        "other ssh-rsa X",
        "phone001 ssh-ed25519 NEW",
    ]


def test_a_container_can_be_told_from_those_of_other_racks_and_folders() -> None:
    spec = Spec("pr-a-phone001", "image", "a", "phone001", "/home/a", hostname="localhost")
    command = run_command(spec)
    assert {
        "--label=phonerack.rack=a",
        "--label=phonerack.host=phone001",
        "--label=phonerack.folder=/home/a",
    } < set(command)
    assert command[-1] == "image"


def test_in_the_place_of_a_retired_phone_comes_one_with_another_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    rack = load_rack(Path(__file__).resolve().parents[2] / "inventory/standin.yml")
    paths = RackPaths(rack.name)
    paths.ensure()
    enrol(rack, paths)
    before = dict(line.split(" ", 1) for line in paths.known_hosts.read_text().splitlines())
    (paths.ssh / "revoked").write_text(f"# revoked\n{before['phone003']} host phone003\n")

    assert renew_retired(rack, paths) == ["phone003"]
    enrol(rack, paths)

    after = dict(line.split(" ", 1) for line in paths.known_hosts.read_text().splitlines())
    assert {name for name in before if before[name] != after[name]} == {"phone003"}
    assert renew_retired(rack, paths) == []
