"""The operator's key is changed for another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.provision import rotate
from fleetctl.provision.certificates import certified_key
from fleetctl.provision.keys import Authority, Request, fulfil
from fleetctl.provision.revocation import krl_version


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ssh = tmp_path / "ssh"
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
