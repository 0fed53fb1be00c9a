"""The systemd units that role `controller` installs, as systemd would read them."""

from __future__ import annotations

import configparser
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).resolve().parents[1] / "roles/controller/templates"


def rendered(template: str, rack_file: str, **variables: str) -> configparser.RawConfigParser:
    """The unit for rack `lab` of a user `ada`, whose folders bear a blank."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
    environment.filters |= {"dirname": lambda path: str(Path(path).parent)}
    text = environment.from_string((TEMPLATES / template).read_text()).render(
        ansible_managed="by a test",
        rack_name="lab",
        rack_dir="/home/ada/phone state/lab",
        rack_file=rack_file,
        ansible_playbook_python="/home/ada/phonerack/.venv/bin/python3",
        lookup=lambda *_: "ada",
        **variables,
    )
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(text)
    return unit
