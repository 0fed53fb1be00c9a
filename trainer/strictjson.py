"""Dataclasses to and from JSON, strictly: an unknown, missing or mistyped key is named.

Only what the formats need: objects, tuples, optional and alternative types, literals.
"""

from __future__ import annotations

import dataclasses
import json
import os
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, Union, get_args, get_origin

from trainer.errors import TrainerError
from trainer.files import write_atomic


class FormatError(TrainerError):
    """A document does not have its format; the message names the key and what would be right."""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """What every document that has a file of its own can do."""

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "document") -> Self:
        """Raises FormatError that names `source` and the key."""
        return loads(cls, text, source)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        return loads(cls, Path(path).read_bytes(), str(path))

    def to_json(self, *, indent: int | None = None) -> str:
        return dumps(self, indent=indent)

    def write(self, path: str | os.PathLike[str], *, durable: bool = True) -> None:
        write_atomic(path, (self.to_json(indent=2) + "\n").encode(), durable=durable)


def loads[T](cls: type[T], text: str | bytes, source: str) -> T:
    """The document of type `cls` in `text`; `source` (a file name) stands in the error."""
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{source}: not JSON: {error}") from None
    return decode(cls, data, source)


def dumps(document: Any, *, indent: int | None = None) -> str:
    """JSON text of a dataclass instance; NaN and infinity are refused (they are not JSON)."""
    return json.dumps(dataclasses.asdict(document), indent=indent, allow_nan=False)


def decode(expected: Any, value: Any, where: str) -> Any:
    """`value` (as json.loads gives it) as the annotated type `expected`."""
    if dataclasses.is_dataclass(expected):
        return _decode_object(expected, value, where)
    origin = get_origin(expected)
    if origin is Literal:
        # `True == 1`, so equality alone would let a boolean pass for a version number.
        if any(value == choice and type(value) is type(choice) for choice in get_args(expected)):
            return value
        choices = ", ".join(repr(choice) for choice in get_args(expected))
        raise FormatError(f"{where}: {value!r} is not one of {choices}")
    if origin in (Union, types.UnionType):
        return _decode_union(expected, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise _mistyped(where, value, "a list")
        item = get_args(expected)[0]
        return tuple(decode(item, each, f"{where}[{i}]") for i, each in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise _mistyped(where, value, "an object")
        return value
    return _decode_scalar(expected, value, where)


def _decode_object(cls: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _mistyped(where, value, "an object")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := [key for key in value if key not in fields]:
        raise FormatError(
            f"{where}: unknown key {unknown[0]!r}; the keys are {', '.join(sorted(fields))}"
        )
    missing = [name for name, field in fields.items() if name not in value and _required(field)]
    if missing:
        raise FormatError(f"{where}: key {missing[0]!r} is missing")
    return cls(**{key: decode(hints[key], each, f"{where}: {key}") for key, each in value.items()})


def _required(field: dataclasses.Field[Any]) -> bool:
    none = dataclasses.MISSING
    return field.default is none and field.default_factory is none


def _decode_union(expected: Any, value: Any, where: str) -> Any:
    for member in get_args(expected):
        try:
            return decode(member, value, where)
        except FormatError:
            continue
    raise _mistyped(where, value, " or ".join(_describe(m) for m in get_args(expected)))


def _decode_scalar(expected: Any, value: Any, where: str) -> Any:
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # bool is an int in Python, but `true` is no number in a document.
    if type(value) is expected:
        return value
    raise _mistyped(where, value, _describe(expected))


def _describe(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return ", ".join(repr(choice) for choice in get_args(expected))
    names = {int: "an integer", float: "a number", str: "a text", bool: "true or false"}
    if expected in (None, types.NoneType):
        return "null"
    return names.get(expected, getattr(expected, "__name__", str(expected)))


def _mistyped(where: str, value: Any, wanted: str) -> FormatError:
    shown = json.dumps(value, default=str)
    return FormatError(f"{where}: {shown[:60]} where {wanted} belongs")
