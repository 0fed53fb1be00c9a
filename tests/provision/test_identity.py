"""Which phone sits in which place, and by which keys it is known."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetctl.provision import identity, keys
from fleetctl.provision.identity import Register
from fleetctl.provision.keys import Request, fulfil
from fleetctl.provision.revocation import read_list
from fleetctl.rack import InputError, Network, Phone, Rack, RackPaths
from fleetctl.rack.lock import Locked
from fleetctl.state import Held, PhoneFacts, State

NAMES = ("phone001", "phone002", "phone003")
RACK = Rack(
    "home",
    Network(IPv4Network("10.1.0.0/24"), "ethernet", "ours"),
    {name: Phone(name, f"10.1.0.1{place}") for place, name in enumerate(NAMES)},
)


class Home:
    """A rack's folder, and keys of phones that come and go."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PHONERACK_HOME", str(folder))
        self.folder = folder
        self.paths = RackPaths("home", folder)
        self.register = Register(RACK, folder / "rack.yml")

    def key(self, phone: str) -> str:
        keys.Authority(self.folder / "phones" / phone, "elsewhere")
        return " ".join((self.folder / "phones" / phone / "ca.pub").read_text().split()[:2])

    def entry(self, number: int) -> Locked:
        return Locked(f"R58M{number}", f"02:00:00:00:00:{number:02}", f"10.1.0.{number}", 31)

    def enrol(self, name: str, number: int) -> None:
        self.register.enrol(name, self.entry(number), self.key(f"host{number}"))

    def provision(self) -> None:
        """What site.yml does with the keys of all phones that are there."""
        there = {name: RACK.phones[name].address for name in self.register.entries()}
        serials = {name: entry.serial for name, entry in self.register.entries().items()}
        ranks = {name: self.key(f"rank-{serials[name]}") for name in there}
        fulfil(self.paths.ssh, Request("home", there, ranks))

    @property
    def revoked(self) -> list[tuple[str, str]]:
        file = self.paths.ssh / "revoked"
        entries = read_list(file.read_text()) if file.exists() else []
        return [(entry.kind, entry.key) for entry in entries]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(tmp_path, monkeypatch)


def test_a_phone_takes_an_empty_place(home: Home) -> None:
    home.enrol("phone002", 2)
    home.enrol("phone001", 1)

    assert home.register.entries() == {"phone001": home.entry(1), "phone002": home.entry(2)}
    assert list(home.register.entries()) == ["phone001", "phone002"]
    assert home.register.host_keys() == {
        "phone001": home.key("host1"),
        "phone002": home.key("host2"),
    }


def test_a_reinstalled_app_is_the_same_phone_with_another_key(home: Home) -> None:
    home.enrol("phone001", 1)
    home.provision()

    home.register.enrol("phone001", home.entry(1), home.key("host1 anew"))

    assert home.register.host_keys() == {"phone001": home.key("host1 anew")}
    assert not home.register.is_revoked(home.key("host1 anew"))


def test_and_its_former_keys_count_no_more_since_their_certificates_have_no_end(home: Home) -> None:
    home.enrol("phone001", 1)
    home.enrol("phone002", 2)
    home.provision()

    home.register.enrol("phone001", home.entry(1), home.key("host1 anew"))

    old = {("host", home.key("host1")), ("rank", home.key("rank-R58M1"))}
    assert set(home.revoked) == old
    with State(home.paths.state_db) as state:
        assert state.wanted_revocations() == 2
    assert not (home.paths.ssh / "hosts/phone001-cert.pub").exists()
    with pytest.raises(InputError, match="was revoked when its phone left a place or was enrolled"):
        home.register.enrol("phone001", home.entry(1), home.key("host1"))


def test_what_else_is_learnt_of_a_phone_with_its_known_key_revokes_nothing(home: Home) -> None:
    """As on the wire: its adapter and its address."""
    home.register.enrol("phone001", Locked("R58M1", adb_open=True), home.key("host1"))
    home.provision()

    home.enrol("phone001", 1)

    assert home.revoked == []


def test_the_same_phone_may_come_with_another_adapter(home: Home) -> None:
    home.enrol("phone001", 1)
    adapter = replace(home.entry(1), mac="02:00:00:00:00:77")

    home.register.enrol("phone001", adapter, home.key("host1"))

    assert home.register.entries()["phone001"] == adapter


@pytest.mark.parametrize(
    ("name", "number", "change", "words"),
    [
        ("phone009", 9, {}, "the rack file has no place phone009"),
        ("phone001", 9, {}, "in the place phone001 sits the phone R58M1, not R58M9"),
        ("phone002", 9, {"serial": "R58M1"}, "R58M1 is enrolled already, as phone001"),
        ("phone002", 9, {"mac": "02:00:00:00:00:01"}, "phone002 and phone001 both have the MAC"),
    ],
)
def test_a_phone_that_cannot_be_told_from_another_is_refused(
    home: Home, name: str, number: int, change: dict[str, str], words: str
) -> None:
    home.enrol("phone001", 1)
    before = home.register.entries(), home.register.host_keys()

    with pytest.raises(InputError, match=words):
        home.register.enrol(name, replace(home.entry(number), **change), home.key("host9"))

    assert (home.register.entries(), home.register.host_keys()) == before


def test_no_key_is_recorded_for_a_phone_that_the_lock_file_does_not_have(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a phone that was cut off there could take no other place: its key would be another's."""

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(identity, "write_lock", full)
        with pytest.raises(OSError, match="no space"):
            home.enrol("phone001", 1)

    home.enrol("phone002", 1)
    assert home.register.host_keys() == {"phone002": home.key("host1")}


def test_a_copy_of_another_phones_termux_is_refused(home: Home) -> None:
    home.enrol("phone001", 1)

    with pytest.raises(InputError, match="phone002 bears the host key of phone001"):
        home.register.enrol("phone002", home.entry(2), home.key("host1") + " comment")


def test_a_phone_that_replaces_another_keeps_the_place_and_revokes_the_old_keys(home: Home) -> None:
    home.enrol("phone001", 1)
    home.enrol("phone002", 2)
    home.provision()
    with State(home.paths.state_db) as state:
        state.record_health("phone001", "CRITICAL", "hung")
        state.drain(["phone001"], "ann", "screen broken", now=1.0)

    home.register.replace("phone001", home.entry(9), home.key("host9"))

    assert home.register.entries() == {"phone001": home.entry(9), "phone002": home.entry(2)}
    assert home.register.host_keys()["phone001"] == home.key("host9")
    old = {("host", home.key("host1")), ("rank", home.key("rank-R58M1"))}
    assert set(home.revoked) == old
    with State(home.paths.state_db) as state:
        facts = state.phones()["phone001"]
        assert facts.health is None
        assert [drain.who for drain in facts.drains] == ["ann"]
        assert state.wanted_revocations() == 2
    home.provision()
    assert (home.paths.ssh / "hosts/phone001-cert.pub").exists()


def test_a_phone_does_not_replace_itself(home: Home) -> None:
    home.enrol("phone001", 1)

    with pytest.raises(InputError, match="it is phone001 itself"):
        home.register.replace("phone001", home.entry(9), home.key("host1"))

    assert home.register.entries() == {"phone001": home.entry(1)}


def test_a_busy_phone_is_neither_replaced_nor_retired(home: Home) -> None:
    home.enrol("phone001", 1)
    with State(home.paths.state_db) as state:
        state.allocate("run-1", ["phone001"])

    with pytest.raises(Held, match="phone001 by run run-1"):
        home.register.replace("phone001", home.entry(9), home.key("host9"))
    with pytest.raises(Held, match="phone001 by run run-1"):
        home.register.retire(["phone001"])

    assert home.register.entries() == {"phone001": home.entry(1)}
    assert not home.register.is_revoked(home.key("host1"))


def test_a_retired_phone_leaves_an_empty_place_and_keys_that_nobody_accepts(home: Home) -> None:
    for number, name in enumerate(NAMES, start=1):
        home.enrol(name, number)
    home.provision()
    with State(home.paths.state_db) as state:
        state.drain(["phone002"], "retire", "leaves the rack", "check")

    assert home.register.retire(["phone002"]) == ["phone002"]

    assert list(home.register.entries()) == ["phone001", "phone003"]
    assert "phone002" not in home.register.host_keys()
    old = {("host", home.key("host2")), ("rank", home.key("rank-R58M2"))}
    assert set(home.revoked) == old
    with State(home.paths.state_db) as state:
        assert state.phones().get("phone002", PhoneFacts()) == PhoneFacts()
    assert not [*home.paths.ssh.glob("*/phone002-cert.pub")]


def test_to_retire_twice_is_to_retire_once(home: Home) -> None:
    home.enrol("phone001", 1)
    home.provision()
    home.register.retire(["phone001"])
    krl = (home.paths.ssh / "krl").read_bytes()

    assert home.register.retire(["phone001"]) == []

    assert (home.paths.ssh / "krl").read_bytes() == krl


def test_a_retired_phone_comes_back_with_new_keys_only(home: Home) -> None:
    home.enrol("phone001", 1)
    home.register.retire(["phone001"])

    with pytest.raises(InputError, match="the host key of phone002 was revoked"):
        home.register.enrol("phone002", home.entry(1), home.key("host1"))
    home.register.enrol("phone002", home.entry(1), home.key("host1 anew"))

    assert home.register.entries() == {"phone002": home.entry(1)}


@settings(max_examples=25)
@given(data=st.data())
def test_whatever_happens_names_serials_and_keys_stay_one_to_one(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        home = Home(tmp_path_factory.mktemp("home"), monkeypatch)
        for _ in range(data.draw(st.integers(1, 6))):
            act = data.draw(st.sampled_from(["enrol", "replace", "retire"]))
            name = data.draw(st.sampled_from(NAMES))
            number = data.draw(st.integers(1, 4))
            key = home.key(f"host{number}")
            before = set(home.revoked)
            try:
                if act == "retire":
                    home.register.retire([name])
                else:
                    getattr(home.register, act)(name, home.entry(number), key)
            except InputError:
                continue
            entries, known = home.register.entries(), home.register.host_keys()
            assert len({entry.serial for entry in entries.values()}) == len(entries)
            assert known.keys() == entries.keys()
            assert len(set(known.values())) == len(known)
            assert not any(home.register.is_revoked(key) for key in known.values())
            assert before <= set(home.revoked)
