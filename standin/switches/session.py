"""One login: what a line does in the mode that the session is in, and which prompt follows.

No bytes and no waiting here; `terminal.py` makes lines of keys, `server.py` brings both over ssh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from standin.switches.device import Device, EosSession
from standin.switches.editor import Editor, RejectedError
from standin.switches.grammar import Ambiguous, Invalid, Match, Parsed, parse

type Answer = Iterable[str] | None


@dataclass
class Question:
    """Asked in place of a prompt. `one_key` questions take any single key."""

    text: str
    take: Callable[[str], Answer]
    one_key: bool = False
    is_secret: bool = False


@dataclass
class Session:
    """A person or a program at one command line."""

    device: Device
    user: str
    privileged: bool = True
    editor: Editor | None = None
    """There while the session is in configuration mode."""

    candidate: EosSession | None = None
    """The EOS session that the editor changes."""

    question: Question | None = None
    length: int = 24
    closed: bool = False

    def __post_init__(self) -> None:
        self.privileged = self.device.enable_password is None

    # --- prompts --------------------------------------------------------------------------------

    @property
    def prompt(self) -> str:
        if self.question:
            return self.question.text
        name = self.device.running.hostname
        editor = self.editor
        if editor is None:
            return f"{name[:64]}{'#' if self.privileged else '>'}"
        if self.device.kind == "ios":
            mode = {"config-nacl": "config-std-nacl"}.get(editor.mode, editor.mode)
            return f"{name[: self.device.knobs.config_prompt_chars]}({mode})#"
        mode = "config" + (f"-s-{self.candidate.name[:6]}" if self.candidate else "")
        return f"{name}({mode}{self._eos_place(editor)})#"

    def _eos_place(self, editor: Editor) -> str:
        here = editor.here
        match editor.mode:
            case "config-if":
                from standin.switches.printed import short

                return f"-if-{short(here)}"
            case "config-vlan":
                return f"-vlan-{here}"
            case "config-nacl":
                return f"-std-acl-{here}"
            case _:
                return ""

    # --- lines ----------------------------------------------------------------------------------

    def take(self, line: str) -> list[str]:
        """Carry one line out; the lines that it prints."""
        self.device.tick()
        if self.question:
            question, self.question = self.question, None
            return list(question.take(line) or ())
        if not line.strip() or line.lstrip().startswith("!"):
            return []
        if self.editor is not None:
            return self._configure(self.editor, line)
        return self._execute(line)

    def _execute(self, line: str) -> list[str]:
        from standin.switches.commands import COMMANDS, table

        found = parse(line, table(self.device, self.privileged))
        if not isinstance(found, Match):
            return self._wrong(found, line)
        return list(COMMANDS[found.action](self, found.arguments) or ())

    def _configure(self, editor: Editor, line: str) -> list[str]:
        if self.candidate is None:
            # The configuration may have been exchanged since, by a timer or another session.
            editor.settings = self.device.running
        words = line.split()
        if words[0] == "do" and len(words) > 1:
            return self._execute(line.strip().removeprefix("do").strip())
        reject = self.device.knobs.reject
        if reject and re.search(reject, line):
            return self._wrong(Invalid(len(line) - len(line.lstrip()), 0, words[0]), line)
        if editor.kind == "ios" and not editor.feeds and _is_poe(words):
            return self._wrong(Invalid(line.index("pow"), words.index("power"), "power"), line)
        if self.device.kind == "eos" and (found := self._eos_command(line)) is not None:
            return found
        try:
            parsed, printed = editor.enter(line)
        except RejectedError as refusal:
            return [str(refusal)]
        except KeyError:
            place = line.index(words[-1])
            return self._wrong(Invalid(place, len(words) - 1, words[-1]), line)
        if not isinstance(parsed, Match):
            return self._wrong(parsed, line)
        if self.candidate is None:
            self.device.changed()
        if editor.done:
            self.leave()
        return printed

    def _eos_command(self, line: str) -> list[str] | None:
        """Commands that EOS takes in configuration mode too: `show`, and those of a session."""
        from standin.switches.commands import COMMANDS, in_configuration

        found = parse(line, in_configuration(self.candidate is not None))
        if isinstance(found, Match):
            return list(COMMANDS[found.action](self, found.arguments) or ())
        return None

    def leave(self) -> None:
        """Back to the privileged mode."""
        self.editor = self.candidate = None

    def edit(self, candidate: EosSession | None = None) -> None:
        """Into configuration mode."""
        self.candidate = candidate
        settings = candidate.settings if candidate else self.device.running
        self.editor = Editor(self.device.kind, settings, feeds=bool(self.device.knobs.poe_watts))

    # --- being wrong ----------------------------------------------------------------------------

    def _wrong(self, found: Parsed, line: str) -> list[str]:
        if self.device.kind == "eos":
            match found:
                case Invalid(token=token, word=word):
                    return [f"% Invalid input (at token {token}: '{word}')"]
                case Ambiguous(token=token, word=word):
                    return [f"% Ambiguous command (at token {token}: '{word}')"]
                case _:
                    return ["% Incomplete command"]
        match found:
            case Invalid(position=position) if self.editor is None and position == 0:
                if len(line.split()) == 1:
                    return [
                        f'Translating "{line.strip()}"...domain server (255.255.255.255)',
                        "% Unknown command or computer name, or unable to find computer address",
                    ]
        match found:
            case Invalid(position=position):
                caret = " " * (len(self.prompt) + position) + "^"
                return [caret, "% Invalid input detected at '^' marker.", ""]
            case Ambiguous():
                return [f'% Ambiguous command:  "{line.strip()}"']
            case _:
                return ["% Incomplete command.", ""]


def _is_poe(words: list[str]) -> bool:
    """Lines that an IOS whose ports feed nobody has never heard of."""
    return words[words[0] == "no" :][:2] == ["power", "inline"]
