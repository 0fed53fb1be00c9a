"""The switch exporter as a program, with net-snmp as the judge of both ends."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import small_rack
from lab import COMMUNITY
from watched import Watched

from exporters.switches import metrics
from exporters.switches.settings import parse_settings
from exporters.switches.snmp import NoAnswerError, read_tables
from fleetctl.provision.switch_exporter import build
from standin.switches.plane import Counters


def test_a_dead_switch_costs_the_others_nothing(poe: Watched) -> None:
    """The page of the whole program: one switch that is there, one where nobody is."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    dead = {**poe.document["switches"][0], "name": "sw2", "address": "127.66.66.66"}
    document = {**poe.document, "port": port, "switches": [dead, *poe.document["switches"]]}
    with running(document, poe.file.parent) as page:
        text = eventually(page, 'phonerack_switch_up{switch="sw1"} 1.0')
        assert 'phonerack_switch_port_up{phone="phone001",port="1",switch="sw1"} 1.0' in text
        assert 'switch="sw2"' not in text or 'phonerack_switch_up{switch="sw2"} 0.0' in text
        eventually(page, 'phonerack_switch_up{switch="sw2"} 0.0')


def test_it_ends_when_it_is_told_something_new(poe: Watched) -> None:
    with running({**poe.document, "port": 0}, poe.file.parent) as page:
        assert page.process.stderr
        assert "listening" in page.process.stderr.readline()
        page.settings.write_text(page.settings.read_text() + "\n")
        assert page.process.wait(30) == 0


class Page:
    """The exporter as a process, as Debian's Python runs it: the packed program."""

    def __init__(self, document: dict[str, Any], folder: Path, rack: Any = None) -> None:
        self.settings = folder / "settings.json"
        self.settings.write_text(json.dumps(document))
        self.port = document["port"]
        program = build(rack or _no_rack(), folder, "").program
        self.process = subprocess.Popen(
            [sys.executable, "-I", program, self.settings],
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )

    def get(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text


def _no_rack() -> Any:
    return small_rack("unmanaged")


class running:
    def __init__(self, document: dict[str, Any], folder: Path) -> None:
        self.page = Page(document, folder)

    def __enter__(self) -> Page:
        return self.page

    def __exit__(self, *_: object) -> None:
        self.page.process.kill()
        self.page.process.wait()


def eventually(page: Page, text: str) -> str:
    shown = ""
    for _ in range(300):
        try:
            shown = page.get()
        except OSError:
            assert page.process.poll() is None, page.process.stderr and page.process.stderr.read()
        if text in shown:
            return shown
        time.sleep(0.1)
    pytest.fail(f"never: {text}")


# --- oracles --------------------------------------------------------------------------------------


@pytest.mark.tools
def test_net_snmp_reads_the_stand_in_as_the_exporter_does(watched: Watched) -> None:
    watched.rig.network.traffic[watched.end(1)] = Counters(octets_in=1 << 40, errors_in=3)
    walked = subprocess.run(
        [
            "snmpbulkwalk",
            "-v2c",
            "-c",
            COMMUNITY,
            "-On",
            "-Oq",
            f"127.0.0.1:{watched.snmp_port}",
            ".1",
        ],
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert walked.returncode == 0, walked.stderr
    theirs = dict(line.split(" ", 1) for line in walked.stdout.splitlines())
    assert f'"{watched.interface(1)}"' in theirs.values()
    tables = asyncio.run(read_tables(watched.watch.switch, COMMUNITY, watched.snmp_port))
    (at,) = [
        index for index, name in tables["ifDescr"].items() if name == watched.interface(1).encode()
    ]
    for column, number in (("ifHCInOctets", "31.1.1.1.6"), ("ifInErrors", "2.2.1.14")):
        assert theirs[f".1.3.6.1.2.1.{number}.{at[0]}"] == str(tables[column][at])
    get = ["snmpget", "-v2c", "-c", COMMUNITY, "-Oqv", f"127.0.0.1:{watched.snmp_port}"]
    done = subprocess.run([*get, ".1.3.6.1.2.1.1.5.0"], text=True, capture_output=True, timeout=60)
    assert done.stdout.strip().strip('"') == "sw1"


@pytest.fixture
def snmpd(tmp_path: Path) -> Iterator[int]:
    """net-snmp's own agent, about this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    config = tmp_path / "snmpd.conf"
    config.write_text(f"agentaddress udp:127.0.0.1:{port}\nrocommunity {COMMUNITY} 127.0.0.1\n")
    process = subprocess.Popen(
        ["snmpd", "-f", "-Le", "-C", "-c", config, "-I", "-smux", "-p", tmp_path / "pid"],
        stderr=subprocess.DEVNULL,
    )
    yield port
    process.kill()
    process.wait()


@pytest.mark.tools
def test_the_exporter_reads_net_snmps_agent(snmpd: int, poe: Watched) -> None:
    """Interfaces of this machine, as the kernel tells them."""
    for _ in range(50):
        try:
            tables = asyncio.run(
                read_tables(replace(poe.watch.switch, platform="arista_eos"), COMMUNITY, snmpd)
            )
            break
        except NoAnswerError:
            time.sleep(0.2)
    names = {bytes(name).decode() for name in tables["ifDescr"].values() if isinstance(name, bytes)}
    assert names >= {"lo"}
    (at,) = [index for index, name in tables["ifDescr"].items() if name == b"lo"]
    assert tables["ifOperStatus"][at] in (1, 4)
    assert tables["ifHCInOctets"][at]
    assert tables["pethPsePortAdminEnable"] == {}


# --- the program ----------------------------------------------------------------------------------


def test_the_program_is_equal_for_equal_sources_and_holds_no_secret(
    poe: Watched, tmp_path: Path
) -> None:
    one = build(poe.rig.rack, tmp_path / "one", "/etc/x")
    assert one.changed
    assert one.secret == "snmp_community"
    again = build(poe.rig.rack, tmp_path / "one", "/etc/x")
    assert not again.changed
    assert (
        build(poe.rig.rack, tmp_path / "two", "/etc/x").program.read_bytes()
        == one.program.read_bytes()
    )
    assert COMMUNITY not in json.dumps(one.settings)


def test_a_rack_without_managed_switches_has_nothing_to_watch(tmp_path: Path) -> None:
    found = build(_no_rack(), tmp_path, "/etc/x", check=True)
    assert found.settings is None
    assert found.secret is None
    assert not found.program.exists()


def test_its_sources_are_of_the_python_that_debian_12_has() -> None:
    folder = Path(__file__).resolve().parents[2] / "exporters"
    for path in (*folder.glob("*.py"), *(folder / "switches").glob("*.py")):
        ast.parse(path.read_text(), str(path), feature_version=(3, 11))


def test_settings_that_are_not_whole_are_refused() -> None:
    with pytest.raises(ValueError, match="version"):
        parse_settings({"version": 2})
    with pytest.raises(ValueError, match="not complete"):
        parse_settings({"version": 1, "switches": [{"ports": []}]})


def test_metric_names_end_as_prometheus_wants_them() -> None:
    for metric in metrics.CATALOGUE:
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert not re.search(r"megabit|milli|bits", metric.name)
