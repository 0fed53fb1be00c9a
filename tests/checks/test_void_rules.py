"""Whether a phone's sshd goes by the rack's rules, by what it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetctl.checks.phone import PROBE


def probe(folder: Path) -> dict[str, Any]:
    """What the probe says where the phone's files lie in this folder."""
    program = PROBE.read_text().replace("/data/data/com.termux/files", str(folder))
    done = subprocess.run(
        [sys.executable, "-S", "-"], input=program, text=True, capture_output=True, timeout=60
    )
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


RULES = """# managed
HostKey /k
TrustedUserCAKeys /ca
RevokedKeys /krl
PasswordAuthentication no
"""
MAIN = "# Termux\nInclude {ssh}/sshd_config.d/*.conf\n\nPort 8022\nPasswordAuthentication yes\n"


@pytest.mark.parametrize(
    ("main", "own", "void"),
    [
        (MAIN, None, []),
        ("Include {ssh}/sshd_config.d/phonerack*.conf\nPasswordAuthentication yes\n", "", []),
        ("include=sshd_config.d/*.conf\n", None, []),
        ("Port 8022\n", None, ["trustedusercakeys", "revokedkeys", "passwordauthentication"]),
        ("PasswordAuthentication yes\n" + MAIN, None, ["passwordauthentication"]),
        (MAIN, "passwordauthentication yes\nRevokedKeys none\n", ["revokedkeys", "password"]),
        (
            "Match user phone\n" + MAIN,
            None,
            ["trustedusercakeys", "revokedkeys", "passwordauthentication"],
        ),
        (None, None, ["trustedusercakeys", "revokedkeys", "passwordauthentication"]),
    ],
)
def test_rules_that_sshd_does_not_go_by_are_found(
    tmp_path: Path, main: str | None, own: str | None, void: list[str]
) -> None:
    """By what sshd reads, not by what lies there: the first word about a thing counts."""
    ssh = tmp_path / "usr/etc/ssh"
    (ssh / "sshd_config.d").mkdir(parents=True)
    (ssh / "sshd_config.d/phonerack.conf").write_text(RULES)
    if main is not None:
        (ssh / "sshd_config").write_text(main.format(ssh=ssh))
    if own is not None:
        (ssh / "sshd_config.d/own.conf").write_text(own)

    found = probe(tmp_path)["void_rules"]

    assert len(found) == len(void)
    assert all(name.startswith(wanted) for name, wanted in zip(found, void, strict=True))


def test_of_a_phone_that_was_never_provisioned_no_rule_is_missed(tmp_path: Path) -> None:
    assert probe(tmp_path)["void_rules"] == []
