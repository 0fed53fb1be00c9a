"""How a package that phones need is written: a name, and perhaps a version or a prefix of one."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Spec(NamedTuple):
    """`pin` is a version, a prefix of one (`5.0*`), or empty for any."""

    name: str
    pin: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        name, _, pin = text.partition("=")
        return cls(name.strip(), pin.strip())

    def __str__(self) -> str:
        return f"{self.name}={self.pin}" if self.pin else self.name

    def admits(self, version: str) -> bool:
        return not self.pin or fnmatchcase(version, self.pin)
