"""Signatures under releases, by the real ssh-keygen."""

from pathlib import Path

import pytest

from fleetctl.provision import signing
from fleetctl.provision.keys import Request, fulfil


@pytest.fixture
def key(tmp_path: Path) -> Path:
    fulfil(tmp_path, Request("rack1", {}))
    return tmp_path / "release"


def test_the_key_is_made_once_and_is_the_owners_only(tmp_path: Path, key: Path) -> None:
    made = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert fulfil(tmp_path, Request("rack1", {})).changed == []
    assert key.read_bytes() == made


def test_phones_are_told_the_public_half_and_what_it_is_for(key: Path) -> None:
    public = " ".join(Path(f"{key}.pub").read_text().split()[:2])
    line = f'release@rack1 namespaces="phonerack-release" {public}'
    assert signing.allowed_signers(key) == line


def test_a_signature_is_good_for_its_content_alone(key: Path) -> None:
    signature = signing.sign(key, b"content")
    assert signing.sign(key, b"content") == signature
    assert signing.is_signed(key, b"content", signature)
    assert not signing.is_signed(key, b"other", signature)
    assert not signing.is_signed(key, b"content", b"no signature")


def test_another_key_and_another_purpose_are_told_apart(
    key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    fulfil(other, Request("rack1", {}))
    assert not signing.is_signed(key, b"content", signing.sign(other / "release", b"content"))
    with monkeypatch.context() as patch:
        patch.setattr(signing, "NAMESPACE", "file")
        elsewhere = signing.sign(key, b"content")
    assert not signing.is_signed(key, b"content", elsewhere)


def test_without_a_key_the_cure_is_named(tmp_path: Path) -> None:
    with pytest.raises(signing.SigningError, match=r"no release key at .*site.yml -t controller"):
        signing.sign(tmp_path / "release", b"")
    assert not signing.is_signed(tmp_path / "release", b"", b"")
    assert signing.allowed_signers(tmp_path / "release") == ""
