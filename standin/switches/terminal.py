"""Keys to lines, lines to a screen: echo, paging, line editing and `?`, as such switches do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from standin.switches.session import Session

_MORE = " --More-- "
_ERASE_MORE = "\b" * len(_MORE) + " " * len(_MORE) + "\b" * len(_MORE)


@dataclass
class Terminal:
    """What one session has on its screen. `keys` gives what is printed at once; a line that was
    entered is in `entered` then, and `answer` gives what carrying it out prints."""

    session: Session
    line: str = ""
    entered: str | None = None
    _rest: list[str] = field(default_factory=list)
    """Lines that wait behind `--More--`."""

    def greet(self) -> str:
        return f"\r\n{self.session.prompt}"

    def keys(self, data: str) -> Iterator[str]:
        """Take keys until a line is complete; what comes behind it is kept by the caller."""
        for key in data:
            yield self._key(key)

    def _key(self, key: str) -> str:
        if self._rest:
            return self._page_key(key)
        question = self.session.question
        if question and question.one_key:
            self.entered, self.line = key.strip("\r\n"), ""
            return "\r\n"
        match key:
            case "\r" | "\n":
                self.entered, self.line = self.line, ""
                return "\r\n"
            case "\x03":
                self.line = ""
                return f"\r\n{self.session.prompt}"
            case "\x1a":
                self.entered, self.line = "end" if self.session.editor else "", ""
                return "^Z\r\n"
            case "\x08" | "\x7f":
                if not self.line:
                    return "\a"
                self.line = self.line[:-1]
                return "\b \b"
            case "?" if not question:
                # Help comes at once, and the line goes on without the question mark.
                return f"?\r\n  LINE    <cr>\r\n\r\n{self.session.prompt}{self.line}"
            case "\t":
                return f"\r\n{self.session.prompt}{self.line}"
            case "\0":
                return ""
        self.line += key
        return "" if question and question.is_secret else key

    def answer(self, line: str) -> str:
        """Carry the line out; what is printed, with the next prompt if there is one."""
        again = ""
        if self.session.device.knobs.echo_twice and line.strip() and not self.session.question:
            again = f"{self.session.prompt}{line}\r\n"
        printed = self.session.take(line)
        return again + self._page(printed)

    @staticmethod
    def interrupt(text: str) -> str:
        """What the switch prints by itself; it repeats neither prompt nor line behind it."""
        return text.replace("\n", "\r\n")

    def _page(self, lines: list[str]) -> str:
        length = self.session.length
        if not (self.session.device.knobs.paging and length and len(lines) >= length):
            return self._text(lines) + self._prompt()
        page, self._rest = lines[: length - 1], lines[length - 1 :]
        return self._text(page) + _MORE

    def _page_key(self, key: str) -> str:
        if key in " \r\n":
            count = 1 if key != " " else self.session.length - 1
            page, self._rest = self._rest[:count], self._rest[count:]
            return _ERASE_MORE + self._text(page) + (_MORE if self._rest else self._prompt())
        self._rest = []
        return _ERASE_MORE + "\r\n" + self._prompt()

    def _text(self, lines: list[str]) -> str:
        return "".join(f"{line}\r\n" for line in lines)

    def _prompt(self) -> str:
        return "" if self.session.closed else self.session.prompt
