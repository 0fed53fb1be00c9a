"""The examples in examples/power: racks that load, and programs that say the right thing."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
from pathlib import Path

import pytest

from fleetctl.rack import load_rack

FOLDER = Path(__file__).resolve().parents[2] / "examples/power"


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yml")), ids=lambda file: file.stem)
def test_the_examples_load_and_their_programs_are_there(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    rack = load_rack(file)
    switched = {**rack.outlets, **rack.fans}
    assert sorted(p for each in switched.values() for p in each.phones) == list(rack.phones)
    for outlet in switched.values():
        assert os.access(outlet.command[0], os.X_OK)


def run(*words: str, path: Path | None = None, **environment: str) -> str:
    search = f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]
    done = subprocess.run(
        [FOLDER / words[0], *words[1:]],
        env={**os.environ, "PATH": search, **environment},
        text=True,
        capture_output=True,
        timeout=20,
    )
    return done.stdout if done.returncode == 0 else f"{done.returncode}: {done.stderr}"


def fake(folder: Path, name: str, script: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def test_usb_hub_tells_uhubctl_location_and_port(tmp_path: Path) -> None:
    path = fake(tmp_path, "uhubctl", 'echo "$@"')
    assert run("usb-hub", "1-1.4:3", "off", path=path) == (
        "--location 1-1.4 --ports 3 --action off --repeat 3\n"
    )


def test_the_pdu_gets_its_command_and_the_community_is_no_argument(tmp_path: Path) -> None:
    path = fake(tmp_path, "snmpset", 'echo "$@"; cat "$SNMPCONFPATH/snmp.conf"')
    said = run("pdu-snmp", "10.0.0.5", "7", "off", path=path, PDU_COMMUNITY="rack-write")
    first, *config = said.splitlines()
    assert first == "-t 1 -r 2 -Oqv 10.0.0.5 .1.3.6.1.4.1.318.1.1.12.3.3.1.1.4.7 i 2"
    assert config == ["defVersion 1", "defCommunity rack-write"]
    assert run("pdu-snmp", "10.0.0.5", "7", "maybe", path=path).startswith("2: on or off")


def test_the_plug_is_asked_over_http() -> None:
    asked: list[str] = []

    class Plug(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if "rpc" in self.path else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Plug) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"127.0.0.1:{server.server_port}"
        assert run("smart-plug", address, "off") == ""
        assert run("smart-plug", address, "on", "tasmota").startswith("22: ")
        server.shutdown()
        thread.join()
    assert asked == ["/rpc/Switch.Set?id=0&on=false", "/cm?cmnd=Power%20on"]
