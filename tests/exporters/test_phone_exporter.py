"""The exporter as a process, on a folder that looks like a phone's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from exporters import phone
from exporters.phone import Log, Page

PROJECT = Path(__file__).resolve().parents[2]


def eventually[T](look: Callable[[], T], what: str) -> T:
    """The first true value of `look`; a slow machine is given a minute."""
    for _ in range(600):
        if value := look():
            return value
        time.sleep(0.1)
    raise AssertionError(f"{what} did not happen")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class FakePhone:
    root: Path
    port: int
    process: subprocess.Popen[str] | None = None

    @property
    def snapshot(self) -> Path:
        return self.root / "home/phonerack/exporter/snapshot.json"

    def battery(self, script: str) -> None:
        program = self.root / "usr/bin/termux-battery-status"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def provision(self, address: str) -> None:
        path = self.root / "usr/etc/phonerack/phone.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"name": "phone001", "address": address}))

    def release(self, version: str) -> None:
        folder = self.root / "home/phonerack/releases" / version
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"version": version, "target": "t"}))
        link = self.root / "home/phonerack/next"
        link.symlink_to(folder)
        link.replace(link.with_name("current"))

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "exporters.phone", "--port", str(self.port)],
            env={
                **os.environ,
                "PREFIX": str(self.root / "usr"),
                "HOME": str(self.root / "home"),
                "PYTHONPATH": str(PROJECT),
            },
            stderr=(self.root / "log").open("w"),
            text=True,
        )

    def page(self) -> dict[str, float]:
        """Empty while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
                text = answer.read().decode()
        except OSError:
            return {}
        return {
            " ".join((sample.name, *(f"{k}={v}" for k, v in sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def ended(self) -> int | None:
        assert self.process is not None
        return self.process.poll()


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakePhone]:
    fake = FakePhone(tmp_path, free_port())
    fake.battery("echo '{\"temperature\": 31.4}'")
    fake.release("0.1.0+aaaaaaaa")
    fake.provision("127.0.0.1")
    yield fake
    if fake.process is not None:
        fake.process.kill()
        fake.process.wait()


def test_a_phone_is_served_and_its_snapshot_says_the_same(fake: FakePhone) -> None:
    fake.start()
    name = "phonerack_battery_temperature_celsius"
    eventually(lambda: name in fake.page(), "a page with the battery")
    page = fake.page()
    assert page[name] == 31.4
    assert page["phonerack_release_info target=t version=0.1.0+aaaaaaaa"] == 1
    assert page["process_resident_memory_bytes"] < 40e6
    assert len(page) < 150
    eventually(fake.snapshot.exists, "a snapshot")
    assert json.loads(fake.snapshot.read_text())["metrics"][name] == [{"labels": {}, "value": 31.4}]


@pytest.mark.parametrize("script", ["sleep 1000", "yes", "kill -9 $$"])
def test_a_hostile_battery_program_leaves_the_rest_of_the_page(
    fake: FakePhone, script: str
) -> None:
    fake.battery(script)
    fake.start()
    eventually(lambda: "phonerack_collector_success source=battery" in fake.page(), "a verdict")
    page = fake.page()
    assert page["phonerack_collector_success source=battery"] == 0
    assert page["phonerack_collector_success source=memory"] == 1
    assert not [name for name in page if name.startswith("phonerack_battery")]


def test_term_ends_it_and_what_it_waits_for(fake: FakePhone) -> None:
    pid = fake.root / "pid"
    fake.battery(f"echo $$ > {pid}; exec sleep 1000")
    fake.start()
    eventually(lambda: pid.exists() and pid.read_text().strip(), "a hanging battery program")
    assert fake.process is not None
    fake.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: fake.ended() is not None, "its end")
    assert fake.ended() == 0
    hanging = Path("/proc") / pid.read_text().strip()
    eventually(lambda: not hanging.exists() or "Z" in _state(hanging), "the program's end")


def _state(process: Path) -> str:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_another_release_ends_it_so_that_runit_starts_the_new_one(fake: FakePhone) -> None:
    fake.start()
    eventually(fake.page, "a page")
    fake.release("0.2.0+bbbbbbbb")
    eventually(lambda: fake.ended() is not None, "its end")
    assert fake.ended() == 0


def test_a_phone_without_an_address_waits_and_is_served_once_it_has_one(fake: FakePhone) -> None:
    (fake.root / "usr/etc/phonerack/phone.json").unlink()
    fake.start()
    eventually(fake.snapshot.exists, "a snapshot without a page")
    assert fake.page() == {}
    fake.provision("127.0.0.1")
    eventually(lambda: fake.ended() is not None, "its end")
    assert fake.ended() == 0
    fake.start()
    eventually(fake.page, "a page")


def test_an_address_that_is_not_up_yet_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """192.0.2.1 is reserved for documentation: no machine has it."""
    page = Page(CollectorRegistry(), free_port(), Log())
    page.listen("192.0.2.1")
    page.listen("192.0.2.1")
    assert capsys.readouterr().err.count("cannot listen on 192.0.2.1") == 1
    started: list[str] = []
    monkeypatch.setattr(
        phone, "start_http_server", lambda _port, address, _: started.append(address)
    )
    page.listen("192.0.2.1")
    assert started == ["192.0.2.1"]


def test_a_full_disk_costs_the_snapshot_and_not_the_page(fake: FakePhone) -> None:
    fake.snapshot.parent.parent.mkdir(parents=True, exist_ok=True)
    # A file where the folder belongs fails the write as a full disk does, for root as well.
    fake.snapshot.parent.write_text("")
    fake.start()
    eventually(fake.page, "a page")
    eventually(lambda: "cannot write" in (fake.root / "log").read_text(), "a line in the log")
    assert fake.ended() is None
