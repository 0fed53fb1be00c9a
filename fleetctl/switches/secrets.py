"""Secrets of switches. They are known here and on the wire; everywhere else stands a marker.

Configuration that was read is concealed before anything looks at it, and a line is revealed only
when it is sent. So diffs, backups, logs, reports and errors cannot hold a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleetctl.switches.errors import RefusedError

type Source = Callable[[str], str | None]
"""Looks a secret up by its name."""

_WORDS = (
    "password|secret|community|key|key-string|authentication-key|passphrase|psk|pre-shared-key"
    "|md5|sha|aes|des|3des"
)
_TYPES = r"\d{1,3}|sha512|ascii|hex|clear|encrypted|local"
# `snmp-server host` takes its community without a word before it, `ntp` its key after a number.
_SECRET = re.compile(
    rf"(?P<before>(?:^|\s)(?:{_WORDS})(?:[ ](?:{_TYPES}))*[ ]"
    r"|^ntp authentication-key \d+ \S+ (?:[078] )?"
    r"|^snmp-server host \S+(?: version \S+| traps| informs| vrf \S+)* )(?P<value>\S+)",
    re.MULTILINE,
)
_MARKER = re.compile(r"<[a-z][a-z0-9_]*(?:-\d+)?>")
_TRAPS = {"?": "a question mark", " ": "a blank", "\t": "a tab", '"': "a quote", "<": "a `<`"}


def environment(name: str) -> str | None:
    """The source that every controller has: `switch_password` is $SWITCH_PASSWORD."""
    return os.environ.get(name.upper()) or None


def variables(values: Mapping[str, Any], template: Callable[[Any], Any]) -> Source:
    """The source that a run of Ansible has: its variables, those of the vault decrypted."""

    def look_up(name: str) -> str | None:
        value = template(values[name]) if name in values else None
        return str(value) if value else None

    return look_up


def marker(name: str) -> str:
    """What stands for the secret `name` wherever it must not be read."""
    return f"<{name}>"


class Secrets:
    """Secrets by name, and those that the switch itself holds, for as long as a run lasts."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {marker(name): value for name, value in values.items()}
        self._markers = {value: mark for mark, value in self._values.items()}

    @classmethod
    def find(cls, switch: str, names: Iterable[str], sources: Iterable[Source]) -> Secrets:
        """Look all `names` up in the first source that has them. Raises RefusedError."""
        places = list(sources)
        values = {}
        for name in names:
            found = next((value for place in places if (value := place(name))), None)
            if found is None:
                raise RefusedError(
                    switch,
                    f"no secret `{name}` in the vault or the environment",
                    f"export {name.upper()}, or put it into the vault for site.yml",
                )
            values[name] = found
        return cls(values)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._values))})"

    def value(self, name: str) -> str:
        return self._values[marker(name)]

    def require_plain(self, switch: str, name: str) -> None:
        """Refuse a secret that a command line cannot carry. Raises RefusedError."""
        value = self.value(name)
        found = next((word for sign, word in _TRAPS.items() if sign in value), None)
        if found or not value.isascii() or not value.isprintable():
            what = f"the secret `{name}` holds {found or 'a sign that is not printable ASCII'}"
            raise RefusedError(switch, what, "choose one that a switch's command line can carry")

    def conceal(self, config: str) -> str:
        """Configuration text with a marker in place of every secret in it."""
        return _SECRET.sub(lambda match: match["before"] + self._marker_of(match["value"]), config)

    def scrub(self, text: str) -> str:
        """Any text, such as an error, without the secrets that are known by now."""
        for value, mark in sorted(self._markers.items(), key=lambda item: -len(item[0])):
            word = re.escape(value)
            # A short one may be part of an innocent word.
            text = re.sub(word if len(value) >= 6 else rf"(?<!\w){word}(?!\w)", mark, text)
        return text

    def reveal(self, line: str) -> str:
        """The line as the switch must get it."""
        return _MARKER.sub(lambda match: self._values.get(match[0], match[0]), line)

    def lost_in(self, line: str) -> str | None:
        """A marker in the place of a secret for which there is none: it is of an earlier run."""
        values = [match["value"] for match in _SECRET.finditer(line)]
        return next(
            (text for text in values if _MARKER.fullmatch(text) and text not in self._values), None
        )

    def _marker_of(self, value: str) -> str:
        if value in self._values:  # concealed before
            return value
        if value not in self._markers:
            mark = f"<hidden-{len(self._values) + 1}>"
            self._markers[value] = mark
            self._values[mark] = value
        return self._markers[value]
