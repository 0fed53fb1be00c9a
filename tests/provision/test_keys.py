"""The certificate authority, read back by OpenSSH's own tools."""

from __future__ import annotations

import io
import json
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from fleetctl.provision import keys
from fleetctl.provision.keys import Request, fulfil
from fleetctl.provision.revocation import RevocationError, Revoked, krl_version
from fleetctl.state import State

PHONES = {"phone001": "10.138.0.11", "phone002": "10.138.0.12"}

needs_openssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="needs OpenSSH's ssh-keygen"
)


def public(path: Path) -> str:
    """A fresh key pair's public line."""
    keys.Authority(path, "elsewhere")
    return " ".join((path / "ca.pub").read_text().split()[:2])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An ssh folder as enrolment leaves it: host keys of both phones and the services host."""
    ssh = tmp_path / "ssh"
    ssh.mkdir()
    names = (*PHONES, "services")
    lines = [f"{name} {public(tmp_path / name)}" for name in names]
    (ssh / "known_hosts").write_text("\n".join(lines) + "\n")
    return ssh


def shown(certificate: Path) -> str:
    argv = ["ssh-keygen", "-L", "-f", certificate]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_a_second_run_changes_nothing(folder, tmp_path):
    request = Request("home", PHONES, {"phone001": public(tmp_path / "rank")})

    first = fulfil(folder, request)
    second = fulfil(folder, request)

    assert first.changed == [
        "ca",
        "ca.pub",
        "hosts/phone001-cert.pub",
        "hosts/phone002-cert.pub",
        "known_hosts",
        "krl",
        "operator",
        "operator-cert.pub",
        "operator.pub",
        "ranks/phone001-cert.pub",
        "release",
        "release.pub",
    ]
    assert (second.changed, second.unknown) == ([], [])
    assert (second.hosts, second.ranks) == (first.hosts, first.ranks)


def test_everything_is_readable_by_its_owner_only(folder, tmp_path):
    fulfil(folder, Request("home", PHONES, {"phone001": public(tmp_path / "rank")}))

    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "known_hosts"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@needs_openssh
def test_the_operators_certificate_has_one_principal_and_no_expiry(folder):
    fulfil(folder, Request("home", PHONES))

    text = shown(folder / "operator-cert.pub")

    assert "user certificate" in text
    assert "Valid: forever" in text
    assert text.split("Principals:")[1].split("Critical")[0].split() == ["operator"]
    assert "permit-pty" in text
    assert "agent-forwarding" not in text


@needs_openssh
def test_a_host_certificate_names_the_phone_and_its_address(folder):
    fulfil(folder, Request("home", PHONES))

    text = shown(folder / "hosts/phone002-cert.pub")

    assert "host certificate" in text
    principals = text.split("Principals:")[1].split("Critical")[0].split()
    assert sorted(principals) == ["10.138.0.12", "phone002"]


@needs_openssh
def test_a_rank_certificate_grants_commands_only(folder, tmp_path):
    fulfil(folder, Request("home", PHONES, {"phone001": public(tmp_path / "rank")}))

    text = shown(folder / "ranks/phone001-cert.pub")

    assert text.split("Principals:")[1].split("Critical")[0].split() == ["rank"]
    assert "Extensions: (none)" in text


@needs_openssh
def test_a_rank_certificate_counts_from_the_racks_network_only(folder, tmp_path):
    ranks = {"phone001": public(tmp_path / "rank")}
    fulfil(folder, Request("home", PHONES, ranks))

    changed = fulfil(folder, Request("home", PHONES, ranks, "10.138.0.0/24")).changed

    assert changed == ["ranks/phone001-cert.pub"]
    limits = shown(folder / "ranks/phone001-cert.pub").split("Critical Options:")[1]
    assert limits.split("Extensions")[0].split() == ["source-address", "10.138.0.0/24"]


def test_known_hosts_trusts_the_authority_for_the_racks_phones_only(folder):
    before = (folder / "known_hosts").read_text().splitlines()

    fulfil(folder, Request("home", PHONES))

    *enrolled, trust = (folder / "known_hosts").read_text().splitlines()
    authority = " ".join((folder / "ca.pub").read_text().split()[:2])
    assert enrolled == before
    assert trust == f"@cert-authority phone001,phone002 {authority}"


def test_the_order_of_known_hosts_is_nobodys_business(folder):
    fulfil(folder, Request("home", PHONES))
    lines = (folder / "known_hosts").read_text().splitlines()
    (folder / "known_hosts").write_text("\n".join(reversed(lines)) + "\n")

    assert fulfil(folder, Request("home", PHONES)).changed == []


def test_a_key_of_another_type_is_refused_by_name(folder, monkeypatch):
    (folder / "known_hosts").write_text("phone001 ssh-ed25519 AAAAnonsense\n")
    request = {"rack": "home", "phones": PHONES}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))

    with pytest.raises(SystemExit, match=str(folder)):
        keys.main([str(folder)])


def test_a_phone_that_moved_gets_a_new_certificate_and_the_others_keep_theirs(folder):
    fulfil(folder, Request("home", PHONES))

    again = fulfil(folder, Request("home", PHONES | {"phone002": "10.138.0.99"}))

    assert again.changed == ["hosts/phone002-cert.pub"]


def test_a_phone_that_was_enrolled_anew_gets_a_new_certificate(folder, tmp_path):
    fulfil(folder, Request("home", PHONES))
    known = (folder / "known_hosts").read_text().splitlines()
    known[0] = f"phone001 {public(tmp_path / 'new')}"
    (folder / "known_hosts").write_text("\n".join(known) + "\n")

    assert fulfil(folder, Request("home", PHONES)).changed == ["hosts/phone001-cert.pub"]


def test_a_phone_that_nobody_enrolled_is_named_and_gets_no_certificate(folder):
    result = fulfil(folder, Request("home", PHONES | {"phone003": "10.138.0.13"}))

    assert result.unknown == ["phone003"]
    assert not (folder / "hosts/phone003-cert.pub").exists()


def test_a_new_authority_replaces_every_certificate(folder):
    fulfil(folder, Request("home", PHONES))
    (folder / "ca").unlink()

    changed = fulfil(folder, Request("home", PHONES)).changed

    assert {"ca.pub", "operator-cert.pub", "hosts/phone001-cert.pub", "known_hosts"} <= {*changed}


def test_a_damaged_certificate_is_replaced(folder):
    fulfil(folder, Request("home", PHONES))
    (folder / "operator-cert.pub").write_text("ssh-ed25519-cert-v01@openssh.com AAAA broken\n")

    assert fulfil(folder, Request("home", PHONES)).changed == ["operator-cert.pub"]


def test_check_says_what_would_change_and_writes_nothing(folder, monkeypatch, capsys):
    request = {"rack": "home", "phones": PHONES}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))

    keys.main([str(folder), "--check"])

    assert "ca" in json.loads(capsys.readouterr().out)["changed"]
    assert [path.name for path in folder.iterdir()] == ["known_hosts"]


def revoke(folder: Path, *entries: Revoked) -> None:
    keys.Authority(folder, "home").revoke(entries)


def is_revoked(folder: Path, line: str) -> bool:
    """What OpenSSH makes of the rack's KRL."""
    key = folder / "asked.pub"
    key.write_text(line + "\n")
    argv = ["ssh-keygen", "-Q", "-f", folder / "krl", key]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 1


@needs_openssh
def test_a_revoked_key_is_revoked_with_all_certificates_over_it(folder):
    hosts = fulfil(folder, Request("home", PHONES)).hosts
    host_key = keys.host_keys((folder / "known_hosts").read_text())["phone002"]
    assert not is_revoked(folder, host_key)

    revoke(folder, Revoked(host_key, "host", "phone002"))

    assert is_revoked(folder, host_key)
    assert is_revoked(folder, hosts["phone002"])
    assert not is_revoked(folder, hosts["phone001"])


@needs_openssh
def test_the_version_of_the_krl_is_the_length_of_the_list(folder, tmp_path):
    entries = [Revoked(public(tmp_path / f"key{n}"), "rank", "phone001") for n in range(3)]
    fulfil(folder, Request("home", PHONES))
    versions = [krl_version((folder / "krl").read_bytes())]
    for entry in entries:
        revoke(folder, entry)
        revoke(folder, entry)
        versions.append(krl_version((folder / "krl").read_bytes()))

    assert versions == [0, 1, 2, 3]
    text = subprocess.run(
        ["ssh-keygen", "-Q", "-l", "-f", folder / "krl"], check=True, capture_output=True, text=True
    ).stdout
    assert "KRL version 3" in text
    before = (folder / "krl").read_bytes()
    assert fulfil(folder, Request("home", PHONES)).changed == []
    assert (folder / "krl").read_bytes() == before


def test_a_krl_that_was_lost_or_damaged_is_made_again(folder, tmp_path):
    revoke(folder, Revoked(public(tmp_path / "key"), "rank", "phone001"))
    (folder / "krl").write_bytes((folder / "krl").read_bytes()[:15])

    assert "krl" in fulfil(folder, Request("home", PHONES)).changed
    assert krl_version((folder / "krl").read_bytes()) == 1


def test_known_hosts_marks_revoked_host_keys_once_and_keeps_all_other_lines(folder, tmp_path):
    before = (folder / "known_hosts").read_text().splitlines()
    old = Revoked(public(tmp_path / "old"), "host", "phone007")
    revoke(folder, old, Revoked(public(tmp_path / "rank"), "rank", "phone007"))
    fulfil(folder, Request("home", PHONES))

    lines = (folder / "known_hosts").read_text().splitlines()

    assert lines[: len(before)] == before
    assert [line for line in lines if line.startswith("@revoked")] == [f"@revoked * {old.key}"]


def test_a_phone_with_a_revoked_key_gets_no_certificate_and_the_others_do(folder, tmp_path):
    known = keys.host_keys((folder / "known_hosts").read_text())
    rank = public(tmp_path / "rank")
    revoke(folder, Revoked(known["phone001"], "host", "phone007"), Revoked(rank, "rank", "x"))

    result = fulfil(folder, Request("home", PHONES, {"phone002": rank}))

    assert list(result.hosts) == ["phone002"]
    assert result.ranks == {}
    assert "phone001 bears a key that was revoked" in result.refused["phone001"]
    assert "the rank key of x" in result.refused["phone002"]
    assert result.unknown == []


def test_a_damaged_list_of_revoked_keys_is_refused_with_its_line(folder):
    (folder / "revoked").write_text("# comment\nssh-ed25519 AAAA\n")

    with pytest.raises(RevocationError, match="line 2 of the list of revoked keys is damaged"):
        fulfil(folder, Request("home", PHONES))


def test_the_state_learns_which_version_phones_shall_have(folder, tmp_path, monkeypatch):
    revoke(folder, Revoked(public(tmp_path / "key"), "rank", "phone001"))
    request = {"rack": "home", "phones": PHONES}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request)))

    keys.main([str(folder)])

    with State(folder.parent / "state.db") as state:
        assert state.wanted_revocations() == 1


def test_an_existing_operator_key_is_kept(folder, tmp_path):
    (folder / "operator").write_bytes((tmp_path / "phone001/ca").read_bytes())
    (folder / "operator.pub").write_text(public(tmp_path / "phone001") + " me@home\n")

    changed = fulfil(folder, Request("home", PHONES)).changed

    assert "operator" not in changed
    assert "operator.pub" not in changed
    assert "operator-cert.pub" in changed
