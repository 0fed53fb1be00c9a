"""Options and steps that the commands of `fleetctl bench` share."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, override

import click

from fleetctl.cli.common import App
from fleetctl.errors import FleetError

if TYPE_CHECKING:
    from fleetctl.bench.document import Bench
    from fleetctl.bench.session import Session
    from fleetctl.jobs.foreground import Foreground
    from trainer.formats import Input, ModelSpec

LIMIT = click.FloatRange(10)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(k|M|G|Ki|Mi|Gi)?B?")


class Size(click.ParamType[int]):
    """Bytes: `4k`, `37.5M`, `1Gi`."""

    name = "SIZE"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        if not found or float(found[1]) == 0:
            self.fail(f"{value!r} is no size; such as 4k, 37.5M or 1Gi", param, ctx)
        return round(float(found[1]) * _UNITS[found[2] or ""])


class Image(click.ParamType[tuple[int, ...]]):
    """Channels, height, width: `3x224x224`."""

    name = "CxHxW"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        sides = str(value).lower().split("x")
        if len(sides) != 3 or not all(side.isdecimal() and int(side) for side in sides):
            self.fail(f"{value!r} is no shape of an image; such as 3x224x224", param, ctx)
        return tuple(int(side) for side in sides)


IMAGE = Image()


class Many[Item](click.ParamType[tuple[Item, ...]]):
    """A list with commas, each item once."""

    def __init__(self, item: click.ParamType[Item]) -> None:
        self._item = item
        self.name = f"{item.name},…"

    @override
    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Item, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        if not parts:
            self.fail("the list is empty", param, ctx)
        return tuple(dict.fromkeys(self._item.convert(part, param, ctx) for part in parts))


def known_models(names: Iterable[str], given: Input | None = None) -> tuple[ModelSpec, ...]:
    """Models of the trainer by name, for images such as these. Raises InputError."""
    from fleetctl.rack import InputError
    from trainer.formats import MODELS, ModelSpec, misfit

    known = [name for name in MODELS if name != "script"]
    specs = tuple(ModelSpec(name) for name in names)
    for spec in specs:
        if spec.name not in known:
            raise InputError(f"model {spec.name!r} is unknown; known: {', '.join(known)}")
        if given and (reason := misfit(spec, given.shape, given.classes)):
            raise InputError(f"{reason}; --image and --classes say what they are")
    return specs


limit_option = click.option(
    "--limit",
    "limit_seconds",
    type=LIMIT,
    default=900.0,
    show_default=True,
    help="Seconds that one launch may take.",
)


def on_phones(
    app: App,
    nodes: tuple[str, ...],
    kind: str,
    work: Callable[[Session], Awaitable[Bench]],
    limit_seconds: float,
) -> tuple[Bench, Path] | None:
    """Run a bench on NODES, or on all phones that are ready; its document and its folder.

    None when a closed terminal ended it.
    """
    from fleetctl.bench import session
    from fleetctl.jobs import attach, choose, launch
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.remote import Fleet

    wish = choose.Wish(named=tuple(app.rack.ring(app.select_named(nodes)))) if nodes else None
    remark = _remark()

    async def run(foreground: Foreground) -> tuple[Bench, Path]:
        async with Fleet(app.rack, app.paths) as fleet:
            room = launch.Room(fleet, app.rack, app.state, app.paths, remark)
            await attach.refresh_all(room)
            chosen = await launch.choose_phones(room, wish or choose.Wish())
            own = session.begin(
                room, foreground, kind, chosen.phones, command_line(), limit_seconds
            )
            remark(f"{own.folder.name} on {len(chosen.phones)} phones")
            try:
                return await work(own), own.folder
            except FleetError:
                with suppress(OSError):  # there is something in it
                    own.folder.rmdir()
                raise

    return Foreground().run(run)


def command_line() -> str:
    """As it was typed, with the program's name without its folder."""
    import shlex

    return shlex.join(["fleetctl", *sys.argv[1:]])


def _remark() -> Callable[[str], None]:
    from fleetctl.cli.output import progress

    console = progress()
    return lambda text: console.print(text, markup=False)
