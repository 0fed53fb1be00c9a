"""Podman, asked again where it gives up too early."""

from __future__ import annotations

import pytest

from standin import engine
from standin.commands import Command, CommandError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """What podman is asked; it refuses twice."""
    commands: list[Command] = []

    def run(command: Command) -> str:
        commands.append(command)
        if len(commands) < 3:
            raise CommandError(command, "given PIDs did not die within timeout, unable to freeze")
        return ""

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "PAUSE_SECONDS", 0)
    return commands


def test_containers_that_take_long_to_die_are_removed_at_last(asked: list[Command]) -> None:
    engine.remove(["pr-r-phone001", "pr-r-phone002"])
    assert len(asked) == 3
    assert {command[-2:] for command in asked} == {("pr-r-phone001", "pr-r-phone002")}


def test_a_phone_that_cannot_be_frozen_at_once_is_frozen_at_last(asked: list[Command]) -> None:
    engine.freeze("pr-r-phone003")
    assert asked == [("podman", "pause", "pr-r-phone003")] * 3


def test_containers_that_cannot_be_removed_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: Command) -> str:
        raise CommandError(command, "no space left on device")

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "PAUSE_SECONDS", 0)
    with pytest.raises(CommandError, match="no space left"):
        engine.remove(["pr-r-phone001"])


def test_nothing_is_asked_where_there_is_nothing_to_remove(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "run", lambda command: pytest.fail(f"it ran {command}"))
    engine.remove([])
