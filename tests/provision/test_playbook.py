"""The wrapper round ansible-runner: arguments, events, outcome, what it leaves on the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fleetctl.errors import ExitCode
from fleetctl.provision import history, playbook_end
from fleetctl.provision.outcome import exit_code
from fleetctl.provision.playbook import Log, Playbook, Run, environment, without_secrets
from fleetctl.provision.playbook_events import Event, Tracker, parse_event

SMALL = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Say it
      ansible.builtin.debug: {msg: "said {{ word | default('nothing') }}"}
    - name: Fall over
      ansible.builtin.assert: {that: "inventory_hostname != 'b'", fail_msg: "b is odd"}
    - name: Keep a secret
      ansible.builtin.debug: {msg: "{{ vaulted | default('') | length }}"}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "small.yml").write_text(SMALL)
    inventory = tmp_path / "hosts.yml"
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory.write_text(json.dumps({"all": {"hosts": {"a": local, "b": local}}}))
    return tmp_path


@pytest.fixture(autouse=True)
def _plain_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """These hosts are no rack."""
    monkeypatch.setenv("ANSIBLE_INVENTORY_ENABLED", "yaml")


def play(small: Path, **wishes: Any) -> Run:
    run = Run(Playbook(small / "hosts.yml", str(small / "small.yml"), **wishes), small / "log.txt")
    run.follow(lambda _: None, lambda: None)
    return run


def test_arguments_are_ansible_playbooks_own() -> None:
    playbook = Playbook(
        Path("/r/rack.yml"),
        tags=("phones", "verify"),
        skip_tags=("monitoring",),
        limit=("phone001", "phone003"),
        check=True,
        diff=True,
        extra_vars=("a=b c", '{"x": [1]}'),
        vault_password_file=Path("/r/pw"),
        vault_password="hush",
        verbosity=3,
    )
    assert playbook.arguments() == [
        *("-i", "/r/rack.yml", "--limit", "phone001,phone003", "--tags", "phones,verify"),
        *("--skip-tags", "monitoring", "--check", "--diff"),
        *("--extra-vars", "a=b c", "--extra-vars", '{"x": [1]}'),
        *("--vault-password-file", "/r/pw", "--ask-vault-pass", "-vvv", "site.yml"),
    ]
    assert "hush" not in repr(playbook)
    assert Playbook(Path("/r/rack.yml")).arguments() == ["-i", "/r/rack.yml", "site.yml"]


def test_host_keys_are_checked_and_the_projects_own_settings_count(tmp_path: Path) -> None:
    given = environment(tmp_path)
    assert given["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert Path(given["ANSIBLE_CONFIG"]).name == "ansible.cfg"
    assert given["PATH"].startswith(str(Path(sys.executable).parent))


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["-e", "password=x y", "-C"], ["-e", "password=…", "-C"]),
        (["-e", '{"p": "x"}'], ["-e", "…"]),
        (["--extra-vars=p=x"], ["--extra-vars=…"]),
        (["-ep=x", "-l", "a=b"], ["-e=…", "-l", "a=b"]),
    ],
)
def test_values_of_extra_variables_are_not_kept(words: list[str], kept: list[str]) -> None:
    assert without_secrets(words) == kept


def test_a_run_tells_what_became_of_every_host_and_leaves_only_its_log(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", "in-the-environment")
    handler = signal.getsignal(signal.SIGINT)
    run = play(small, extra_vars=("word=hello",))
    assert signal.getsignal(signal.SIGINT) is handler
    assert run.tracker.hosts() == {"a": "ok", "b": "failed"}
    failure = run.tracker.failures["b"]
    assert (failure.task, failure.message, failure.reached) == ("Fall over", "b is odd", True)
    assert run.exit_code == 2
    text = (small / "log.txt").read_text()
    assert "said hello" in text
    assert "PLAY RECAP" in text
    assert "\x1b[" not in text
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if "in-the-environment" in path.read_text()]
    assert not list(run.folder.rglob("job_events/*.json"))
    assert (small / "log.txt").stat().st_mode & 0o77 == 0
    run.close()
    assert not run.folder.exists()


def test_a_full_disk_costs_lines_of_the_log_and_not_the_run() -> None:
    with Path("/dev/full").open("wb", buffering=0) as file:
        log = Log(file)
        log.write("TASK [Bring packages]\n")
    assert log.problem is not None
    assert log.problem.strerror == "No space left on device"


def test_hosts_that_a_playbook_leaves_as_they_are_are_left_out_and_not_ok(small: Path) -> None:
    (small / "small.yml").write_text("""
- hosts: all
  gather_facts: false
  tasks:
    - name: Leave them as they are
      ansible.builtin.set_stats: {data: {not_ready: {"a, b": "busy with run digits-7"}}}
      run_once: true
    - name: Fall over
      ansible.builtin.assert: {that: "inventory_hostname != 'b'"}
""")
    run = play(small)
    run.close()
    assert run.tracker.hosts() == {"a": "left out", "b": "failed"}


def test_the_vaults_password_is_typed_and_nowhere_written(small: Path) -> None:
    password = small / "password"
    password.write_text("open sesame\n")
    variables = small / "secret.yml"
    variables.write_text("vaulted: ten letters\n")
    subprocess.run(
        [
            *(Path(sys.executable).with_name("ansible-vault"), "encrypt", variables),
            *("--vault-password-file", password),
        ],
        check=True,
        capture_output=True,
    )
    password.unlink()
    run = play(small, extra_vars=(f"@{variables}",), vault_password="open sesame", limit=("a",))
    assert run.exit_code == 0
    assert "msg: 11" in (small / "log.txt").read_text()
    kept = [path for path in small.rglob("*") if path.is_file()]
    kept += [path for path in run.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"open sesame" in path.read_bytes()]
    run.close()


def test_a_playbook_that_cannot_be_read_is_a_failure_with_no_host(small: Path) -> None:
    (small / "small.yml").write_text("- hosts: [")
    run = play(small)
    assert run.tracker.hosts() == {}
    assert exit_code({}, [], run.exit_code, False) is ExitCode.FAILED
    assert "YAML" in (small / "log.txt").read_text()
    run.close()


def test_a_run_that_is_ended_leaves_no_process_here(small: Path) -> None:
    pids = small / "pids"
    (small / "small.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Wait\n"
        f"      ansible.builtin.shell: echo $$ >>{pids}; sleep 1000\n"
    )
    run = Run(Playbook(small / "hosts.yml", str(small / "small.yml")), small / "log.txt")
    ending: list[playbook_end.Ending] = []

    def idle() -> None:
        if ending:
            ending[0].go_on()
        elif pids.exists() and len(pids.read_text().split()) == 2:
            ending.append(playbook_end.Ending(run.sockets))

    run.follow(lambda _: None, idle)
    ending[0].finish()
    run.close()
    assert not playbook_end.below(os.getpid()) & set(map(int, pids.read_text().split()))
    for pid in pids.read_text().split():
        assert not playbook_end.lives(int(pid))


def test_the_sweep_ends_only_what_the_named_connections_began(tmp_path: Path) -> None:
    """Sessions as sshd makes them: a shell that leads a session, with the connection's ports."""

    def session(port: int, command: str) -> subprocess.Popen[bytes]:
        env = {**os.environ, "SSH_CONNECTION": f"10.9.9.9 {port} 10.9.9.8 8022"}
        return subprocess.Popen(["sh", "-c", command], env=env, start_new_session=True)

    supervisor = f"setsid {tmp_path}/runsvdir 1000 >/dev/null 2>&1 & sleep 1000"
    (tmp_path / "runsvdir").symlink_to("/bin/sleep")
    ours, others = session(50123, "sleep 1000; echo"), session(5012, "sleep 1000; echo")
    starter = session(50124, supervisor)
    stubborn = session(50123, "trap '' TERM; while :; do sleep 1; done")
    try:
        done = subprocess.run(
            ["sh", "-c", playbook_end.sweep_line([50123, 50124])], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert ours.wait(10)
        assert starter.wait(10)
        assert stubborn.wait(10)
        assert others.poll() is None
        found = subprocess.run(
            ["pgrep", "-f", f"{tmp_path}/runsvdir"], capture_output=True, text=True
        )
        assert found.stdout.strip()
        os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
    finally:
        for each in (ours, others, starter, stubborn):
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


@pytest.mark.parametrize(
    ("results", "ansible", "code"),
    [
        ({"p1": "ok", "p2": "changed"}, 0, ExitCode.DONE),
        ({"p1": "ok", "p2": "failed"}, 2, ExitCode.SOME_PHONES_FAILED),
        ({"p1": "ok", "p2": "unreachable"}, 4, ExitCode.SOME_PHONES_FAILED),
        ({"p1": "failed", "p2": "unreachable"}, 2, ExitCode.SOME_PHONES_FAILED),
        (
            {"p1": "unreachable", "p2": "unreachable", "controller": "ok"},
            4,
            ExitCode.NONE_REACHABLE,
        ),
        ({"controller": "failed", "p1": "ok"}, 2, ExitCode.FAILED),
        ({}, 1, ExitCode.FAILED),
        ({}, 5, ExitCode.BAD_INPUT),
        ({}, 0, ExitCode.DONE),
    ],
)
def test_the_exit_code_comes_from_what_became_of_hosts(
    results: dict[str, str], ansible: int, code: ExitCode
) -> None:
    assert exit_code(results, ["p1", "p2"], ansible, False) is code
    assert exit_code(results, ["p1", "p2"], ansible, True) is ExitCode.INTERRUPTED


def test_a_failure_that_was_rescued_or_ignored_is_none() -> None:
    tracker = Tracker()
    for event in (
        Event("runner_on_failed", "p", "t", "1", "a", "failed", "odd"),
        Event("playbook_on_stats", stats={"ok": {"a": 3}, "rescued": {"a": 1}, "failures": {}}),
    ):
        tracker.take(event)
    assert tracker.hosts() == {"a": "ok"}
    ignored = parse_event(
        {"event": "runner_on_failed", "event_data": {"host": "a", "ignore_errors": True}}
    )
    assert ignored.result == "ok"


@pytest.mark.parametrize("document", [{}, {"event": None}, {"event_data": None, "stdout": None}])
def test_an_event_that_lacks_everything_is_no_crash(document: dict[str, Any]) -> None:
    tracker = Tracker()
    tracker.take(parse_event(document))
    assert tracker.hosts() == {}


def test_history_keeps_the_newest_and_skips_what_is_damaged(tmp_path: Path) -> None:
    for number in range(history.KEPT_RUNS + 5):
        record = history.begin(tmp_path, "ann", (f"word{number}",))
        history.write(tmp_path, record)
    kept = history.read(tmp_path)
    assert len(kept) == history.KEPT_RUNS
    assert kept[0].arguments == (f"word{history.KEPT_RUNS + 4}",)
    (tmp_path / kept[0].run / history.RECORD).write_text("{")
    assert len(history.read(tmp_path)) == history.KEPT_RUNS - 1


def test_the_second_at_the_same_time_is_told_who_is_first(tmp_path: Path) -> None:
    with history.held(tmp_path, "ann"):
        with pytest.raises(history.ProvisionHeld, match="ann") as caught:
            history.held(tmp_path, "bob").__enter__()
        assert caught.value.exit_code is ExitCode.HELD
    with history.held(tmp_path, "bob"):
        pass
