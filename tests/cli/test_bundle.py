"""`fleetctl check --bundle`: secrets are planted wherever there is text, and none gets out."""

from __future__ import annotations

import json
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetctl.cli.bundle import MOST_ATTEMPTS
from fleetctl.cli.main import cli
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import InputError, RackPaths
from fleetctl.state import State

SECRET = "hunter2-xyzzy"
FROM_ENVIRONMENT = "correct horse battery"
SERIAL = "R58M4711ABC"
MACS = ("02:00:5e:10:00:ab", "02-00-5E-10-00-AB", "0200.5e10.00ab")

RACK = f"""
# the old switch's password: {SECRET}
rack: lab
network:
  cidr: 127.78.0.0/24
  medium: ethernet
  controller: 127.78.0.1
  snmp: {{community: snmp_community}}
switches:
  sw1: {{platform: cisco_ios, address: 127.78.0.3, login: {{password: switch_password}}}}
phones:
  - {{addresses: 127.78.0.11-12, switch: sw1, ports: 1-2}}
"""
LOCK = f"""
rack: lab
version: 1
phones:
  phone001: {{serial: {SERIAL}, mac: "{MACS[0]}"}}
  phone002: {{serial: Z9Y8X7W6V5, mac: "02:00:5e:10:00:ac"}}
"""


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RackPaths:
    """A rack with secrets in every place that somebody could think of."""
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    file.with_name("rack.lock.yml").write_text(LOCK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    monkeypatch.setenv("SWITCH_PASSWORD", FROM_ENVIRONMENT)
    paths = RackPaths("lab", tmp_path / "home")
    paths.ensure()
    for key in (paths.ca, paths.operator):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with State(paths.state_db) as state:
        state.drain(["phone001"], "ann", f"{SERIAL} is swollen; its password is {SECRET}")
        state.record_health("phone002", "CRITICAL", f"login: {FROM_ENVIRONMENT}, {MACS[1]}")
    _plant_run(paths)
    log = paths.provisions / "20270301-120000/log.txt"
    log.parent.mkdir(parents=True)
    log.write_text(f"ok: [phone001] => {{'ansible_password': '{SECRET}'}}\n")
    (paths.dir / "guard.log").write_text(
        f"call https://ann:{SECRET}@phone.example.org\nsnmp uses {FROM_ENVIRONMENT}\n"
        f"{MACS[2]} {SERIAL}\n{paths.ca.read_text()}"
    )
    return paths


def _plant_run(paths: RackPaths) -> None:
    run = RunFolder(paths.runs / "digits-1")
    run.path.mkdir()
    line = f"mpirun -x WANDB_API_KEY={SECRET} --password {SECRET} python train.py"
    run.record("created", phones=["phone001"], mpirun=line.split(), token=SECRET)
    run.record("ended", state="failed", reason=f"phone {SERIAL} ({MACS[0]}) is gone")
    (run.path / "job.yml").write_text(f"env: {{HF_TOKEN: {SECRET}}}\n")
    (run.path / "versions.json").write_text(json.dumps({"secret": SECRET, "release": "0.1"}))
    run.log_file.write_text(f"Authorization: Bearer {SECRET}\n" * 20_000 + "the last line\n")
    run.progress_file.write_text(f'{{"password": "{SECRET}", "cut')
    (run.path / "files").mkdir()
    (run.path / "files/train.py").write_text(f"login({SECRET!r})\n")


def bundle(path: Path) -> Result:
    return CliRunner().invoke(cli, ["check", "--bundle", str(path)], catch_exceptions=False)


def unpacked(path: Path) -> dict[str, str]:
    """Text by name, below the one folder that all is in."""
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.partition("/")[2]] = file.read().decode()
        assert len({member.name.partition("/")[0] for member in archive.getmembers()}) == 1
    return found


def test_what_helps_is_in_it_and_no_secret_is(paths: RackPaths, tmp_path: Path) -> None:
    path = tmp_path / "help.tar.gz"
    done = bundle(path)
    assert f"{path}: " in done.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    texts = unpacked(path)
    whole = "\n".join([*texts, *texts.values()])
    private = [line for line in paths.ca.read_text().splitlines() if not line.startswith("-")]
    public = paths.operator_pub.read_text().split()[1]
    for secret in (SECRET, FROM_ENVIRONMENT, SERIAL, "Z9Y8X7W6V5", public, *private):
        assert secret not in whole
    for mac in MACS:
        assert mac.lower() not in whole.lower()
    # And yet it tells what is wrong.
    checks = json.loads(texts["checks.json"])
    assert set(checks) == {"controller", "rack", "phones"}
    assert {one["name"] for one in checks["phones"]["phone001"]} >= {"reachable", "host-key"}
    state = json.loads(texts["state.json"])
    assert state["phone001"]["drains"][0]["who"] == "ann"
    assert state["phone001"]["history"][0]["kind"] == "drained"
    assert "cidr: 127.78.0.0/24" in texts["rack.yml"]
    assert texts["runs/digits-1/mpirun.log"].endswith("the last line\n")
    events = texts["runs/digits-1/events.jsonl"].splitlines()
    assert [json.loads(line)["kind"] for line in events] == ["created", "ended"]
    assert json.loads(texts["versions.json"])["packages"]["asyncssh"]
    assert "ok: [phone001]" in texts["provisions/20270301-120000.txt"]
    assert "files/train.py" not in "".join(texts)


def test_one_device_is_one_word_in_all_of_it(paths: RackPaths, tmp_path: Path) -> None:
    bundle(tmp_path / "help.tar.gz")
    texts = unpacked(tmp_path / "help.tar.gz")
    log = texts["logs/guard.log"].splitlines()[2].split()
    assert log[0] in texts["rack.lock.yml"]
    assert log[1] in texts["rack.lock.yml"]
    assert log[1] in texts["state.json"]


@pytest.mark.parametrize("name", ["there.tar.gz", "nowhere/help.tar.gz"])
def test_a_bundle_that_cannot_be_written_is_refused_before_anybody_is_asked(
    paths: RackPaths, tmp_path: Path, name: str
) -> None:
    (tmp_path / "there.tar.gz").write_text("somebody's")
    with pytest.raises(InputError, match=r"exists already|is no folder"):
        bundle(tmp_path / name)
    assert (tmp_path / "there.tar.gz").read_text() == "somebody's"
    with State(paths.state_db) as state:
        assert [event.kind for event in state.history("phone001")] == ["drained"]


def test_the_newest_attempts_of_a_run_are_in_it(paths: RackPaths, tmp_path: Path) -> None:
    run = RunFolder(paths.runs / "digits-1")
    for number in range(2, MOST_ATTEMPTS + 4):
        run.record("attempt", phones=["phone001"], number=number)
        run.attempt_folder.mkdir(parents=True)
        run.log_file.write_text(f"attempt {number}, password={SECRET}\n")
        run.plan_file.write_text(f'{{"secret": "{SECRET}", "number": {number}}}')
    bundle(tmp_path / "help.tar.gz")
    texts = unpacked(tmp_path / "help.tar.gz")
    newest = MOST_ATTEMPTS + 3
    assert f"attempt {newest}" in texts[f"runs/digits-1/attempts/{newest}/mpirun.log"]
    assert json.loads(texts[f"runs/digits-1/attempts/{newest}/plan.json"])["number"] == newest
    assert "runs/digits-1/mpirun.log" in texts
    assert "runs/digits-1/attempts/2/mpirun.log" not in texts
    assert SECRET not in "".join(texts.values())
