"""What OpenSSH's client says, in our words."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from fleetctl.rack import RackPaths
from fleetctl.remote import Fault, Result, faults
from fleetctl.remote.openssh import explain
from fleetctl.state import State

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Host key for phone001 has changed and you have requested strict checking.
  remove with:  ssh-keygen -f "known_hosts" -R "phone001"
Host key verification failed."""


@pytest.mark.parametrize(
    ("said", "fault", "words"),
    [
        (CHANGED, Fault.HOST_KEY_CHANGED, "is not the one it was enrolled with"),
        (
            "@  WARNING: REVOKED HOST KEY DETECTED!  @\nHost key verification failed.",
            Fault.HOST_KEY_CHANGED,
            "answers with a host key that was revoked",
        ),
        (
            "No ED25519 host key is known for phone001 and you have requested strict checking.\n"
            "Host key verification failed.",
            Fault.HOST_KEY_CHANGED,
            "enrol the phone first",
        ),
        ("ssh: connect to host 10.0.0.1 port 8022: No route to host", Fault.UNREACHABLE, "cable"),
        ("ssh: connect to host 10.0.0.1 port 8022: Connection timed out", Fault.UNREACHABLE, ""),
        ("ssh: connect to host 10.0.0.1 port 8022: Connection refused", Fault.REFUSED, "unlock"),
        (
            "kex_exchange_identification: banner line 0: Not allowed at this time",
            Fault.THROTTLED,
            "throttled",
        ),
        ("phone@10.0.0.1: Permission denied (publickey).", Fault.AUTH, "operator's key"),
        ("kex_exchange_identification: Connection closed by remote host", Fault.LOST, "power"),
        ("no matching cipher found", Fault.FAILED, "no matching cipher found"),
        ("", Fault.FAILED, "ssh said nothing"),
    ],
)
def test_every_failure_is_told_with_its_cure(said: str, fault: Fault, words: str) -> None:
    problem = explain("phone001", "10.0.0.1", said)

    assert problem.fault is fault
    assert words in str(problem)
    assert "phone001" in str(problem)
    # Its own advice would trust whoever answers.
    assert "ssh-keygen" not in str(problem)


def report() -> Any:
    """The callback plugin, as Ansible loads it."""
    path = Path(__file__).resolve().parents[2] / "plugins/callback/rack_report.py"
    loader = importlib.util.spec_from_file_location("rack_report", path)
    assert loader
    assert loader.loader
    module = importlib.util.module_from_spec(loader)
    loader.loader.exec_module(module)
    return module


def test_phones_that_fail_alike_stand_on_one_line_and_only_the_silent_count_as_missed() -> None:
    silence = "ssh: connect to host port 8022: No route to host"
    phones = {"phone001": silence, "phone002": CHANGED, "phone003": silence}
    addresses = {name: f"10.0.0.{place}" for place, name in enumerate(phones)}

    lines, missed = report().explained(phones, addresses, {})

    assert len(lines) == 2
    assert lines[0].startswith("phone[001,003] is unreachable: no route to host")
    assert lines[1].startswith("the host key of phone002 is not the one it was enrolled with")
    assert "`fleetctl enroll --replace phone002`" in lines[1]
    assert missed.keys() == {"phone001", "phone003"}


def test_a_phone_that_is_asked_again_tells_more_than_ssh_does() -> None:
    """Of these two OpenSSH's client says the same, or nothing that helps."""
    closed = "kex_exchange_identification: Connection closed by remote host"
    phones = dict.fromkeys(("phone001", "phone002"), closed)
    addresses = dict.fromkeys(phones, "10.0.0.1")
    again = {
        "phone001": Result(None, error=faults.throttled("phone001", "10.0.0.1")),
        "phone002": Result(0),
    }

    lines, missed = report().explained(phones, addresses, again)

    assert lines[0].startswith("phone001 is throttled")
    assert "wait a minute" in lines[0]
    assert lines[1].startswith("phone002 stopped answering")
    assert lines[1].endswith("it answers by now: run this for it again")
    assert missed == {}


def test_of_a_rack_that_cannot_be_read_nobody_is_asked(tmp_path: Path) -> None:
    assert report().ask(str(tmp_path / "none.yml"), ["phone001"]) == {}


def test_what_was_silent_is_lost_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    RackPaths("home").ensure()

    report().keep("home", {"phone001": "phone001 is unreachable"})

    with State(RackPaths("home").state_db) as state:
        assert state.groups()["lost"] == ["phone001"]
        assert state.phones()["phone001"].contact.why == "phone001 is unreachable"
