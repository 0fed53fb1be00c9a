"""A YAML file of a person (rack, lock, job), read so that every value still knows its line.

Every scalar stays text: the schema alone decides what is a number. So a serial `0123e45`, a MAC
address `02:00:00:00:00:10` and a version `5.0` arrive as they were written.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.rack.errors import InputError, Mistake

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails
    from yaml.nodes import Node

type Location = tuple[str | int, ...]

# What a pydantic error type means to a person: what is wrong, what would be right.
_PLAIN_WORDS = {
    "missing": ("`{name}` is missing", "add it"),
    "int_parsing": ("`{name}: {value}` is no whole number", "write a number such as 48"),
    "ip_v4_address": ("`{name}: {value}` is no IPv4 address", "write one such as 10.138.0.1"),
    "ip_v4_network": ("`{name}: {value}` is no IPv4 network", "write one such as 10.138.0.0/24"),
    "string_type": ("`{name}` has no plain text as its value", "write one word or number"),
    "list_type": ("`{name}` is no list", "write `[…]` or one `- …` a line"),
    "dict_type": ("`{name}` is no mapping", "write `key: value` pairs"),
    "model_type": ("`{name}` is no mapping", "write `key: value` pairs"),
    "too_short": ("`{name}` is empty", "give at least one"),
}


@dataclass(frozen=True, slots=True)
class Document:
    """The values of one YAML file (str, list, dict, None) and the line of each key and item."""

    path: Path
    data: Any
    lines: Mapping[Location, int]

    def line(self, location: Iterable[str | int] = ()) -> int:
        """Line of the value at `location`, or of the nearest thing around it that the file has."""
        place = tuple(location)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def mistake(self, location: Iterable[str | int], what: str, cure: str) -> Mistake:
        return Mistake(str(self.path), self.line(location), what, cure)

    def parse[Schema: BaseModel](
        self, schema: type[Schema], error: type[InputError] = InputError
    ) -> Schema:
        """The file as an instance of the pydantic model `schema`; raises all mistakes at once."""
        from pydantic import ValidationError

        if not isinstance(self.data, dict):
            raise error([self.mistake((), "the file holds no mapping", "write `key: value` lines")])
        try:
            return schema.model_validate(self.data)
        except ValidationError as problem:
            raise error([self._in_words(schema, item) for item in problem.errors()]) from None

    def _in_words(self, schema: type[BaseModel], item: ErrorDetails) -> Mistake:
        location = item["loc"]
        name = str(location[-1]) if location else "file"
        kind, context = item["type"], item.get("ctx", {})
        if kind == "extra_forbidden":
            known = _known_keys(schema, location[:-1])
            return self.mistake(location, f"unknown key `{name}`", did_you_mean(name, known))
        if kind == "value_error":
            what, _, cure = str(context["error"]).partition("; ")
        elif kind == "literal_error":
            what, cure = f"`{name}: {item['input']}` is unknown", f"use {context['expected']}"
        elif kind in _PLAIN_WORDS:
            what, cure = (
                words.format(name=name, value=item["input"]) for words in _PLAIN_WORDS[kind]
            )
        else:
            what, cure = f"`{name}: {item['input']}` does not fit", item["msg"].lower()
        return self.mistake(location, what, cure)


def _known_keys(schema: type[BaseModel], location: Location) -> list[str]:
    """Keys that the schema allows at `location`, which leads through models, dicts and lists."""
    from typing import get_args

    inside: Any = schema
    for step in location:
        if hasattr(inside, "model_fields"):
            inside = inside.model_fields[step].annotation
        else:
            inside = get_args(inside)[-1]  # the values of dict[K, V], the items of list[V]
        if type(None) in get_args(inside):
            inside = get_args(inside)[0]  # X | None
    return list(getattr(inside, "model_fields", ()))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The cure for a word that nobody knows: its nearest neighbours, else all that are known."""
    words = sorted(set(known))
    near = difflib.get_close_matches(word, words, n=2, cutoff=0.6)
    if near:
        return "did you mean " + " or ".join(f"`{item}`" for item in near) + "?"
    shown = ", ".join(words[:12]) + (", …" if len(words) > 12 else "")
    return f"known: {shown}" if words else "leave it out"


def read_document(path: Path, error: type[InputError] = InputError) -> Document:
    """Read one YAML file. Raises `error` naming file and line: unreadable, no YAML, doubled key."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: byte {problem.start} is no UTF-8; save the file as UTF-8") from None
    try:
        root = yaml.compose(text, Loader=_loader())
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = mark.line + 1 if mark else 1
        what = f"no valid YAML: {problem.problem or problem.context}"
        raise error([Mistake(str(path), line, what, "mind indentation and quotes")]) from None
    except yaml.YAMLError as problem:
        raise error(f"{path}: no valid YAML: {problem}") from None
    reader = _Reader(str(path))
    data = reader.value(root, ()) if root else None
    if reader.mistakes:
        raise error(reader.mistakes)
    return Document(path, data, reader.lines)


def _loader() -> Any:
    """YAML's own loader without its guesses of types, which take longer than the reading."""
    import yaml

    class Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
        def resolve(self, *_: Any) -> str:
            return ""

        def descend_resolver(self, *_: Any) -> None: ...

        def ascend_resolver(self) -> None: ...

    return Loader


class _Reader:
    """Turns YAML nodes into plain values and remembers lines and doubled keys on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Location, int] = {}
        self.mistakes: list[Mistake] = []
        self._open: set[int] = set()

    def value(self, node: Node, location: Location) -> Any:
        from yaml.nodes import ScalarNode, SequenceNode

        self.lines.setdefault(location, node.start_mark.line + 1)
        if isinstance(node, ScalarNode):
            plain = node.style in (None, "")
            return None if plain and node.value in ("", "~", "null") else node.value
        if id(node) in self._open:
            self._mistake(node, "an alias inside its own anchor", "write the value out")
            return None
        self._open.add(id(node))
        if isinstance(node, SequenceNode):
            result: Any = self._sequence(node, location)
        else:
            result = self._mapping(node, location)
        self._open.remove(id(node))
        return result

    def _sequence(self, node: Node, location: Location) -> list[Any]:
        return [self.value(item, (*location, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: Node, location: Location) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in node.value:
            name = str(key.value)
            place = (*location, name)
            if name in result:
                first = self.lines[place]
                self._mistake(key, f"key `{name}` twice (first on line {first})", "keep one")
                continue
            self.lines[place] = key.start_mark.line + 1
            result[name] = self.value(item, place)
        return result

    def _mistake(self, node: Node, what: str, cure: str) -> None:
        self.mistakes.append(Mistake(self.file, node.start_mark.line + 1, what, cure))
