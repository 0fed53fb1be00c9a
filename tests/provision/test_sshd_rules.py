"""What role ssh asks of a phone's sshd: its own rules first, and proof that it goes by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

ROLE = Path(__file__).resolve().parents[2] / "roles/ssh"
ETC = "/data/data/com.termux/files/usr/etc/ssh"


def variable(name: str) -> Any:
    loader = DataLoader()
    loader.set_basedir(str(ROLE))
    variables = loader.load_from_file(str(ROLE / "vars/main.yml"), trusted_as_template=True) | {
        "termux_prefix": "/data/data/com.termux/files/usr",
        "termux_home": "/data/data/com.termux/files/home",
        "ssh_revocations_file": f"{ETC}/phonerack_krl",
    }
    return Templar(loader=loader, variables=variables).template(variables[name])


def test_sshd_reads_the_racks_rules_before_anything_else() -> None:
    """An edited sshd_config may be older than its Include, and packages leave it as it is."""
    (main,) = [one for one in variable("_ssh_main_files") if one["path"] == f"{ETC}/sshd_config"]

    assert main["begins"][0] == f"Include {ETC}/sshd_config.d/phonerack*.conf"
    assert "sshd -t" in main["validate"]
    assert f"{ETC}/sshd_config" in variable("_ssh_services")[0]["config"]


def test_every_rule_of_trust_is_proven() -> None:
    template = (ROLE / "templates/sshd_config.j2").read_text().splitlines()
    rules = {line.split()[0].lower() for line in template if line and not line.startswith("#")}
    trust = {
        "trustedusercakeys",
        "authorizedprincipalsfile",
        "revokedkeys",
        "passwordauthentication",
        "kbdinteractiveauthentication",
    }

    (proof,) = variable("_ssh_proofs")

    assert proof["command"].endswith("/bin/sshd -G")
    assert {line.split()[0] for line in proof["lines"]} == trust
    assert trust <= rules
