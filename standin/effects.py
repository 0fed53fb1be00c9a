"""What each lasting fault of a stand-in phone does to it, and how that is undone.

Those that end with a container's network are made again whenever it starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standin import engine, storage
from standin.commands import CommandError, run
from standin.daemon.control import ask
from standin.engine import Container
from standin.errors import StandinError
from standin.faults import Faults, Kind, Value
from standin.rig import Rig

SYN_CHAIN = "standin-syn-loss"
FAKETIME = "libfaketimeMT.so.1"
BORN_SECONDS = 10
"""What a phone's clock shows when it starts after its battery was flat: 1970, and this."""

BATTERY_HANG = "battery_hang"


@dataclass(frozen=True, slots=True)
class Effect:
    """How a fault is made and undone on a container that has processes.

    `ends_with_network`: it must be made again when the container has started. `restarts`: it shows
    only in programs that start afterwards, so the phone starts anew when it comes and when it goes.
    """

    make: Callable[[Rig, Container, Value], None]
    undo: Callable[[Rig, Container], None]
    ends_with_network: bool = False
    restarts: bool = False


def _pull(rig: Rig, container: Container, _: Value) -> None:
    rig.pull(container.host)


def _replug(rig: Rig, container: Container) -> None:
    rig.replug(container.host)


def _shape(megabits: int) -> Callable[[Rig, Container, Value], None]:
    def make(rig: Rig, container: Container, _: Value) -> None:
        rig.shape(container, megabits)

    return make


def _unshape(rig: Rig, container: Container) -> None:
    rig.shape(container)


def _lose_syns(_: Rig, container: Container, value: Value) -> None:
    """Of connections that come and of those that go, by the phone's own packet filter."""
    iptables = ("nsenter", "-t", str(container.pid), "-n", "iptables", "-w")
    part = float(value or 0) / 100
    with suppress(CommandError):
        run((*iptables, "-N", SYN_CHAIN))
        for hook in ("INPUT", "OUTPUT"):
            run((*iptables, "-A", hook, "-p", "tcp", "--syn", "-j", SYN_CHAIN))
    chance = ("-m", "statistic", "--mode", "random", "--probability", f"{part:.9f}")
    run((*iptables, "-F", SYN_CHAIN))
    run((*iptables, "-A", SYN_CHAIN, *chance, "-j", "DROP"))


def _keep_syns(_: Rig, container: Container) -> None:
    run(("nsenter", "-t", str(container.pid), "-n", "iptables", "-w", "-F", SYN_CHAIN))


def _root(container: Container) -> Path:
    """The phone's files as its root sees them."""
    return Path(f"/proc/{container.pid}/root")


def _fill(_: Rig, container: Container, value: Value) -> None:
    storage.fill(_root(container) / "data", int(value or 0))


def _empty(_: Rig, container: Container) -> None:
    storage.empty(_root(container) / "data")


def _shift_clock(_: Rig, container: Container, value: Value) -> None:
    etc, offset = _root(container) / "etc", value
    if value == "1970":
        offset = f"{BORN_SECONDS - round(time.time())}s"
    # An offset in seconds is written without its unit.
    (etc / "faketimerc").write_text(f"{str(offset).removesuffix('s')}\n")
    (library,) = (_root(container) / "usr/lib").glob(f"*/faketime/{FAKETIME}")
    inside = Path("/") / library.relative_to(_root(container))
    (etc / "ld.so.preload").write_text(f"{inside}\n")


def _set_clock_right(_: Rig, container: Container) -> None:
    for name in ("ld.so.preload", "faketimerc"):
        (_root(container) / "etc" / name).unlink(missing_ok=True)


def _hang_battery(rig: Rig, container: Container, value: Value) -> None:
    (rig.folders.hardware(container.host) / BATTERY_HANG).write_text(f"{value}\n")


def _free_battery(rig: Rig, container: Container) -> None:
    (rig.folders.hardware(container.host) / BATTERY_HANG).unlink(missing_ok=True)


def _lock(rig: Rig, container: Container, _: Value) -> None:
    _give_order(rig, "lock", container.host, pin=True)


def _unlock(rig: Rig, container: Container) -> None:
    _give_order(rig, "unguard", container.host)


def _give_order(rig: Rig, order: str, phone: str, **arguments: Any) -> None:
    answer = ask(rig.folders.root, order, phones=[phone], **arguments)
    if problem := answer["problems"].get(phone):
        raise StandinError(problem)


EFFECTS: Mapping[Kind, Effect] = {
    "unplug": Effect(_pull, _replug, ends_with_network=True),
    "100mbit": Effect(_shape(100), _unshape, ends_with_network=True),
    "300mbit": Effect(_shape(300), _unshape, ends_with_network=True),
    "syn-loss": Effect(_lose_syns, _keep_syns, ends_with_network=True),
    "disk-full": Effect(_fill, _empty),
    "clock": Effect(_shift_clock, _set_clock_right, restarts=True),
    "battery-hang": Effect(_hang_battery, _free_battery),
    "locked": Effect(_lock, _unlock),
}
"""Of the faults that are made once. `hot`, `flap` and `hub-lies` are played by the daemon, which
reads them from the record; `slow` is a limit of the container."""

PLAYED: frozenset[Kind] = frozenset({"hot", "flap", "hub-lies", "locked"})
"""Faults that nobody but the daemon can make."""

EXCLUSIVE: Mapping[Kind, Kind] = {"100mbit": "300mbit", "300mbit": "100mbit"}
"""Faults of which the later one takes the other's place."""


def make(rig: Rig, container: Container, kind: Kind, value: Value, present: Faults) -> bool:
    """Make a fault happen, in the place of those it excludes; whether the phone must start anew."""
    effect = EFFECTS.get(kind)
    if effect is not None:
        effect.make(rig, container, value)
    if kind in EXCLUSIVE:
        present.pop(EXCLUSIVE[kind], None)
    return effect is not None and effect.restarts


def undo_all(rig: Rig, container: Container, present: Faults) -> bool:
    """Undo what `present` has done to a container that runs; whether it must start anew."""
    effects = [EFFECTS[kind] for kind in present if kind in EFFECTS]
    for effect in effects:
        effect.undo(rig, container)
    return any(effect.restarts for effect in effects)


def settle_started(rig: Rig, container: Container, present: Faults) -> None:
    """A phone that has just started gets its cable, its limit, and the faults that it lost."""
    limit_processor(rig, container.host, present)
    rig.plug(container, "unplug" in present)
    for kind, value in present.items():
        if kind in EFFECTS and EFFECTS[kind].ends_with_network:
            EFFECTS[kind].make(rig, container, value)


def limit_processor(rig: Rig, phone: str, present: Faults) -> None:
    """Podman keeps no limit over a restart. Throttling is the daemon's: it lowers this in time."""
    slow = present.get("slow")
    if limit := rig.cpu(phone, slow if isinstance(slow, float) else None):
        engine.limit_cpu(rig.container_name(phone), limit)
