"""Prometheus on the services host of a stand-in rack: targets, pages, alerts."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from live import SERVICES, SOURCES, eventually, get, in_services, query
from which_rack import NAME, SUBNET

if TYPE_CHECKING:
    from conftest import RackUnderTest

pytestmark = pytest.mark.standin

PHONE = f"{SUBNET}.11"


def up() -> dict[str, float]:
    return {labels["phone"]: value for labels, value in query('up{job="phone"}')}


def test_every_phone_of_the_rack_file_is_scraped(provisioned_rack: RackUnderTest) -> None:
    phones = [f"phone{n:03}" for n in range(1, 7)]
    eventually(lambda: up() == dict.fromkeys(phones, 1.0), "all phones are up")


def test_a_target_says_where_the_phone_stands(provisioned_rack: RackUnderTest) -> None:
    labels = next(labels for labels, _ in query('up{phone="phone005"}'))
    assert (labels["rack"], labels["switch"], labels["port"]) == (
        provisioned_rack.folder.name,
        "sw2",
        "2",
    )


def test_each_listens_no_wider_than_it_must(provisioned_rack: RackUnderTest) -> None:
    """Prometheus and Alertmanager on the rack, the disks' exporter on loopback, no cluster."""
    ask = (
        "import socket; print([(port, host) for port in (9090, 9093, 9094, 9100) for host in"
        f" ('{SERVICES}', '127.0.0.1') if socket.socket().connect_ex((host, port)) == 0])"
    )
    _, said = in_services(provisioned_rack, "python3", "-c", ask)
    assert said.strip() == str([(9090, SERVICES), (9093, SERVICES), (9100, "127.0.0.1")])


def test_a_phones_page_is_served_on_its_rack_address_only(provisioned_rack: RackUnderTest) -> None:
    container = f"pr-{NAME}-phone001"
    pid = provisioned_rack.run("podman", "inspect", "-f", "{{.State.Pid}}", container).stdout
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path(f"/proc/{pid.strip()}/net/{table}").read_text().splitlines()[1:]
    ]
    ours = f":{9865:04X}"
    addresses = {row[1].removesuffix(ours) for row in rows if row[1].endswith(ours)}
    assert {socket.inet_ntoa(bytes.fromhex(each)[::-1]) for each in addresses} == {PHONE}


def test_promtool_finds_nothing_to_say_about_a_phones_page(
    provisioned_rack: RackUnderTest,
) -> None:
    page = get(f"http://{PHONE}:9865/metrics")
    assert in_services(provisioned_rack, "promtool", "check", "metrics", text=page) == (0, "")


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except urllib.error.URLError:
        return False


def test_the_page_of_serve_is_scraped_and_promtool_has_nothing_to_say(
    provisioned_rack: RackUnderTest,
) -> None:
    serve = subprocess.Popen(
        ["fleetctl", "serve"], env=provisioned_rack.env, stderr=subprocess.DEVNULL
    )
    url = f"http://{SUBNET}.1:9867/metrics"
    try:
        eventually(lambda: answers(url), "serve answers")
        eventually(lambda: [v for _, v in query('up{job="fleet"}')] == [1.0], "serve is scraped")
        (labels, expected), *others = query("phonerack_fleet_targets_expected")
        assert (labels["rack"], expected, others) == (NAME, 6.0, [])
        page = get(url)
        assert in_services(provisioned_rack, "promtool", "check", "metrics", text=page) == (0, "")
        with pytest.raises(urllib.error.URLError):
            get("http://127.0.0.1:9867/metrics")
    finally:
        serve.terminate()
        serve.wait()


def test_a_phones_page_is_small(provisioned_rack: RackUnderTest) -> None:
    lines = get(f"http://{PHONE}:9865/metrics").splitlines()
    assert 50 < len([line for line in lines if not line.startswith("#")]) < 150


def test_what_a_phone_cannot_tell_is_absent_and_named(provisioned_rack: RackUnderTest) -> None:
    failing = {labels["source"] for labels, _ in query("phonerack_collector_success == 0")}
    shown = {labels["__name__"] for labels, _ in query('{job="phone"}')}
    for stem, source in SOURCES.items():
        assert (source in failing) != any(name.startswith(stem) for name in shown)


def heat(phone: str) -> dict[str, float]:
    """Temperatures of a phone by sensor."""
    found = query(f'phonerack_thermal_zone_celsius{{phone="{phone}"}}')
    return {labels["zone"]: value for labels, value in found}


@pytest.mark.soak
def test_heat_is_androids_where_the_kernels_is_denied(provisioned_rack: RackUnderTest) -> None:
    """Its live section, without the sensor that is off; and nothing while its HAL is not ready."""
    eventually(lambda: heat("phone002").keys() == {"AP", "BAT", "SKIN"}, "what its sensors say")
    said = provisioned_rack.podman("phone002", "cat", "/standin/hw/dumpsys_thermalservice.txt")
    assert "mName=USB" in said.stdout
    assert "Cached temperatures" in said.stdout
    assert all(20 < value < 100 and value != 25 for value in heat("phone002").values())
    provisioned_rack.fleetctl("standin", "hardware", "phone002", "thermal-hal=missing")
    try:
        eventually(lambda: not heat("phone002"), "it is absent, not 0")
        good = query('phonerack_collector_success{phone="phone002", source="thermal"}')
        assert [value for _, value in good] == [0]
    finally:
        provisioned_rack.fleetctl("standin", "hardware", "phone002", "thermal-hal=ready")
    eventually(lambda: len(heat("phone002")) == 3, "its sensors are back")


def battery(phone: str) -> tuple[list[float], list[float]]:
    """Whether its battery could be read, and the temperature that its page shows."""
    read = query(f'phonerack_collector_success{{phone="{phone}", source="battery"}}')
    shown = query(f'phonerack_battery_temperature_celsius{{phone="{phone}"}}')
    return [value for _, value in read], [value for _, value in shown]


@pytest.mark.soak
def test_where_termux_api_never_answers_android_is_asked_and_no_processes_are_left(
    provisioned_rack: RackUnderTest,
) -> None:
    provisioned_rack.fleetctl("standin", "fault", "phone003", "battery-hang")
    try:
        current = 'phonerack_battery_current_amperes{phone="phone003"}'
        eventually(lambda: not query(current), "which Android does not tell")
        read, celsius = battery("phone003")
        assert (read, len(celsius), up()["phone003"]) == ([1], 1, 1)
        for _ in range(6):
            time.sleep(5)
            asked = provisioned_rack.podman("phone003", "pgrep", "-f", "termux-battery-status")
            assert len(asked.stdout.split()) <= 2, "one call at a time, and what it started"
    finally:
        provisioned_rack.fleetctl("standin", "heal", "phone003")
    assert battery("phone003")[0] == [1]


def test_a_phone_that_dies_is_down_alone_and_comes_back(provisioned_rack: RackUnderTest) -> None:
    provisioned_rack.fleetctl("standin", "fault", "phone006", "kill")
    try:
        eventually(lambda: up()["phone006"] == 0, "the dead phone is down")
        assert [phone for phone, value in up().items() if value == 0] == ["phone006"]
    finally:
        provisioned_rack.fleetctl("standin", "heal", "phone006")
    eventually(lambda: up()["phone006"] == 1, "the phone is back, its service with it")
