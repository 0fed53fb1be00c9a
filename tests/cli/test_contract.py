"""What holds for every command: JSON for programs, and the one table of exit codes."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import fleetctl
from fleetctl.cli import main, output
from fleetctl.errors import ExitCode, FleetError

PROJECT = Path(__file__).resolve().parents[2]

WITHOUT_JSON = {
    "launch": "it follows a run; programs read `jobs -o json` and the run's folder",
    "serve": "a service: it says nothing but its log",
    "guard": "a service: it says nothing but its log",
    "standin": "commands that act on stand-ins: they work, or say why not",
    "bench report": "it writes a page",
}
"""Why these have no `-o json`, by the beginning of their names."""


def leaves() -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its whole name."""

    def below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        if isinstance(command, click.Group):
            for each, inner in sorted(command.commands.items()):
                yield from below(f"{name} {each}", inner)
        else:
            yield name, command

    for name in main.COMMANDS:
        yield from below(name, importlib.import_module(f"fleetctl.cli.{name}").command)


def reason(name: str) -> str | None:
    return next((why for start, why in WITHOUT_JSON.items() if name.startswith(start)), None)


@pytest.mark.parametrize(("name", "command"), list(leaves()), ids=lambda each: str(each)[:40])
def test_every_command_speaks_to_programs_or_has_a_reason_not_to(
    name: str, command: click.Command
) -> None:
    option = next((each for each in command.params if each.name == "output"), None)
    if option is None:
        assert reason(name), f"`fleetctl {name}` has no -o json"
    else:
        assert isinstance(option.type, click.Choice)
        assert {"-o", "--output"} <= set(option.opts)
        assert list(option.type.choices) == ["table", "json"]


def test_every_document_bears_the_one_schema_number(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"rack": "lab"})
    assert f'"schema": {output.SCHEMA}' in capsys.readouterr().out
    for path in (PROJECT / "fleetctl/cli").glob("*.py"):
        text = path.read_text()
        # A document that is printed past print_json would have no number.
        assert path.name == "output.py" or not re.search(r"echo\(json\.|print\(json\.", text), path


def error_classes() -> list[type[FleetError]]:
    """All failures that fleetctl can explain, of all rooms."""
    for module in pkgutil.walk_packages(fleetctl.__path__, "fleetctl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: list[type[FleetError]] = [FleetError]
    for each in found:
        found += [kind for kind in each.__subclasses__() if kind.__module__.startswith("fleetctl")]
    return list(dict.fromkeys(found))


def test_every_failure_ends_with_its_code_of_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = error_classes()
    assert len(kinds) > 20
    for kind in kinds:
        assert kind.exit_code in set(ExitCode) - {ExitCode.DONE}, kind
        problem = kind.__new__(kind)
        Exception.__init__(problem, "phone007 is odd; mend it")

        @click.command()
        def command(problem: FleetError = problem) -> None:
            raise problem

        monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_, c=command: c)
        monkeypatch.setattr(sys, "argv", ["fleetctl", "jobs"])
        with pytest.raises(SystemExit) as caught:
            main.main()
        assert caught.value.code == int(kind.exit_code), kind
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("fleetctl.rack.errors.RackError", ExitCode.BAD_INPUT),
        ("fleetctl.rack.errors.InputError", ExitCode.BAD_INPUT),
        ("fleetctl.state.errors.Held", ExitCode.HELD),
        ("fleetctl.state.errors.Drained", ExitCode.PREFLIGHT_REFUSED),
        ("fleetctl.state.errors.StateError", ExitCode.FAILED),
        ("fleetctl.provision.history.ProvisionHeld", ExitCode.HELD),
        ("fleetctl.power.ports.BusyError", ExitCode.HELD),
        ("fleetctl.power.ports.UnverifiedError", ExitCode.FAILED),
        ("fleetctl.jobs.runs.Supervised", ExitCode.HELD),
    ],
)
def test_kinds_of_failures_have_the_codes_that_people_expect(kind: str, code: ExitCode) -> None:
    module, _, name = kind.rpartition(".")
    assert getattr(importlib.import_module(module), name).exit_code is code


def test_documentation_and_help_have_the_same_table() -> None:
    text = (PROJECT / "docs/operations.md").read_text()
    table = text.partition("## Exit codes")[2].partition("\n## ")[0]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert documented == set(map(int, ExitCode))
    helped = str(main.cli.help).partition("Exit codes:")[2]
    assert {int(code) for code in re.findall(r"\d+", helped)} == set(map(int, ExitCode))
