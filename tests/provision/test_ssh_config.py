"""The ssh_config that role controller writes, as OpenSSH itself reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment

TEMPLATE = Path(__file__).resolve().parents[2] / "roles/controller/templates/ssh_config.j2"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A person's own ~/.ssh/config with the one line at its top."""
    text = (
        Environment(trim_blocks=True, autoescape=False)  # noqa: S701  no HTML
        .from_string(TEMPLATE.read_text())
        .render(
            ansible_managed="managed",
            rack_dir=str(tmp_path),
            rack_services_address="10.0.0.2",
            rack_phones=[{"name": f"phone{n:03}", "address": f"10.0.1.{n}"} for n in range(1, 139)],
        )
    )
    (tmp_path / "ssh_config").write_text(text)
    own = tmp_path / "config"
    own.write_text(f"Include {tmp_path}/ssh_config\n\nHost elsewhere\n    User me\n    Port 2200\n")
    return own


def asked(config: Path, host: str) -> dict[str, str]:
    done = subprocess.run(
        ["ssh", "-F", config, "-G", host], check=True, capture_output=True, text=True
    )
    pairs = (line.partition(" ") for line in done.stdout.splitlines())
    return {key: value for key, _, value in pairs}


def test_a_phone_is_reached_by_its_name(config: Path) -> None:
    found = asked(config, "phone007")
    assert (found["hostname"], found["port"], found["user"]) == ("10.0.1.7", "8022", "phone")
    assert found["hostkeyalias"] == "phone007"
    assert found["userknownhostsfile"] == str(config.parent / "ssh/known_hosts")
    assert found["stricthostkeychecking"] in ("true", "yes")
    assert asked(config, "services")["user"] == "root"


def test_other_hosts_of_the_person_are_left_alone(config: Path) -> None:
    found = asked(config, "elsewhere")
    assert (found["user"], found["port"]) == ("me", "2200")
    assert str(config.parent) not in found["userknownhostsfile"] + found["identityfile"]
    assert "certificatefile" not in found
