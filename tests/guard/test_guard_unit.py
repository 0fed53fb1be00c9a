"""The systemd unit of guard that role `controller` installs."""

from __future__ import annotations

import configparser
from pathlib import Path

import jinja2

TEMPLATE = Path(__file__).resolve().parents[2] / "roles/controller/templates/guard.service.j2"


def test_the_unit_guards_this_rack_and_always_comes_back() -> None:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    environment.filters |= {"dirname": lambda path: str(Path(path).parent)}
    text = environment.from_string(TEMPLATE.read_text()).render(
        ansible_managed="by a test",
        rack_name="lab",
        rack_dir="/home/ada/phone state/lab",
        rack_file="/home/ada/racks/lab%.yml",
        ansible_playbook_python="/home/ada/phonerack/.venv/bin/python3",
        lookup=lambda *_: "ada",
    )
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert service["User"] == "ada"
    assert service["Environment"] == '"PHONERACK_HOME=/home/ada/phone state"'
    assert service["ExecStart"] == (
        '"/home/ada/phonerack/.venv/bin/fleetctl" --rack "/home/ada/racks/lab%%.yml" guard'
    )
    assert service["Restart"] == "always"
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
