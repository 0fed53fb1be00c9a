"""The operator's key is changed for another one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from loopback_phones import Listen, Loopback, listen, loopback

from fleetctl.provision import rotate
from fleetctl.provision.certificates import certified_key
from fleetctl.provision.keys import Authority, Request, WouldLockOut, fulfil
from fleetctl.provision.revocation import krl_version
from fleetctl.state import State

__all__ = ["listen", "loopback"]

PHONES = {"phone001": "10.138.0.11", "phone002": "10.138.0.12"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ssh = tmp_path / "home/ssh"
    ssh.parent.mkdir()
    fulfil(ssh, Request("home", {}))
    return ssh


def operator(folder: Path) -> str:
    return " ".join((folder / "operator.pub").read_text().split()[:2])


def test_until_the_commit_the_old_key_is_the_operators(folder: Path) -> None:
    before = operator(folder)

    first, second = rotate.prepare(folder, "home"), rotate.prepare(folder, "home")

    assert first == second
    assert (first.old, operator(folder)) == (before, before)
    assert first.new != before


def test_the_commit_changes_the_keys_and_revokes_the_old_one(folder: Path) -> None:
    prepared = rotate.prepare(folder, "home")

    assert rotate.commit(folder, "home") == prepared

    assert operator(folder) == prepared.new
    assert certified_key((folder / "operator-cert.pub").read_text()) == prepared.new
    assert [entry.key for entry in Authority(folder, "home").revoked] == [prepared.old]
    assert krl_version((folder / "krl").read_bytes()) == 1
    assert sorted(path.name for path in folder.glob("operator*")) == [
        "operator",
        "operator-cert.pub",
        "operator.pub",
    ]
    # A rerun finds nothing to do, and still tells which key went.
    assert rotate.commit(folder, "home") == prepared


@pytest.mark.parametrize("moment", ["after the list", "after the move"])
def test_a_commit_that_was_cut_off_is_completed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    prepared = rotate.prepare(folder, "home")
    with monkeypatch.context() as patch:
        if moment == "after the list":
            patch.setattr(Path, "replace", _cut_off)
        else:
            patch.setattr(Authority, "certify_operator", _second_time_cut_off())
        with pytest.raises(KeyboardInterrupt):
            rotate.commit(folder, "home")

    assert rotate.commit(folder, "home") == prepared
    assert operator(folder) == prepared.new
    assert certified_key((folder / "operator-cert.pub").read_text()) == prepared.new


def _cut_off(source: Path, target: Path) -> Path:
    if source.name == rotate.NEXT:
        raise KeyboardInterrupt
    source.rename(target)
    return target


def _second_time_cut_off() -> object:
    real, calls = Authority.certify_operator, []

    def certify(authority: Authority) -> str:
        calls.append(authority)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(authority)

    return certify


@pytest.fixture
def rotated(folder: Path) -> Path:
    """A rack of two phones whose operator's key has just been changed."""
    for name in PHONES:
        Authority(folder.parent / name, "elsewhere")
        line = " ".join((folder.parent / f"{name}/ca.pub").read_text().split()[:2])
        with (folder / "known_hosts").open("a") as file:
            file.write(f"{name} {line}\n")
    fulfil(folder, Request("home", PHONES))
    rotate.prepare(folder, "home")
    rotate.commit(folder, "home")
    return folder


def new_authority(folder: Path, **options: bool) -> bool:
    """Have the authority's key replaced as the manual says; whether it was."""
    before = (folder / "ca").read_bytes()
    (folder / "ca").unlink()
    try:
        fulfil(folder, Request("home", PHONES), **options)
    finally:
        if not (folder / "ca").exists():
            (folder / "ca").write_bytes(before)
    return (folder / "ca").read_bytes() != before


def test_a_new_authority_is_refused_while_phones_know_the_operator_by_the_old_one_alone(
    rotated: Path,
) -> None:
    with pytest.raises(WouldLockOut, match=r"phone001, phone002: .* run `site.yml -t ssh` and"):
        new_authority(rotated)
    with State(rotated.parent / "state.db") as state:
        state.record_revocations({"phone001": 1, "phone002": 0})
    with pytest.raises(WouldLockOut, match="out of phone002: "):
        new_authority(rotated, check=True)
    with State(rotated.parent / "state.db") as state:
        state.record_revocations({"phone002": 1})
    assert new_authority(rotated)


def test_phones_may_be_given_up_for_a_new_authority(rotated: Path) -> None:
    assert new_authority(rotated, regardless=True)


def test_without_another_operators_key_there_is_nothing_to_lose(folder: Path) -> None:
    assert new_authority(folder)


def test_the_next_key_is_proven_on_every_phone_before_it_counts(
    folder: Path, loopback: Loopback, listen: Listen
) -> None:
    """phone002 knows another authority, phone003 is away, phone004 is certified by another one."""
    rotate.prepare(folder, "home")
    authorities = {
        "phone001": (folder / "ca.pub").read_text(),
        "phone002": loopback.operator.with_suffix(".pub").read_text(),
    }

    async def proven(*names: str) -> list[str]:
        trust = {name: folder / f"trust-{name}" for name in authorities}
        for name, file in trust.items():
            file.write_text(f'cert-authority,principals="operator" {authorities[name]}')
        first = listen("phone001", authorized=trust["phone001"])
        other = {"phone004": str(loopback.operator)}
        third = listen("phone004", authorized=trust["phone001"], host_keys=other)
        async with first, listen("phone002", authorized=trust["phone002"]), third:
            phones: Any = [
                SimpleNamespace(name=name, address=loopback.phones[name].address) for name in names
            ]
            return await rotate.prove(folder, phones, loopback.port)

    for name in (*authorities, "phone003", "phone004"):
        loopback.add(name)
    with (folder / "known_hosts").open("a") as file:
        file.write(loopback.known_hosts.read_text())
    with pytest.raises(rotate.Refused, match=r"^phone002, phone004 would not .*controller,ssh"):
        asyncio.run(proven("phone001", "phone002", "phone003", "phone004"))
    (unproven,) = asyncio.run(proven("phone001", "phone003"))
    assert unproven.startswith("phone003 ")
    assert sorted(path.name for path in folder.glob("operator.next*")) == [
        "operator.next",
        "operator.next-cert.pub",
        "operator.next.pub",
    ]
