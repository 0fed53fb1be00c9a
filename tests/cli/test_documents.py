"""The keys of every `-o json` document, kept in documents.json: programs rely on them.

One that goes, or changes its meaning, raises `output.SCHEMA`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_contract import leaves

from fleetctl.cli import output
from fleetctl.cli.main import cli
from fleetctl.jobs.jobfile import Job, write_job
from fleetctl.jobs.runs import RunFolder
from fleetctl.provision import history
from fleetctl.state import State

GOLDEN = Path(__file__).with_name("documents.json")
RACK = """
rack: home
network: {cidr: 127.79.0.0/24, medium: wifi, dhcp: ours, controller: 127.79.0.1}
phones: [127.79.0.11-13]
"""

CALLS = {
    "status": "status",
    "status of one phone": "status phone002",
    "status --facts": "status --facts",
    "drain": "drain phone002 --why broken",
    "undrain": "undrain phone002",
    "check": "check phone001",
    "check rack": "check rack",
    "check list": "check list",
    "check controller": "check controller",
    "check packages": "check packages",
    "jobs": "jobs",
    "jobs of a run": "jobs digits-1",
    "jobs of the queue": "jobs waits-1",
    "jobs --prune": "jobs --prune",
    "logs": "logs digits-1",
    "report": "report digits-1",
    "stop": "stop waits-1",
    "launch": "launch --queue -n 2 -- true",
    "data list": "data list",
    "exec": "exec phone001 -- true",
    "identify": "identify phone001",
    "provision --history": "provision --history",
    "guard status": "guard status",
}
"""Document -> a call that prints it, on a rack whose phones nobody has enrolled."""

ELSEWHERE = {
    "bench": "a report; its keys are those of bench.json, kept by tests/bench",
    "check cables": "needs switches",
    "data add": "needs a data set",
    "data check": "needs a data set",
    "data remove": "needs a data set; tests/cli/test_data_remove.py has its keys",
    "enroll": "needs adb",
    "plan": "needs a data set and a profile; tests/cli/test_plan_command.py keeps its keys",
    "power": "waits for what phones say of their plugs",
    "provision site": "needs Ansible; its history is here",
    "provision switches": "needs switches",
    "standin": "needs containers",
}
"""Why documents of these are not here, by the beginning of their names."""


@pytest.fixture
def rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A rack with a past: a run, a job that waits, a drain, a provisioning."""
    home = tmp_path / "home/home"
    file = tmp_path / "rack.yml"
    file.write_text(RACK)
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PHONERACK_RACK", str(file))
    home.mkdir(parents=True)
    with State(home / "state.db") as state:
        state.drain(["phone003"], "ada", "screen broken", until=9e9)
        state.record_health("phone001", "WARN", "warm")
        state.record_contact({"phone001": True, "phone002": False}, why={"phone002": "away"})
        state.record_facts({"phone001": {"model": "SM-G975F"}})
        state.allocate("digits-1", ["phone001"], why="a reason")
        state.release("digits-1")
    run = RunFolder(home / "runs/digits-1")
    run.path.mkdir(parents=True)
    write_job(Job(name="digits", phones="1", command=["true"]), run.job_file)
    run.record("created", phones=["phone001"])
    run.record("started", head="phone001", pid=7)
    run.log_file.write_text("[1,0]<stdout>: hello\n")
    run.record("ended", state="failed", reason="exit code 1", left={"phone001": "away"})
    folder = home / "provisions"
    folder.mkdir()
    record = history.begin(folder, "ada", ("phones",))
    history.write(folder, record)
    return file


def keys(document: Any, path: str = "") -> set[str]:
    """`phones[].name`, …: every key there is. Names of phones, data sets and the like are `*`."""
    found: set[str] = set()
    if isinstance(document, dict):
        for key, value in document.items():
            word = "*" if key.startswith("phone0") else key
            found |= {f"{path}{word}"} | keys(value, f"{path}{word}.")
    elif isinstance(document, list):
        for each in document:
            found |= keys(each, f"{path.removesuffix('.')}[].")
    return found


def printed(name: str) -> dict[str, Any]:
    words = CALLS[name].split()
    cut = words.index("--") if "--" in words else len(words)
    done = CliRunner().invoke(cli, [*words[:cut], "-o", "json", *words[cut:]])
    assert done.stdout, (done.exception, done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("name", CALLS)
def test_the_keys_of_a_document_are_those_that_were_promised(rack: Path, name: str) -> None:
    if name in ("jobs of the queue", "jobs", "stop"):
        CliRunner().invoke(cli, ["launch", "--queue", "-n", "2", "--name", "waits", "--", "true"])
    document = printed(name)
    assert document["schema"] == output.SCHEMA
    golden = json.loads(GOLDEN.read_text())
    if os.environ.get("WRITE_DOCUMENTS"):
        GOLDEN.write_text(json.dumps({**golden, name: sorted(keys(document))}, indent=1) + "\n")
        return
    promised = set(golden[name])
    # More keys are nobody's trouble; WRITE_DOCUMENTS=1 adds them to what is promised.
    assert promised - keys(document) == set(), "keys that programs rely on are gone"


def test_every_document_is_here_or_has_a_reason_not_to_be() -> None:
    speaking = [name for name, each in leaves() if any(p.name == "output" for p in each.params)]
    for name in speaking:
        here = any(call.startswith(name) for call in CALLS.values()) or name in CALLS
        assert here or any(name.startswith(start) for start in ELSEWHERE), name
    assert sorted(json.loads(GOLDEN.read_text())) == sorted(CALLS)
