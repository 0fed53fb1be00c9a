"""What every command shares: the chosen rack, its state, node sets, options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fleetctl.rack import Rack, RackPaths
    from fleetctl.state import State


class App:
    """One call of fleetctl; everything is read when a command first asks for it."""

    def __init__(self, rack_option: str | None = None) -> None:
        self._rack_option = rack_option

    @cached_property
    def rack_file(self) -> Path:
        from fleetctl.rack import find_rack_file

        return find_rack_file(self._rack_option)

    @cached_property
    def rack(self) -> Rack:
        from fleetctl.rack import load_rack

        return load_rack(self.rack_file)

    @cached_property
    def paths(self) -> RackPaths:
        """The rack's folder on the controller; it exists afterwards."""
        from fleetctl.rack import RackPaths

        paths = RackPaths(self.rack.name)
        paths.ensure()
        return paths

    @cached_property
    def state(self) -> State:
        from fleetctl.state import State

        return State(self.paths.state_db)

    def select(self, node_sets: Iterable[str]) -> list[str]:
        """Phones of all `node_sets` together, all phones if there is none, in rack order.

        Raises UsageError for a set that no phone is in, since nothing would be done, and nothing
        be wrong.
        """
        node_set = ",".join(node_sets)
        if not node_set:
            return list(self.rack.phones)
        names = self.rack.select(node_set, self._groups_of(node_set))
        if not names:
            raise click.UsageError(f"{node_set} is an empty node set: no phone is in it now.")
        return names

    def select_enrolled(self, node_sets: Iterable[str]) -> list[str]:
        """`select` for commands that look at phones: places without one are named and left out.

        Raises InputError for places that are all empty: nothing would be looked at.
        """
        from fleetctl.rack import InputError
        from fleetctl.rack.nodesets import fold

        chosen = self.select(node_sets)
        names = [name for name in chosen if self.rack.phones[name].enrolled]
        if empty := [name for name in chosen if name not in names]:
            said = f"{fold(empty)}: no phone is enrolled there"
            if not names:
                raise InputError(f"{said}; `fleetctl enroll` one first")
            click.echo(f"{said}, left out", err=True)
        return names

    def _groups_of(self, node_set: str) -> dict[str, list[str]]:
        """The state is asked for groups of its own only: phones that are named can be looked at
        though it cannot be read."""
        from fleetctl.rack.nodesets import groups_in

        return {} if self.rack.groups.keys() >= set(groups_in(node_set)) else self.groups()

    def groups(self) -> dict[str, list[str]]:
        """The groups of phones beside those of the rack file."""
        from fleetctl.rack import dhcp
        from fleetctl.state import last_failed

        last = last_failed.read(self.paths.last_failed)
        return {
            **self.state.groups(phones=self.rack.enrolled),
            "waiting": dhcp.nowhere(self.rack),
            last_failed.GROUP: list(last.phones) if last else [],
        }

    def note_failed(self, command: str, phones: Iterable[str]) -> None:
        """Have `@last-failed` be these phones, if there are any."""
        from fleetctl.state import last_failed

        last_failed.keep(self.paths.last_failed, command, list(phones))

    def select_named(self, node_sets: tuple[str, ...]) -> list[str]:
        """`select` for commands that change phones: these must be named."""
        if not node_sets:
            raise click.UsageError("Name the phones, such as phone[001-003]; @phones is all.")
        return self.select(node_sets)


pass_app = click.make_pass_decorator(App)


def _complete(
    what: str,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem] | list[str]]:
    """A function of `completion`, which needs more than a command that is only called."""

    def complete(
        ctx: click.Context, param: click.Parameter, text: str
    ) -> list[CompletionItem] | list[str]:
        from fleetctl.cli import completion

        found: list[CompletionItem] | list[str] = getattr(completion, f"complete_{what}")(
            ctx, param, text
        )
        return found

    return complete


complete_nodes, complete_runs = _complete("nodes"), _complete("runs")
complete_data, complete_switches = _complete("data"), _complete("switches")
complete_files = _complete("files")

nodes_argument = click.argument(
    "nodes", nargs=-1, metavar="[NODES]...", shell_complete=complete_nodes
)

run_argument = click.argument(
    "run_name", required=False, metavar="[RUN]", shell_complete=complete_runs
)

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Table for people, JSON for programs.",
)
