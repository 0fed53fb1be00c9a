"""Podman, asked again where it gives up too early."""

from __future__ import annotations

import pytest

from standin import engine
from standin.commands import Command, CommandError


def test_containers_that_take_long_to_die_are_removed_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Command] = []

    def run(command: Command) -> str:
        asked.append(command)
        if len(asked) < 3:
            raise CommandError(command, "given PIDs did not die within timeout")
        return ""

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "PAUSE_SECONDS", 0)
    engine.remove(["pr-r-phone001", "pr-r-phone002"])
    assert len(asked) == 3
    assert {command[-2:] for command in asked} == {("pr-r-phone001", "pr-r-phone002")}


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


def test_a_phone_that_could_not_be_frozen_at_once_is_frozen_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Command] = []

    def run(command: Command) -> str:
        asked.append(command)
        if len(asked) < 2:
            raise CommandError(command, "unable to freeze")
        return ""

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "PAUSE_SECONDS", 0)
    engine.freeze("pr-r-phone003")
    assert asked == [("podman", "pause", "pr-r-phone003")] * 2
