"""The rack's ssh keys: the certificate authority, the operator, everybody's certificates, releases.

`python -m fleetctl.provision.keys SSH_FOLDER [--check]` reads a JSON request on stdin and makes
what is missing or no longer fits. It prints what changed, who is not enrolled, and the public lines
that phones are given. Role `controller` runs it, and role `ssh` for the keys of the ranks.

The private key of the authority stays in this folder. Host certificates are made for the host keys
that enrolment recorded in known_hosts, never for one that a phone merely claims.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    SSHCertificateType,
)

from fleetctl.errors import FleetError
from fleetctl.provision import revocation, signing
from fleetctl.provision.certificates import KEY_TYPE, Grant, fits, public_line, read_public, sign
from fleetctl.provision.revocation import Revoked
from fleetctl.rack.files import write_atomic
from fleetctl.state import State

OPERATOR_RIGHTS = (b"permit-port-forwarding", b"permit-pty")


@dataclass(frozen=True, slots=True)
class Request:
    """Phones with their addresses, and the public keys that they use to reach each other.

    `cidr`: the network from which those keys count.
    """

    rack: str
    phones: Mapping[str, str]
    ranks: Mapping[str, str] = field(default_factory=dict)
    cidr: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """Files that changed, phones that nobody enrolled, and the public lines for the phones.

    `refused`: why a phone gets no certificate; `revoked`: the KRL in base64.
    """

    changed: list[str]
    unknown: list[str]
    refused: dict[str, str]
    authority: str
    operator: str
    trust: str
    hosts: dict[str, str]
    ranks: dict[str, str]
    revoked: str


def trust_line(names: Iterable[str], authority: str) -> str:
    """The known_hosts line that trusts the authority for exactly these names."""
    return f"@cert-authority {','.join(names)} {authority}"


def with_trust(known_hosts: str, trust: str) -> str:
    """known_hosts with this line as its only one about an authority; unchanged where it is."""
    lines = known_hosts.splitlines()
    authorities = [line for line in lines if line.startswith("@cert-authority ")]
    if authorities == [trust]:
        return known_hosts
    return "\n".join([*(line for line in lines if line not in authorities), trust, ""])


def host_keys(known_hosts: str) -> dict[str, str]:
    """Public lines by name, from known_hosts."""
    keys: dict[str, str] = {}
    for line in known_hosts.splitlines():
        names, _, key = line.partition(" ")
        if key.startswith(f"{KEY_TYPE} "):
            keys |= dict.fromkeys(names.split(","), key)
    return keys


class WouldLockOut(FleetError):
    """A new authority would shut the operator out of phones."""


class Authority:
    """One rack's ssh folder. With `check` nothing is written, only said.

    Where there is no authority one is made. Raises WouldLockOut where phones trust the operator's
    key by the word of the one before alone; with `regardless` they are given up.
    """

    def __init__(
        self, folder: Path, rack: str, check: bool = False, regardless: bool = False
    ) -> None:
        self.folder = folder
        self.rack = rack
        self.check = check
        self.changed: list[str] = []
        self.refused: dict[str, str] = {}
        self.revoked = revocation.read_list(self._read(revocation.LIST) or "")
        if not (folder / "ca").exists() and not regardless:
            self._refuse_lock_out()
        self.key = self.key_pair("ca", f"{rack} certificate authority")
        self.public = self.key.public_key()

    def _refuse_lock_out(self) -> None:
        """The operator's key was changed, and not every phone is known to have been told since."""
        changes = [at for at, entry in enumerate(self.revoked, 1) if entry.kind == "operator"]
        database = self.folder.parent / "state.db"
        signed = {path.name.removesuffix("-cert.pub") for path in self.folder.glob("hosts/*")}
        known = signed & host_keys(self._read("known_hosts") or "").keys()
        if not changes or not known:
            return
        with State(database) as state:
            facts = state.phones()
        untold = []
        for name in sorted(known):
            seen = facts[name].revocations if name in facts else None
            # The list and the operator's key come to a phone together.
            if seen is None or seen.seen < changes[-1]:
                untold.append(name)
        if untold:
            raise WouldLockOut(
                f"a new authority would lock you out of {', '.join(untold)}: playbooks/rotate.yml "
                "has changed the operator's key, and they trust the new one by the present "
                f"authority's word alone. Put {self.folder}/ca back, run `site.yml -t ssh` and "
                "`fleetctl status`, and only then delete it. Phones that do not answer: retire "
                "them first, or give all these up by `-e controller_give_up_phones=true` and enrol "
                "them again"
            )

    def key_pair(self, name: str, comment: str) -> Ed25519PrivateKey:
        """The private key of this name, made when it is missing, with its public half beside it."""
        path = self.folder / name
        if path.exists():
            key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
            if not isinstance(key, Ed25519PrivateKey):
                raise ValueError(f"{path} is not an {KEY_TYPE} key")
        else:
            key = Ed25519PrivateKey.generate()
            secret = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
            self._write(name, secret.decode())
        line = public_line(key.public_key())
        present = self._read(f"{name}.pub")
        if present is None or present.split()[:2] != line.split():
            self._write(f"{name}.pub", f"{line} {comment}\n")
        return key

    def _read(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def _write(self, name: str, text: str | bytes) -> None:
        self.changed.append(name)
        if self.check:
            return
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, text, mode=0o600)

    def certify(self, name: str, key: Ed25519PublicKey, grant: Grant) -> str:
        """The certificate in file `name` that says `grant`; one that fits is left alone."""
        present = self._read(name)
        if present is not None and fits(present, self.public, key, grant):
            return present.strip()
        line = sign(self.key, key, grant)
        self._write(name, f"{line}\n")
        return line

    def is_good(self, bearer: str, key: str) -> bool:
        """Whether a phone's public line is not on the list; else `refused` tells why."""
        plain = " ".join(key.split()[:2])
        revoked = next((entry for entry in self.revoked if entry.key == plain), None)
        if revoked is not None:
            self.refused[bearer] = (
                f"{bearer} bears a key that was revoked (the {revoked.kind} key of "
                f"{revoked.whose}): reinstall Termux on it and enrol it again"
            )
        return revoked is None

    def certify_operator(self, name: str = "operator") -> str:
        """The operator's public line; the certificate lies beside it."""
        identity = f"operator@{self.rack}"
        key = self.key_pair(name, identity).public_key()
        grant = Grant(SSHCertificateType.USER, identity, ("operator",), OPERATOR_RIGHTS)
        self.certify(f"{name}-cert.pub", key, grant)
        return public_line(key)

    def have_release_key(self) -> None:
        self.key_pair(signing.KEY, signing.signer(self.rack))

    def certify_hosts(self, phones: Mapping[str, str]) -> dict[str, str]:
        """Certificates of the phones that are enrolled, by name."""
        enrolled = host_keys(self._read("known_hosts") or "")
        return {
            name: self.certify(
                f"hosts/{name}-cert.pub",
                read_public(enrolled[name]),
                Grant(SSHCertificateType.HOST, name, (name, address)),
            )
            for name, address in phones.items()
            if name in enrolled and self.is_good(name, enrolled[name])
        }

    def certify_ranks(self, ranks: Mapping[str, str], cidr: str | None) -> dict[str, str]:
        """Certificates for what phones use among themselves: commands, nothing else."""

        def grant(name: str) -> Grant:
            who = f"{name}@{self.rack}"
            return Grant(SSHCertificateType.USER, who, ("rank",), source=cidr)

        return {
            name: self.certify(f"ranks/{name}-cert.pub", read_public(line), grant(name))
            for name, line in ranks.items()
            if self.is_good(name, line)
        }

    def revoke(self, more: Iterable[Revoked]) -> bytes:
        """Put keys on the list, and have KRL and known_hosts follow it; the KRL."""
        entries = revocation.extended(self.revoked, more)
        if entries != self.revoked:
            self._write(revocation.LIST, revocation.write_list(entries))
            self.revoked = entries
        path = self.folder / revocation.KRL
        krl = path.read_bytes() if path.exists() else b""
        if revocation.krl_version(krl) != len(entries):
            krl = revocation.make_krl(entries)
            self._write(revocation.KRL, krl)
        known_hosts = self._read("known_hosts") or ""
        if (marked := revocation.with_revoked(known_hosts, entries)) != known_hosts:
            self._write("known_hosts", marked)
        return krl

    def be_trusted(self, names: Iterable[str]) -> str:
        """Have the controller trust the authority for these names; the line that says so."""
        trust = trust_line(names, public_line(self.public))
        known_hosts = self._read("known_hosts") or ""
        if (trusting := with_trust(known_hosts, trust)) != known_hosts:
            self._write("known_hosts", trusting)
        return trust


def fulfil(folder: Path, request: Request, check: bool = False, regardless: bool = False) -> Result:
    """Make what the request needs and describe it. Raises WouldLockOut unless `regardless`."""
    authority = Authority(folder, request.rack, check, regardless)
    krl = authority.revoke(())
    operator = authority.certify_operator()
    hosts = authority.certify_hosts(request.phones)
    ranks = authority.certify_ranks(request.ranks, request.cidr)
    trust = authority.be_trusted(request.phones)
    authority.have_release_key()
    return Result(
        changed=sorted(set(authority.changed)),
        unknown=sorted(request.phones.keys() - hosts.keys() - authority.refused.keys()),
        refused=authority.refused,
        authority=public_line(authority.public),
        operator=operator,
        trust=trust,
        hosts=hosts,
        ranks=ranks,
        revoked=base64.b64encode(krl).decode(),
    )


def tell_state(database: Path, folder: Path) -> None:
    """Have the state know which version of the list of revoked keys phones shall have."""
    version = revocation.krl_version((folder / revocation.KRL).read_bytes())
    with State(database) as state:
        if state.wanted_revocations() != version:
            state.want_revocations(version or 0)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.keys")
    parser.add_argument("folder", type=Path, help="the rack's ssh folder")
    parser.add_argument("--check", action="store_true", help="only say what would change")
    parser.add_argument("--give-up-phones", action="store_true", help="that it would lock out")
    options = parser.parse_args(arguments)
    request = Request(**json.load(sys.stdin))
    try:
        result = fulfil(options.folder, request, options.check, options.give_up_phones)
        if not options.check:
            tell_state(options.folder.parent / "state.db", options.folder)
    except (ValueError, FleetError) as problem:
        sys.exit(f"{options.folder}: {problem}")
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
