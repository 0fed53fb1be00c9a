"""Take out of texts what nobody else may read, and hide which devices they are about. Pure.

Rather too much than too little: a bundle is for people outside.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

REMOVED = "[removed]"

_WORDS = (
    r"pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|community|credentials?|cookies?|auth(?:orization)?"
    r"|api[_-]?keys?|access[_-]?keys?|private[_-]?keys?|secret[_-]?keys?|signing[_-]?keys?|psk"
)
_NAME = rf"[\w.-]*?(?<![a-z])(?:{_WORDS})(?![a-z])[\w.-]*"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_OPTION = re.compile(rf"--?{_NAME}", re.IGNORECASE)
"""A word of a command line whose secret is the next one."""

_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}\]]+)"""
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Keys as files hold them, whole or cut off.
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        f"{REMOVED[:-1]}: a private key]",
    ),
    # A vault is its first line and lines of one word each.
    (
        re.compile(r"\$ANSIBLE_VAULT;[^\n]*(?:\n[ \t]*[^\s:]+(?=[ \t]*(?:\n|\Z)))*"),
        f"{REMOVED[:-1]}: a vault]",
    ),
    (
        re.compile(r"\b((?:ssh|ecdsa|sk)-[\w@.-]+) AAAA[\w+/=]+"),
        rf"\1 {REMOVED}",
    ),
    # What a URL says before its @.
    (re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]*@", re.IGNORECASE), rf"\1{REMOVED}@"),
    (re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE), rf"\1 {REMOVED}"),
    # name: value, name=value, "name": "value", --name value, "the password is value"
    (
        re.compile(
            rf"""(["']?\b{_NAME}["']?\s*(?:[:=]|\bis\b)\s*)(?!\{{|\[|\s*$){_VALUE}""",
            re.IGNORECASE,
        ),
        rf"\1{REMOVED}",
    ),
    (
        re.compile(rf"""(--{_NAME}[ \t]+){_VALUE}""", re.IGNORECASE),
        rf"\1{REMOVED}",
    ),
)
_MAC = re.compile(
    r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![0-9A-Za-z:.-])"
)
_SERIAL_NAMES = frozenset({"serial", "serialno", "serials"})
_SERIAL_LINE = re.compile(r"""(["']?\bserial(?:no)?s?["']?\s*[:=]\s*["']?)([\w-]{4,})""", re.I)


class Redactor:
    """One for each bundle: what is the same device is the same word within it, and in no other.

    `serials` and `secrets` are known texts, which are found wherever they stand.
    """

    def __init__(self, key: bytes, serials: Iterable[str], secrets: Iterable[str] = ()) -> None:
        self._key = key
        self._serials = sorted({each for each in serials if each}, key=len, reverse=True)
        self._secrets = sorted({each for each in secrets if each}, key=len, reverse=True)

    def text(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REMOVED)
        for serial in self._serials:
            text = text.replace(serial, self._serial(serial))
        for pattern, by in _RULES:
            text = pattern.sub(by, text)
        text = _SERIAL_LINE.sub(lambda found: found[1] + self._serial(found[2]), text)
        return _MAC.sub(lambda found: self._hashed("mac", _plain_mac(found[0])), text)

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON document; `name` is the key that it stands under."""
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(each, str(key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [
                REMOVED if _OPTION.fullmatch(str(before)) else self.value(each, name)
                for before, each in zip(("", *value), value, strict=False)
            ]
        if value is None or isinstance(value, bool):
            return value
        if _SECRET_NAME.fullmatch(name):
            return REMOVED
        if name.lower() in _SERIAL_NAMES:
            return self._serial(str(value))
        return self.text(value) if isinstance(value, str) else value

    def json_lines(self, text: str) -> str:
        """A file of JSON lines; a line that is none is taken as text."""
        lines = []
        for line in text.splitlines():
            try:
                lines.append(json.dumps(self.value(json.loads(line))))
            except ValueError:
                lines.append(self.text(line))
        return "".join(f"{line}\n" for line in lines)

    def _serial(self, serial: str) -> str:
        return serial if serial.startswith("serial-") else self._hashed("serial", serial)

    def _hashed(self, kind: str, what: str) -> str:
        return f"{kind}-{hmac.new(self._key, what.encode(), hashlib.sha256).hexdigest()[:10]}"


def _plain_mac(mac: str) -> str:
    return re.sub(r"[^0-9a-f]", "", mac.lower())
