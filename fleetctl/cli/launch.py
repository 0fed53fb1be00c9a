"""fleetctl launch"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli.common import (
    App,
    complete_files,
    complete_nodes,
    complete_runs,
    output_option,
    pass_app,
)
from fleetctl.cli.jobs import tell
from fleetctl.cli.output import print_json
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.jobs.foreground import Foreground
    from fleetctl.jobs.launch import Request
    from fleetctl.jobs.room import Chosen, Room
    from fleetctl.jobs.verdict import Verdict


class WithProgram(click.Command):
    """Everything after `--` is the program, and no option of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta["program"] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


@click.command(cls=WithProgram, options_metavar="[OPTIONS]")
@click.argument(
    "job_file",
    required=False,
    metavar="[JOB.yml | -- COMMAND...]",
    shell_complete=complete_files,
)
@click.option("-n", "count", type=click.IntRange(1), help="Number of phones.")
@click.option(
    "--phones",
    metavar="NODES",
    help="These phones, as a node set.",
    shell_complete=complete_nodes,
)
@click.option("--name", help="Name of the run; a number is added, unless it ends in one (`-7`).")
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on from RUN's newest valid checkpoint.",
    shell_complete=complete_runs,
)
@click.option("-p", "--priority", type=int, help="In the queue: larger first, from -10 to 10.")
@click.option("--time-limit", metavar="90m", help="End it with a checkpoint after so long.")
@click.option("--queue", "queue", is_flag=True, help="Put it into the queue and return.")
@click.option("--dry-run", is_flag=True, help="Show the whole plan, write nothing.")
@click.option("--detach", is_flag=True, help="Return once it runs; nobody supervises it then.")
@output_option
@pass_app
@click.pass_context
def command(ctx: click.Context, app: App, **options: Any) -> None:
    """Run a training job or any command, one rank on each phone.

    Where `fleetctl serve` runs, the job goes into the queue, and this terminal follows it from
    there. Else it is supervised from this terminal: closing it leaves the run going on,
    unsupervised until `logs -f` or `serve` comes back to it. Ctrl-C stops it on every phone.

    \b
    fleetctl launch examples/jobs/digits.yml
    fleetctl launch -n 4 -- python train.py      files named in the command go along
    fleetctl launch --resume digits-1            on as many ready phones as it had, or fewer
    fleetctl launch --queue -p 2 --time-limit 4h job.yml

    With -o json stdout has one document at the end, that of `fleetctl jobs RUN -o json`, and what
    ranks print is left to `fleetctl logs`.
    """
    from fleetctl.cli.queueing import exit_code
    from fleetctl.jobs.foreground import Foreground

    request = _request(app, ctx.meta.get("program"), options)
    if not options["dry_run"] and (options["queue"] or _served(app)):
        ctx.exit(_through_the_queue(app, request, options))
    foreground = Foreground()
    verdict = foreground.run(lambda fore: _launch(app, fore, request, options))
    if verdict is not None:
        ctx.exit(exit_code(verdict))
    if foreground.left_alone and foreground.supervised is None:
        # The terminal went before the run started: nothing was started.
        ctx.exit(ExitCode.INTERRUPTED)


def _request(app: App, program: list[str] | None, options: dict[str, Any]) -> Request:
    """What the options ask for. Raises JobError."""
    from fleetctl.jobs import choose, jobfile, names, runs
    from fleetctl.jobs.launch import Request, job_of

    sources = [options["job_file"], program, options["resume"]]
    if sum(source is not None for source in sources) != 1:
        raise jobfile.JobError("give one of: a job file, `-- COMMAND…`, or --resume RUN")
    files: tuple[Path, ...] = ()
    resume = whole = None
    if program is not None:
        if not program:
            raise jobfile.JobError("no command after `--`; such as `-- python train.py`")
        job = jobfile.command_job(program)
        files = jobfile.local_files(program, Path.cwd())
    elif options["resume"] is not None:
        resume = runs.find(app.paths.runs, options["resume"])
        job = job_of(resume)
        files = tuple(sorted((resume.path / "files").glob("*")))
    else:
        job = jobfile.read_job(Path(options["job_file"]))
        files = jobfile.local_files(job.command or [], Path(options["job_file"]).parent)
    if options["name"] is not None:
        if not jobfile.NAME.fullmatch(options["name"]):
            raise jobfile.JobError(
                f"--name {options['name']!r}: use letters, digits, `.`, `_` and `-`, at most 61"
            )
        if names.is_whole(options["name"]):
            names.refuse_taken(app.paths.runs, options["name"])
            whole = options["name"]
        else:
            job = job.model_copy(update={"name": options["name"]})
    job = jobfile.with_options(job, options["priority"], options["time_limit"])
    if options["count"] is not None and options["phones"] is not None:
        raise jobfile.JobError("give -n or --phones, not both")
    explicit = options["phones"] or (str(options["count"]) if options["count"] else None)
    if resume is not None and explicit is None:
        # A phone that died must not keep the others from going on.
        limit = len(resume.summary().phones)
        return Request(job, choose.Wish(limit=limit, spares=job.spares), files, resume, whole)
    if explicit:
        # The smallest number that the file allows is meant for the number that it names.
        job = job.model_copy(update={"phones": explicit, "minimum": None})
    wish = choose.read_wish(
        app.rack, job.phones, app.groups(), minimum=job.minimum, spares=job.spares
    )
    return Request(job, wish, files, resume, whole)


def _served(app: App) -> bool:
    from fleetctl.serve.lock import server

    return server(app.paths.serve_lock) is not None


def _through_the_queue(app: App, request: Request, options: dict[str, Any]) -> ExitCode:
    from fleetctl.cli import queueing
    from fleetctl.cli.output import progress

    run = queueing.enqueue(app, request)
    code, json = ExitCode.DONE, options["output"] == "json"
    if not options["queue"] and not options["detach"]:
        code = queueing.exit_code(queueing.follow(app, run, for_program=json))
    else:
        if not _served(app):
            progress().print("nobody serves this rack: it waits until `fleetctl serve` runs")
        if not json:
            click.echo(run.name)
    if json:
        tell(app, run.name, "json")
    return code


async def _launch(
    app: App, foreground: Foreground, request: Request, options: dict[str, Any]
) -> Verdict | None:
    from fleetctl.cli.follow import Screen
    from fleetctl.jobs import attach, launch
    from fleetctl.jobs.launch import Room
    from fleetctl.rack.nodesets import fold
    from fleetctl.remote import Fleet

    with ExitStack() as stack:
        json = options["output"] == "json"
        screen = stack.enter_context(Screen(for_program=json))
        async with Fleet(app.rack, app.paths) as fleet:
            room = Room(fleet, app.rack, app.state, app.paths, screen.remark)
            if options["dry_run"]:
                queued = options["queue"] or _served(app)
                await _dry_run(room, request, options["output"], queued=queued)
                return None
            await attach.refresh_all(room)
            screen.status("preflight")
            run, prepared = await launch.launch(room, request, stack)
            phones = prepared.chosen.phones
            if run.summary().state == "running":
                screen.remark(
                    f"{run.name} runs on {fold(phones)}, mpirun on {phones[0]}; "
                    f"preflight took {prepared.chosen.preflight_seconds:.1f} s"
                )
            if options["detach"]:
                screen.remark(f"nobody supervises it until `fleetctl logs -f {run.name}`")
                if json:
                    tell(app, run.name, "json")
                else:
                    click.echo(run.name)
                return None
            screen.remark(
                "nobody serves this rack, so it is supervised from this terminal: "
                "Ctrl-C stops it, closing leaves it"
            )
            show_log = prepared.plan is None
            try:
                verdict = await foreground.carry(
                    room, run, lambda watch: screen.attach(watch, show_log=show_log)
                )
            except OSError:
                screen.remark(f"{run.name} goes on; `fleetctl logs -f {run.name}` follows it again")
                raise
    screen.conclude(run, verdict)
    if json:
        tell(app, run.name, "json")
    return verdict


async def _dry_run(room: Room, request: Request, output: str, *, queued: bool) -> None:
    import asyncio

    from fleetctl.cli.plan_view import as_json, render
    from fleetctl.jobs import launch, names, preview

    resume = None
    if request.resume is not None:
        resume = f"resume/{await launch.look_for_checkpoint(room, request.resume)}"
    chosen, waits = await _would_get(room, request, queued=queued)
    name = request.name or names.next_free(room.paths.runs, request.job.name)
    prepared = await asyncio.to_thread(launch.prepare, room, request, chosen, name, resume)
    prepared = await launch.rehearse(room, prepared)
    seen = await preview.preview(room, request, prepared, waits)
    if output == "json":
        print_json(as_json(seen))
    else:
        click.echo(render(seen))


async def _would_get(room: Room, request: Request, *, queued: bool) -> tuple[Chosen, str | None]:
    """The phones of a launch; and why the queue, if it goes through that, would have it wait."""
    import time

    from fleetctl.jobs import choose, launch
    from fleetctl.serve.trial import trial
    from fleetctl.state.rows import user

    wish, waits = request.wish, None
    if queued:
        found = trial(room.rack, room.paths, room.state, request, user(), time.time())
        if isinstance(found, str):
            waits = found
        else:
            wish = found
    try:
        return await launch.choose_phones(room, wish, dry=True), waits
    except choose.NotEnoughPhones as problem:
        if waits is not None:
            problem.args = (f"{problem}; it would wait in the queue: {waits}",)
        raise
