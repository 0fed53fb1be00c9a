"""Phones that leave the rack: refused while busy, wiped, and done with whatever they answer."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterable
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from fleetctl.provision import keys
from fleetctl.provision import retire as module
from fleetctl.provision.identity import Register
from fleetctl.provision.retire import CLOSE, LEAVING, WHO, WIPE, WIPED, Outcome
from fleetctl.rack import InputError, Network, Phone, Rack, RackPaths
from fleetctl.rack.lock import Locked
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import Held, State

NAMES = ("phone001", "phone002")
RACK = Rack(
    "home",
    Network(IPv4Network("10.1.0.0/24"), "ethernet", "ours"),
    {name: Phone(name, f"10.1.0.1{place}") for place, name in enumerate(NAMES)},
    left={"phone007": Phone("phone007", "10.1.0.17")},
)


class PhonesThatAnswer:
    """Instead of the phones: what was run on them, and what they answer by command."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answers: dict[str, Result] = {}
        """By phone, or by command and phone."""
        self.before_answer: Callable[[], None] = lambda: None

    def __call__(self, rack: Rack, _: RackPaths) -> Self:
        self.addresses = {name: phone.address for name, phone in rack.phones.items()}
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        return

    async def run(self, names: Iterable[str], command: str, **_: float) -> dict[str, Result]:
        what, names = {WIPE: "wipe", CLOSE: "close"}[command], list(names)
        if names:
            self.before_answer()
        self.asked += [(what, name) for name in names]
        by_name = {name: self.answers.get(name, Result(0)) for name in names}
        return {name: self.answers.get(f"{what} {name}", by_name[name]) for name in names}


@pytest.fixture
def phones(monkeypatch: pytest.MonkeyPatch) -> PhonesThatAnswer:
    made = PhonesThatAnswer()
    monkeypatch.setattr(module, "Fleet", made)
    return made


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RackPaths:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    made = RackPaths("home", tmp_path)
    register = Register(RACK, tmp_path / "rack.yml")
    for number, name in enumerate(NAMES):
        keys.Authority(tmp_path / name, "elsewhere")
        key = (tmp_path / name / "ca.pub").read_text()
        register.enrol(name, Locked(f"R58M{number}", address=RACK.phones[name].address), key)
    return made


def retire(paths: RackPaths, *names: str, check: bool = False) -> Outcome:
    return asyncio.run(module.retire(RACK, paths.home / "rack.yml", names, check=check))


def enrolled(paths: RackPaths) -> list[str]:
    return list(Register(RACK, paths.home / "rack.yml").entries())


def drains(paths: RackPaths) -> dict[str, str]:
    with State(paths.state_db) as state:
        return {name: facts.drains[0].why for name, facts in state.phones().items() if facts.drains}


def test_a_phone_is_wiped_before_its_doors_are_shut(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    assert retire(paths, "phone002") == Outcome(["phone002"], {}, {})

    assert phones.asked == [("wipe", "phone002"), ("close", "phone002")]
    assert enrolled(paths) == ["phone001"]
    assert drains(paths) == {}


def test_a_phone_that_does_not_answer_leaves_and_it_is_said_that_its_data_is_there(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    error = PhoneError("phone002", Fault.UNREACHABLE, "phone002 (10.1.0.11) is unreachable")
    phones.answers["phone002"] = Result(None, error=error)

    outcome = retire(paths, "phone001", "phone002")

    assert outcome == Outcome(["phone001", "phone002"], {"phone002": str(error)}, {})
    assert ("close", "phone002") not in phones.asked
    assert enrolled(paths) == []


def test_a_busy_phone_is_refused_and_nothing_is_done_to_any(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    with State(paths.state_db) as state:
        state.allocate("run-1", ["phone002"])

    with pytest.raises(Held, match="phone002 by run run-1"):
        retire(paths, "phone001", "phone002")

    assert phones.asked == []
    assert enrolled(paths) == list(NAMES)
    assert drains(paths) == {}


def test_no_run_takes_a_phone_that_is_being_wiped(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    seen: list[dict[str, str]] = []
    phones.before_answer = lambda: seen.append(drains(paths))

    retire(paths, "phone001")

    assert seen == [{"phone001": LEAVING}, {"phone001": WIPED}]


class CutError(Exception):
    """The controller's power goes."""


@pytest.mark.parametrize("answers", [0, 1, 2], ids=["at the wipe", "at the close", "at the end"])
def test_a_try_that_was_cut_off_anywhere_is_completed_with_the_door_shut(
    paths: RackPaths,
    phones: PhonesThatAnswer,
    monkeypatch: pytest.MonkeyPatch,
    answers: int,
) -> None:
    def cut(*_: object) -> None:
        if len(phones.asked) == answers:
            raise CutError

    phones.before_answer = cut
    with monkeypatch.context() as cuts:
        cuts.setattr(Register, "retire", cut)
        with pytest.raises(CutError):
            retire(paths, "phone001")
    first = [what for what, _ in phones.asked]
    phones.before_answer = lambda: None

    assert retire(paths, "phone001") == Outcome(["phone001"], {}, {})

    # Nothing twice, since a phone whose door is shut could not be asked again.
    assert [what for what, _ in phones.asked] == ["wipe", "close"]
    assert first == ["wipe", "close"][:answers]
    assert enrolled(paths) == ["phone002"]
    assert drains(paths) == {}


def failing(fault: Fault) -> Result:
    return Result(None, error=PhoneError("phone001", fault, f"phone001: {fault}"))


@pytest.mark.parametrize(
    "answer", [failing(Fault.LOST), failing(Fault.REFUSED), Result(1, stderr="cannot be removed")]
)
def test_a_phone_whose_door_was_not_seen_to_shut_is_tried_again_and_then_named(
    paths: RackPaths, phones: PhonesThatAnswer, answer: Result
) -> None:
    phones.answers["close phone001"] = answer

    outcome = retire(paths, "phone001", "phone002")

    assert outcome.unclosed == {"phone001": answer.failure("phone001")}
    assert outcome.unwiped == {}
    assert phones.asked.count(("close", "phone001")) == 2
    assert phones.asked.count(("close", "phone002")) == 1
    assert enrolled(paths) == []


def test_a_wiped_phone_that_refuses_the_operators_key_has_shut_its_door(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    """The connection broke while the door was being shut: the key is gone by then."""
    with State(paths.state_db) as state:
        state.drain(["phone001"], WHO, WIPED, "check")
    phones.answers["close phone001"] = failing(Fault.AUTH)

    assert retire(paths, "phone001") == Outcome(["phone001"], {}, {})
    assert phones.asked == [("close", "phone001")]


def test_a_phone_that_has_left_the_rack_file_can_be_retired_too(
    paths: RackPaths, phones: PhonesThatAnswer
) -> None:
    assert retire(paths, "phone007").unwiped == {}

    assert phones.addresses["phone007"] == "10.1.0.17"


def test_a_name_that_nobody_knows_is_refused(paths: RackPaths, phones: PhonesThatAnswer) -> None:
    with pytest.raises(InputError, match="no phone phone009"):
        retire(paths, "phone001", "phone009")

    assert phones.asked == []


def test_check_looks_and_does_nothing(paths: RackPaths, phones: PhonesThatAnswer) -> None:
    assert retire(paths, "phone001", check=True) == Outcome(["phone001"], {}, {})
    with State(paths.state_db) as state:
        state.allocate("run-1", ["phone002"])
    with pytest.raises(Held):
        retire(paths, "phone002", check=True)

    assert phones.asked == []
    assert enrolled(paths) == list(NAMES)
    assert drains(paths) == {}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A phone's folders, with what the rack brought and what is the owner's."""
    for name in (
        "home/phonerack/runs/digits-1/log",
        "home/.ssh/phonerack_rank",
        "home/.ssh/authorized_keys",
        "home/.termux/boot/phonerack",
        "home/.termux/termux.properties",
        "home/photo.jpg",
        "usr/etc/phonerack/name",
        "usr/etc/ssh/phonerack_krl",
        "usr/etc/ssh/sshd_config",
        "usr/etc/ssh/sshd_config.d/phonerack.conf",
        "usr/etc/ssh/sshd_config.d/own.conf",
        "usr/etc/ssh/ssh_host_ed25519_key",
        "usr/etc/ssh/ssh_host_ed25519_key-cert.pub",
        "usr/var/service/phonerack-exporter/run",
        "usr/etc/apt/keyrings/phonerack.asc",
        "usr/var/lib/apt/lists/phonerack-refreshed",
        "usr/var/log/sv/phonerack-exporter/current",
        "usr/var/service/sshd/phonerack-applied.json",
        "usr/var/service/sshd/run",
        "usr/lib/libphonerack_hostname.so",
        "usr/lib/libtermux-exec.so",
        "usr/bin/python",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


def run_there(script: str, files: Path) -> subprocess.CompletedProcess[str]:
    """The script with other folders; /proc is empty, so that it ends no process of ours."""
    moved = script.replace("/data/data/com.termux/files", str(files)).replace("/proc/", "/none/")
    return subprocess.run(["/bin/sh", "-c", moved], text=True, capture_output=True)


def left(files: Path) -> set[str]:
    return {str(path.relative_to(files)) for path in files.rglob("*") if path.is_file()}


def test_what_the_rack_brought_goes_and_what_is_the_owners_stays(files: Path) -> None:
    main = files / "usr/etc/ssh/sshd_config"
    main.write_text("Include /etc/ssh/sshd_config.d/phonerack*.conf\nPort 8022\n")
    assert run_there(WIPE, files).returncode == 0

    after = left(files)
    # The door is still open, by what a running sshd reads and preloads: were the next step cut off,
    # the phone could be asked again.
    door = {"usr/etc/ssh/phonerack_krl", "usr/etc/ssh/sshd_config.d/phonerack.conf"}
    door |= {"usr/etc/ssh/ssh_host_ed25519_key-cert.pub", "usr/lib/libphonerack_hostname.so"}
    assert {name for name in after if "phonerack" in name or "cert" in name} == door
    assert {"home/.ssh/authorized_keys", "usr/etc/ssh/ssh_host_ed25519_key"} <= after
    owners = {"home/photo.jpg", "usr/etc/ssh/sshd_config.d/own.conf", "usr/bin/python"}
    assert owners <= after

    assert run_there(CLOSE, files).returncode == 0

    after = left(files)
    assert not [name for name in after if ".ssh/" in name or "host_" in name or "phonerack" in name]
    assert owners | {"usr/var/service/sshd/down", "usr/lib/libtermux-exec.so"} <= after
    assert main.read_text() == "Port 8022\n"


def test_nothing_is_started_after_what_the_session_preloads_is_gone() -> None:
    """On Android nothing starts that preloads a missing file."""
    assert "libphonerack" not in WIPE
    last = CLOSE.strip().splitlines()[-1]
    assert last.startswith("rm -rf ")
    assert "/lib/libphonerack_*" in last
    assert CLOSE.count("/lib/libphonerack_*") == 1


def test_a_door_that_cannot_be_shut_says_so(files: Path) -> None:
    script = CLOSE.replace('rm -rf "$home"/.ssh', "rm -rf")

    said = run_there(script, files)

    assert said.returncode == 1
    assert "home/.ssh" in said.stderr


def test_a_wipe_that_leaves_something_says_so(files: Path) -> None:
    script = WIPE.replace('rm -rf "$home"/phonerack', 'rm -rf "$home"/nothing')

    said = run_there(script, files)

    assert said.returncode == 1
    assert "cannot be removed" in said.stderr
