"""`fleetctl provision [PHASES] [NODES]`, and `fleetctl provision switches`"""

from __future__ import annotations

import difflib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, override

import click

from fleetctl.cli.common import App, complete_nodes, output_option, pass_app
from fleetctl.cli.provision_switches import switches
from fleetctl.errors import DISK_TROUBLE, ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.provision_view import Progress
    from fleetctl.provision.history import Record
    from fleetctl.provision.playbook import Playbook, Run

PHASES = (
    *("validate", "bootstrap", "controller", "phones", "release", "monitoring", "verify"),
    *("termux", "ssh", "openmpi", "exporter", "roster"),
)
"""Tags of site.yml: its phases, and the roles that checks name in their cures."""


class _PhasesOrSwitches(click.Group):
    """All but `switches` in the first place is an argument of the run itself."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[:1] in (["switches"], ["--help"], ["-h"])
        return super().parse_args(ctx, args if own else ["site", *args])

    @override
    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with click.Context(site, info_name=ctx.info_name, parent=ctx.parent) as inner:
            site.format_help(inner, formatter)


@click.group(cls=_PhasesOrSwitches)
def command() -> None:
    """Bring the rack, or parts of it, to what the rack file says."""


command.add_command(switches)


def _complete_words(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    phases = [word for word in ("switches", *PHASES) if word.startswith(text)]
    return [*phases, *complete_nodes(ctx, param, text)]


@command.command("site", hidden=True)
@click.argument("words", nargs=-1, metavar="[PHASE]... [NODES]...", shell_complete=_complete_words)
@click.option(
    *("-l", "--limit", "limits"),
    multiple=True,
    metavar="NODES",
    help="These phones only.",
    shell_complete=complete_nodes,
)
@click.option("-t", "--tags", multiple=True, metavar="TAGS", help="Phases too, as Ansible says it.")
@click.option("--skip-tags", multiple=True, metavar="TAGS", help="Leave these out.")
@click.option("-C", "--check", "dry", is_flag=True, help="Only say what would change.")
@click.option("-D", "--diff", is_flag=True, help="Show what changes in files.")
@click.option(
    "-e", "--extra-vars", multiple=True, metavar="VARS", help="name=value, YAML, or @FILE."
)
@click.option(
    "--vault-password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Holds the vault's password.",
)
@click.option("-J", "--ask-vault-pass", is_flag=True, help="Ask for the vault's password.")
@click.option(
    "--vault-id",
    "vault_ids",
    multiple=True,
    metavar="LABEL@FILE",
    help="A vault's password by its label.",
)
@click.option("-f", "--forks", type=click.IntRange(1), help="Phones at a time, at most.")
@click.option("--start-at-task", metavar="NAME", help="Leave out what comes before this task.")
@click.option("--flush-cache", is_flag=True, help="Forget what Ansible has kept of phones.")
@click.option("-v", "--verbose", count=True, help="Show Ansible's own output; more v, more of it.")
@click.option("--history", is_flag=True, help="List the last runs instead, newest first.")
@output_option
@pass_app
def site(
    app: App,
    words: tuple[str, ...],
    limits: tuple[str, ...],
    tags: tuple[str, ...],
    skip_tags: tuple[str, ...],
    dry: bool,
    diff: bool,
    extra_vars: tuple[str, ...],
    vault_password_file: Path | None,
    ask_vault_pass: bool,
    vault_ids: tuple[str, ...],
    forks: int | None,
    start_at_task: str | None,
    flush_cache: bool,
    verbose: int,
    history: bool,
    output: str,
) -> int:
    """Bring the rack to what the rack file says, by site.yml.

    PHASES are validate, bootstrap (only when named), controller, phones, release, monitoring,
    verify, or one role: termux, ssh, openmpi, exporter, roster. Without, all of them. `provision
    switches` is a command of its own.

    The options but the last two are ansible-playbook's. What only lists (--list-tasks, --list-tags,
    --list-hosts, --syntax-check) or asks as it goes (--step, -K) is for `ansible-playbook site.yml`
    itself.

    Ctrl-C ends the run here and on the phones; the next one completes it. Phones that failed are
    `@last-failed` afterwards. Ends with 3 when some phones failed, 4 when none was reached, 5
    when somebody else is at it.
    """
    if history:
        _show_history(app, output)
        return ExitCode.DONE
    from fleetctl.provision.playbook import Playbook

    phases = [word for word in words if word in PHASES]
    named = [*(word for word in words if word not in PHASES), *limits]
    secret = click.prompt("Vault password", hide_input=True, err=True) if ask_vault_pass else None
    playbook = Playbook(
        inventory=app.rack_file,
        tags=(*phases, *tags),
        skip_tags=skip_tags,
        limit=_limit(app, named),
        check=dry,
        diff=diff,
        extra_vars=extra_vars,
        vault_password_file=vault_password_file,
        vault_password=secret,
        verbosity=verbose,
        vault_ids=tuple(_vault_id(each) for each in vault_ids),
        forks=forks,
        start_at_task=start_at_task,
        flush_cache=flush_cache,
    )
    return _provision(app, playbook, (*words, *_given(tags, skip_tags, limits)), output)


def _vault_id(given: str) -> str:
    """LABEL@FILE with the whole path. Raises UsageError."""
    label, at, source = given.rpartition("@")
    if not Path(source).is_file():
        raise click.UsageError(
            f"--vault-id {given}: there is no file {source}; -J asks for the password instead."
        )
    return f"{label}{at}{Path(source).absolute()}"


def _limit(app: App, named: Sequence[str]) -> tuple[str, ...]:
    """The phones of node sets; none means all. Raises RackError, UsageError."""
    from fleetctl.rack import RackError

    try:
        return tuple(app.select_named(tuple(named))) if named else ()
    except RackError:
        for word in filter(str.isalpha, named):
            for phase in difflib.get_close_matches(word, PHASES, 1):
                raise click.UsageError(
                    f"{word} is neither a phase nor a node set; did you mean {phase}?"
                ) from None
        raise


def _given(tags: Sequence[str], skip_tags: Sequence[str], limits: Sequence[str]) -> Iterator[str]:
    """The options that say what a run was about, as they were written."""
    for name, values in (("-t", tags), ("--skip-tags", skip_tags), ("-l", limits)):
        for value in values:
            yield from (name, value)


def _provision(app: App, playbook: Playbook, words: tuple[str, ...], output: str) -> int:
    from fleetctl.cli.output import print_json
    from fleetctl.cli.provision_view import Progress, as_json, print_outcome
    from fleetctl.provision import history
    from fleetctl.provision.playbook import Run
    from fleetctl.state import user

    folder, who = app.paths.provisions, user()
    kept = (*words, *(["-C"] if playbook.check else []))
    with history.held(folder, who):
        record = history.begin(folder, who, kept)
        run = Run(playbook, folder / record.run / history.LOG)
        shown = Progress(run.tracker, whole=bool(playbook.verbosity), diff=playbook.diff)
        try:
            with _interruptions() as wish, shown:
                interrupted, uncertain = _follow(app, run, shown, wish)
        finally:
            run.close()
        record = _conclude(app, record, run, interrupted)
        problem = _keep(app, record) or run.log_problem
    with suppress(OSError) if interrupted else nullcontext():  # by a terminal that has gone
        if output == "json":
            print_json(as_json(app.rack.name, record, uncertain))
        else:
            print_outcome(record, run.tracker, uncertain, folder / record.run / history.LOG)
        if problem is not None:
            what = "not all of this run could be written down there"
            click.echo(f"{folder}: {problem.strerror}: {what}; free some space", err=True)
    return record.exit_code or ExitCode.DONE


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Collects the signals that ask for an end, instead of being ended by them."""
    came: list[int] = []
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup wishes
        numbers.append(signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        signal.signal(number, lambda number, _frame: came.append(number))
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(app: App, run: Run, shown: Progress, wish: list[int]) -> tuple[bool, dict[str, str]]:
    """Follow the run to its end, or end it. Whether it was ended, and of which phones it is not
    certain that nothing runs on there."""
    from fleetctl.provision.playbook_end import Ending, close_masters, sweep

    ending: list[Ending] = []

    def idle() -> None:
        shown.refresh()
        if ending:
            ending[0].go_on()
        elif wish:
            shown.remark("interrupted: ending it here and on the phones")
            ending.append(Ending(run.sockets))

    try:
        run.follow(shown.take, idle)
    except BaseException:
        Ending(run.sockets).finish()
        raise
    finally:
        for each in ending:
            each.finish()
        close_masters(run.sockets)
    uncertain = sweep(app.rack, app.paths, ending[0].links) if ending else {}
    return bool(ending), uncertain


def _conclude(app: App, record: Record, run: Run, interrupted: bool) -> Record:
    from fleetctl.provision.outcome import exit_code

    tracker = run.tracker
    results = tracker.hosts()
    failures = {
        host: f"{failure.task}: {failure.message}"
        for host, failure in tracker.failures.items()
        if results.get(host) in ("failed", "unreachable")
    }
    code = exit_code(results, app.rack.phones, run.exit_code, interrupted)
    return replace(
        record,
        seconds=round(time.time() - record.began, 1),
        exit_code=int(code),
        phones=results,
        failures=failures,
    )


def _keep(app: App, record: Record) -> OSError | None:
    """Write down what came of it; why not, where the disk is full: the outcome is shown anyway."""
    from fleetctl.provision import history

    failed = [name for name in app.rack.phones if name in record.failures]
    try:
        app.note_failed(f"provision {' '.join(record.arguments)}".rstrip(), failed)
        history.write(app.paths.provisions, record)
    except OSError as problem:
        if problem.errno not in DISK_TROUBLE:
            raise
        return problem
    return None


def _show_history(app: App, output: str) -> None:
    from fleetctl.cli.output import print_json, print_table
    from fleetctl.cli.provision_view import history_rows, record_json
    from fleetctl.provision import history

    records = history.read(app.paths.provisions)
    if output == "json":
        print_json({"rack": app.rack.name, "runs": [record_json(record) for record in records]})
        return
    columns = ("RUN", "WHO", "SECONDS", "EXIT", "PHONES", "WHAT")
    print_table(columns, history_rows(records))
    if records:
        click.echo(f"logs: {app.paths.provisions}{os.sep}RUN{os.sep}{history.LOG}", err=True)
