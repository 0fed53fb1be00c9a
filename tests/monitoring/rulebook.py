"""The role's files, rendered as the role does it, and promtool, which judges them."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined, UndefinedError
from jinja2.nativetypes import NativeEnvironment
from troubles import SHORTER

from fleetctl.rack import load_rack
from fleetctl.rack.paths import RackPaths
from fleetctl.rack.variables import rack_variables

PROJECT = Path(__file__).resolve().parents[2]
ROLE = PROJECT / "roles/monitoring"
SWITCHES = ("sw1", "sw2")

type Samples = list[tuple[str, float]]
"""Labels as promtool prints them, and the value."""


def settings(switches: Sequence[str] = SWITCHES, **others: Any) -> dict[str, Any]:
    """All variables that the role sees on the stand-in rack, with these switches watched."""
    rack = load_rack(PROJECT / "inventory/standin.yml")
    given = {
        **rack_variables(rack, RackPaths(rack.name)),
        "rack_name": "lab",
        "rack_services_address": "10.0.0.2",
        "rack_watched_switches": list(switches),
        "monitoring_guard": True,
        "ansible_managed": "by a test",
        **others,
    }
    native = NativeEnvironment(undefined=StrictUndefined)
    for part in ("defaults", "vars"):
        for name, value in yaml.safe_load((ROLE / part / "main.yml").read_text()).items():
            if name not in given and "ansible_" not in str(value):
                given[name] = _filled(native, value, given)
    return given


def _filled(native: NativeEnvironment, value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(native, each, given) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(native, each, given) for each in value]
    return native.from_string(value).render(given) if isinstance(value, str) else value


def rendered(template: str, given: Mapping[str, Any]) -> str:
    """A template of the role. Its first line may name delimiters, as Ansible knows it."""
    text = (ROLE / f"templates/{template}.j2").read_text()
    options: dict[str, str] = {}
    if text.startswith("#jinja2:"):
        first, text = text.split("\n", 1)
        options = dict(re.findall(r"(\w+):'([^']+)'", first))
    environment = Environment(
        loader=FileSystemLoader(ROLE / "templates"),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701
        **options,  # type: ignore[arg-type]
    )
    environment.filters |= {"bool": bool, "to_json": json.dumps, "to_nice_json": json.dumps}
    environment.filters["combine"] = lambda one, other: {**one, **other}
    environment.globals["undef"] = _undefined
    return environment.from_string(text).render(given)


def _undefined(hint: str) -> str:
    raise UndefinedError(hint)


@cache
def rule_file(switches: tuple[str, ...] = SWITCHES) -> str:
    """rules.yml, with some limits that a test can wait for."""
    return rendered("rules.yml", settings(switches, **SHORTER))


@cache
def rules(switches: tuple[str, ...] = SWITCHES) -> tuple[dict[str, Any], ...]:
    """All rules, as Prometheus reads them."""
    groups = yaml.safe_load(rule_file(switches))["groups"]
    return tuple(rule for group in groups for rule in group["rules"])


CHECK = ("check", "rules", "--lint=all", "--lint-fatal")


def promtool(folder: Path, tests: Mapping[str, Any]) -> str:
    """What promtool finds wrong with the rules and their tests; empty if nothing is."""
    (folder / "rules.yml").write_text(rule_file())
    (folder / "tests.yml").write_text(yaml.safe_dump({**tests, "rule_files": ["rules.yml"]}))
    for command in ([*CHECK, "rules.yml"], ["test", "rules", "tests.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=folder, text=True, capture_output=True, timeout=120
        )
        if done.returncode:
            return done.stdout + done.stderr
    return ""


def promtool_of(container: str, *tests: Mapping[str, Any]) -> str:
    """The same by the promtool of a container."""
    files = {"rules.yml": rule_file()}
    for number, each in enumerate(tests):
        files[f"tests{number}.yml"] = yaml.safe_dump({**each, "rule_files": ["rules.yml"]})
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    names = " ".join(name for name in files if name.startswith("tests"))
    script = (
        f"cd $(mktemp -d) && tar -x && promtool {' '.join(CHECK)} rules.yml && "
        f"promtool test rules {names}"
    )
    done = subprocess.run(
        ["podman", "exec", "-i", container, "sh", "-c", script],
        input=packed.getvalue(),
        capture_output=True,
    )
    return (done.stdout + done.stderr).decode() if done.returncode else ""
