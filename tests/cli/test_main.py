"""The command line as a whole: help, exit codes, which rack it takes."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fleetctl.cli import main
from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import find_rack_file, loader

HEAVY = ("asyncssh", "rich", "pydantic", "yaml", "ClusterShell", "numpy", "sklearn", "sqlite3")


def ending(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of `fleetctl arguments`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fleetctl", *arguments])
        with pytest.raises(SystemExit) as caught:
            main.main()
    assert isinstance(caught.value.code, int)
    return int(caught.value.code), capsys.readouterr().err


def failing(monkeypatch: pytest.MonkeyPatch, problem: BaseException) -> None:
    """Let `fleetctl jobs` raise `problem`."""

    @click.command()
    def command() -> None:
        raise problem

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_: command)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['fleetctl', '--help']\n"
        "from fleetctl.cli.main import main\n"
        "try: main()\n"
        "finally: print(*(name for name in sys.modules if '.' not in name), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert "Commands:" in done.stdout
    assert not set(HEAVY) & set(done.stderr.split())


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_exists_and_explains_itself(name: str) -> None:
    command = importlib.import_module(f"fleetctl.cli.{name}").command
    assert isinstance(command, click.Command)
    assert command.help


@pytest.mark.parametrize(
    ("problem", "code", "message"),
    [
        (FleetError("phone003 is full; free 1 GiB"), 1, "fleetctl: phone003 is full; free 1 GiB"),
        (KeyboardInterrupt(), 130, "fleetctl: interrupted"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "/x: No space left on device"),
    ],
)
def test_a_failure_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    problem: BaseException,
    code: int,
    message: str,
) -> None:
    failing(monkeypatch, problem)
    found, said = ending(capsys, "jobs")
    assert found == code
    assert message in said
    assert "Traceback" not in said


def test_an_error_brings_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Refused(FleetError):
        exit_code = ExitCode.PREFLIGHT_REFUSED

    failing(monkeypatch, Refused("no"))
    assert ending(capsys, "jobs")[0] == 6


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ZeroDivisionError())
    monkeypatch.setattr(sys, "argv", ["fleetctl", "jobs"])
    with pytest.raises(ZeroDivisionError):
        main.main()


@pytest.mark.parametrize(
    "arguments", [("nope",), ("status", "--nope"), ("--rack", "/nowhere.yml", "status")]
)
def test_bad_input_ends_with_two(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert ending(capsys, *arguments)[0] == 2


def test_the_rack_file_is_chosen_by_option_then_environment_then_project(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "inventory").mkdir()
    monkeypatch.setattr(loader, "PROJECT", tmp_path)
    monkeypatch.delenv("PHONERACK_RACK", raising=False)
    option, variable = tmp_path / "option.yml", tmp_path / "variable.yml"
    for path in (option, variable):
        path.touch()
    standin, own = tmp_path / "inventory/standin.yml", tmp_path / "inventory/rack.yml"
    assert find_rack_file() == standin
    own.touch()
    assert find_rack_file() == own
    monkeypatch.setenv("PHONERACK_RACK", str(variable))
    assert find_rack_file() == variable
    assert find_rack_file(option) == option
