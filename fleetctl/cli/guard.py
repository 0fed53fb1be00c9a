"""`fleetctl guard [status | clear PHONE --why REASON]`"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import App, complete_nodes, output_option, pass_app
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.guard.layout import Layout
    from fleetctl.guard.memory import Memory, OpenCall
    from fleetctl.rack import Rack

CLEAR_LIMIT_SECONDS = 5.0
LATE_SECONDS = 60.0
"""A guard that has decided nothing for so long does not watch."""


@click.group(invoke_without_command=True)
@click.option("--dry-run", is_flag=True, help="Only say what it would do; may run beside a guard.")
@click.option(
    "--replay",
    "day",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Run a recorded day through it and print its decisions.",
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table",
              help="With --replay: lines for people, JSON for programs.")  # fmt: skip
@click.pass_context
def command(ctx: click.Context, dry_run: bool, day: Path | None, output: str) -> int | None:
    """Watch the batteries of all phones: heat, health, charge; cut off what is in danger.

    Runs until it is ended. Days are recorded in guard/log of the rack's folder. What it calls a
    person for is in docs/runbooks/guard.md; limits are under `guard:` in the rack file.
    """
    if ctx.invoked_subcommand is not None:
        return None
    app = ctx.find_object(App)
    assert app is not None  # noqa: S101  main makes it
    if day is not None:
        _replay(app, day, output)
        return None
    return _watch(app, dry_run)


def _watch(app: App, dry_run: bool) -> int:
    from contextlib import nullcontext

    from fleetctl.guard.kept import Kept
    from fleetctl.guard.service import Service
    from fleetctl.rack import RackPaths

    rack, known = _rack_to_watch(app.rack_file, dry_run), None
    paths = RackPaths(rack.name)
    paths.ensure()
    with nullcontext() if dry_run else Kept(paths).alone():
        while True:
            _begin(rack, dry_run)
            service = Service(rack, app.rack_file, paths, _say, dry=dry_run, before=known)
            ending = asyncio.run(service.run())
            if ending != "changed":
                _say("ends; what is off stays off")
                return ExitCode.INTERRUPTED if ending == "interrupted" else ExitCode.DONE
            rack, known = _rack_to_watch(app.rack_file, dry_run), service.memory
            _say("the rack file has changed")


def _rack_to_watch(rack_file: Path, dry_run: bool) -> Rack:
    """The rack file's; where that has mistakes, what it said when it last had none. Who only looks
    on is told of them."""
    from fleetctl.errors import FleetError
    from fleetctl.guard import last_good
    from fleetctl.rack import load_rack

    try:
        rack = load_rack(rack_file)
    except FleetError as problem:
        before = None if dry_run else last_good.load(rack_file)
        if before is None:
            raise
        _say(f"the rack file has mistakes, guard goes by what it was before: {problem}")
        return before
    try:
        if not dry_run:
            last_good.keep(rack_file, rack.name)
    except OSError as problem:
        _say(f"no copy of the rack file could be kept: {problem}")
    return rack


def _say(text: str) -> None:
    stamp = time.strftime("%H:%M:%S", time.gmtime())
    click.echo(f"{stamp} {text}", err=True)


def _begin(rack: Any, dry_run: bool) -> None:
    limits = rack.guard
    fed = sum(len(outlet.phones) for outlet in rack.outlets.values())
    _say(
        f"watches {len(rack.enrolled)} phones of rack {rack.name}"
        + (" and only says what it would do" if dry_run else "")
    )
    _say(
        f"warns at {limits.warn_celsius:g} °C, drains at {limits.drain_celsius:g}, cuts off at "
        f"{limits.cut_celsius:g}; charges to {limits.charge_low_percent:g}-"
        f"{limits.charge_high_percent:g} %"
    )
    if fed < len(rack.enrolled):
        _say(
            f"{len(rack.enrolled) - fed} phones have no outlet in the rack file: their jobs can be "
            "stopped, their power cannot be cut; see examples/power/"
        )
    if not limits.call:
        _say("nobody is called but by this log: add `guard: {call: […]}` to the rack file")


@command.command()
@output_option
@pass_app
def status(app: App, output: str) -> int:
    """Show what guard knows, what it has cut off, and what it waits for.

    Ends with 3 while a person is called for a phone, with 1 when no guard watches.
    """
    from fleetctl.cli.output import print_json, print_table, progress
    from fleetctl.guard.kept import Kept
    from fleetctl.guard.layout import Layout
    from fleetctl.guard.memory import Memory

    kept = Kept(app.paths)
    today = time.time()
    memory = kept.load(today) or Memory(today)
    saved = kept.saved(today)
    late_seconds = 0.0 if saved is None else today - saved
    now = memory.now + late_seconds  # by guard's clock, which does not follow when ours is set
    owner = kept.owner()
    layout = Layout.of_rack(app.rack)
    phones = [_phone(layout, memory, name, now) for name in layout.phones]
    if output == "json":
        calls = [asdict(call) for call in memory.calls.values()]
        decided = {"process": owner, "decided_seconds": round(late_seconds, 1)}
        print_json({"rack": app.rack.name, **decided, "phones": phones, "calls": calls})
    else:
        print_table(
            ("PHONE", "BAT°C", "CHARGE", "POWER", "OUTLET", "HEARD", "REMARKS"),
            map(_row, phones),
        )
        for call in memory.calls.values():
            unheard = app.rack.guard.call and call.tries and not call.reached
            text = f"! {call.what}: {call.message}" + (f" ({_unheard(call)})" if unheard else "")
            progress().print(text, markup=False, soft_wrap=True)
    if owner is None or late_seconds > LATE_SECONDS:
        progress().print("! no guard watches this rack: start `fleetctl guard`")
        return ExitCode.FAILED
    return ExitCode.SOME_PHONES_FAILED if memory.calls else ExitCode.DONE


def _unheard(call: OpenCall) -> str:
    """Of a call of which nothing proves that it has reached anybody."""
    times = "once" if call.tries == 1 else f"{call.tries} times"
    return f"tried {times}: {call.said or 'nothing proves that somebody was reached'}"


def _phone(layout: Layout, memory: Memory, name: str, now: float) -> dict[str, Any]:
    from fleetctl.guard.memory import PhoneMemory

    phone = memory.phones.get(name) or PhoneMemory(now)
    sample, outlet = phone.sample, layout.feeder.get(name)
    power = memory.outlets.get(outlet or "")
    return {
        "name": name,
        "celsius": sample.celsius if sample else None,
        "percent": sample.percent if sample else None,
        "plugged": sample.plugged if sample else None,
        "health": sample.health if sample else None,
        "outlet": outlet,
        "heard_seconds": round(now - sample.time, 1) if sample else None,
        "level": ("cool", "warm", "hot")[phone.level],
        "latched": phone.latch.why if phone.latch else None,
        "silent": phone.silent,
        "distrusted": power.distrust if power else None,
        "order": _under_way(memory, outlet),
    }


def _under_way(memory: Memory, outlet: str | None) -> str | None:
    order = memory.orders.get(f"switch:{outlet}")
    return None if order is None else f"being switched {'on' if order.on else 'off'}"


def _row(phone: dict[str, Any]) -> list[object]:
    plugged = {True: "plugged", False: "off", None: None}[phone["plugged"]]
    remarks = [
        f"LATCHED: {phone['latched']}" if phone["latched"] else "",
        "SILENT" if phone["silent"] else "",
        phone["level"] if phone["level"] != "cool" else "",
        phone["distrusted"] or "",
        phone["order"] or "",
    ]
    return [
        phone["name"],
        None if phone["celsius"] is None else f"{phone['celsius']:.1f}",
        None if phone["percent"] is None else f"{phone['percent']:.0f}%",
        plugged,
        "none" if phone["outlet"] is None else phone["outlet"],
        None if phone["heard_seconds"] is None else f"{phone['heard_seconds']:.0f} s",
        ", ".join(filter(None, remarks)),
    ]


@command.command()
@click.argument("phone", shell_complete=complete_nodes)
@click.option("--why", required=True, help="What you found and did, for whoever looks next.")
@pass_app
def clear(app: App, phone: str, why: str) -> None:
    """Let a PHONE that guard has cut off have power and jobs again.

    What is still wrong with it shows within seconds, and cuts it off again.
    """
    from fleetctl.guard.kept import Kept
    from fleetctl.rack import InputError
    from fleetctl.state import user

    names = app.rack.select(phone)
    if len(names) != 1:
        raise InputError(f"`{phone}` is {len(names)} phones; name one, since each needs a look")
    if not why.strip():
        raise InputError("--why needs a reason: what was wrong, and what was done?")
    (name,) = names
    kept = Kept(app.paths)
    memory = kept.load(time.time())
    if memory is None or not _concerns(app, memory, name):
        raise InputError(f"{name} is not cut off by guard, and nobody is called for it")
    note = kept.ask_clear(name, user(), why)
    if kept.owner() is None:
        click.echo(f"{name}: cleared as soon as `fleetctl guard` runs again", err=True)
        return
    until = time.monotonic() + CLEAR_LIMIT_SECONDS
    while note.exists():
        if time.monotonic() > until:
            raise InputError(f"{name}: the guard that runs does not take it up; restart it")
        time.sleep(0.1)
    click.echo(f"{name}: cleared", err=True)


def _concerns(app: App, memory: Memory, name: str) -> bool:
    """Whether there is anything to clear of a phone."""
    from fleetctl.rack.outlets import outlet_of

    phone = memory.phones.get(name)
    power = memory.outlets.get(outlet_of(app.rack.outlets).get(name, ""))
    return (
        (phone is not None and (phone.latch is not None or phone.silent))
        or (power is not None and power.distrust is not None)
        or any(call.phone == name for call in memory.calls.values())
    )


def _replay(app: App, day: Path, output: str) -> None:
    from fleetctl.cli.output import print_json
    from fleetctl.guard import words
    from fleetctl.guard.actions import as_line
    from fleetctl.guard.layout import Layout
    from fleetctl.guard.replay import read_day, replay

    layout = Layout.of_rack(app.rack)
    decisions = replay(layout, read_day(day))
    if output == "json":
        lines = [as_line(each.action, each.time) for each in decisions]
        print_json({"rack": app.rack.name, "file": str(day), "decisions": lines})
        return
    for each in decisions:
        stamp = time.strftime("%H:%M:%S", time.gmtime(each.time))
        click.echo(f"{stamp} {words.sentence(each.action)}")
