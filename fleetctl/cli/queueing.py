"""`fleetctl launch` where the rack is served: into the queue, and follow the job from there."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from fleetctl.cli.common import App
from fleetctl.errors import ExitCode

if TYPE_CHECKING:
    from fleetctl.cli.follow import Screen
    from fleetctl.jobs.launch import Request
    from fleetctl.jobs.runs import RunFolder
    from fleetctl.jobs.tracker import Tracker
    from fleetctl.jobs.verdict import Verdict

LOOK_SECONDS = 0.5


def enqueue(app: App, request: Request) -> RunFolder:
    """Put the job into the queue; its run folder."""
    from fleetctl.jobs.runs import RunFolder
    from fleetctl.serve.enqueue import enqueue
    from fleetctl.serve.queue import Queue
    from fleetctl.state.rows import user

    with Queue(app.paths.queue_db) as queue:
        entry = enqueue(app.rack, app.paths, queue, request, user())
    return RunFolder(app.paths.runs / entry.name)


def follow(app: App, run: RunFolder, *, for_program: bool = False) -> Verdict | None:
    """Show the job until it is over. Ctrl-C stops it; None when it was stopped before it ran."""
    from fleetctl.cli.follow import Screen

    with Screen(for_program=for_program) as screen:
        screen.remark(f"{run.name} is queued; closing this terminal leaves it, Ctrl-C stops it")
        try:
            _until_begun(app, run, screen)
            _until_over(run, screen)
        except KeyboardInterrupt:
            return _stop(app, run, screen)
        verdict = _verdict(run)
        screen.conclude(run, verdict)
    return verdict


def _until_begun(app: App, run: RunFolder, screen: Screen) -> None:
    from fleetctl.serve.outlook import outlook

    why = ""
    while not run.events():
        waiting = outlook(app.rack, app.paths, app.state, time.time())
        now = next((job.why for job in waiting.jobs if job.name == run.name), why)
        if now != why:
            screen.remark(f"{run.name}: {now}")
        why = now
        screen.status(f"{run.name} waits: {why}")
        time.sleep(LOOK_SECONDS)


def _until_over(run: RunFolder, screen: Screen) -> None:
    from fleetctl.rack.nodesets import fold

    summary = run.summary()
    if summary.phones:
        screen.remark(f"{run.name} runs on {fold(summary.phones)}, mpirun on {summary.phones[0]}")
    reader = _Reader(run)
    while not run.summary().over:
        reader.show(screen)
        time.sleep(LOOK_SECONDS)
    reader.show(screen)


class _Reader:
    """What has come in since the last look: progress for the live line, words of a program."""

    def __init__(self, run: RunFolder) -> None:
        from fleetctl.jobs.tracker import Tracker

        self._run, self._tracker = run, Tracker()
        self._begin(1)

    def _begin(self, attempt: int) -> None:
        """Each attempt has files of its own."""
        from fleetctl.jobs.lines import Growing
        from fleetctl.jobs.runs import LOG_FILE, PROGRESS_FILE

        folder = self._run.folder_of(attempt)
        self._attempt, self._told = attempt, False
        self._progress = Growing(folder / PROGRESS_FILE)
        self._words = Growing(folder / LOG_FILE)

    def show(self, screen: Screen) -> None:
        from fleetctl.cli.follow import untagged

        run = self._run
        if (attempt := run.attempt) != self._attempt:
            self._begin(attempt)
            screen.remark(f"{run.name}: attempt {attempt}")
        for line in self._progress.new_lines():
            _take(self._tracker, line)
            self._told = True
        if self._told:
            screen.status(f"{run.name} · {self._tracker.line()}")
        if not run.plan_file.exists():
            phones = run.summary().phones
            for line in self._words.new_lines():
                screen.word(untagged(line, phones)[1])


def _take(tracker: Tracker, line: str) -> None:
    from trainer.formats import FormatError, event_from_json

    try:
        tracker.take(event_from_json(line))
    except FormatError:
        return  # its supervisor notes it


def _stop(app: App, run: RunFolder, screen: Screen) -> Verdict | None:
    from fleetctl.jobs import attach
    from fleetctl.jobs.launch import Room
    from fleetctl.remote import Fleet
    from fleetctl.serve.stop import stop_unstarted

    screen.remark(f"stopping {run.name}")
    if stop_unstarted(app.paths, run.name):
        screen.remark(f"{run.name} stopped before it ran")
        return None

    async def stop() -> None:
        async with Fleet(app.rack, app.paths) as fleet:
            room = Room(fleet, app.rack, app.state, app.paths, screen.remark)
            await attach.stop(room, run)

    asyncio.run(stop())
    verdict = _verdict(run)
    screen.conclude(run, verdict)
    return verdict


def _verdict(run: RunFolder) -> Verdict:
    from fleetctl.jobs.verdict import Verdict

    summary = run.summary()
    state = "stopped" if summary.state == "stopped" else "failed"
    state = "done" if summary.state == "done" else state
    return Verdict(state, summary.reason, {}, summary.test_accuracy, summary.left)  # type: ignore[arg-type]


def exit_code(verdict: Verdict | None) -> ExitCode:
    """None: stopped before it ran."""
    if verdict is None:
        return ExitCode.INTERRUPTED
    if verdict.state == "stopped" and verdict.left:
        return ExitCode.SOME_PHONES_FAILED
    codes = {"done": ExitCode.DONE, "failed": ExitCode.FAILED, "stopped": ExitCode.INTERRUPTED}
    return codes[verdict.state]
