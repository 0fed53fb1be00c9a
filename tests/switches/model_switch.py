"""A switch that is only its settings: configuration lines in, running configuration out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import standin.switches.lines  # noqa: F401  fills the editor's tables
from standin.switches.editor import Editor, Kind
from standin.switches.factory import factory_settings
from standin.switches.grammar import Match
from standin.switches.show import eos_config, ios_config
from standin.switches.state import PortEffect, Settings, effects


class Refused(AssertionError):
    """The switch did not take a line that it should have taken."""


@dataclass
class ModelSwitch:
    """Settings of one kind of switch, changed by lines as they are typed."""

    kind: Kind
    settings: Settings

    @classmethod
    def new(cls, kind: Kind, ports: Sequence[str]) -> ModelSwitch:
        return cls(kind, factory_settings(kind, ports))

    def type(
        self, lines: Iterable[str], after_each: Callable[[str], None] = lambda _: None
    ) -> None:
        editor = Editor(self.kind, self.settings)
        for line in lines:
            try:
                parsed, _ = editor.enter(line)
            except Exception as problem:
                raise Refused(f"{line}: {problem!r}") from problem
            if not isinstance(parsed, Match):
                raise Refused(f"{line}: {parsed}")
            after_each(line)

    def running(self) -> str:
        show = ios_config if self.kind == "ios" else eos_config
        return "\n".join(show(self.settings)) + "\n"

    def effects(self) -> dict[str, PortEffect]:
        return effects(self.settings, strict_bundles=self.kind == "ios")
