"""One command on many phones, which ends there whenever it ends here.

sshd ends nothing when a connection is gone, so the command runs under a few lines of shell that
hold the session's standard input: when that closes, because its time is over, because of Ctrl-C,
or because this process or the network died, all of the session gets TERM, and KILL two seconds
later: process groups that the command made (`timeout` does) as well as its own. What a command
leaves in its session ends with it too; `setsid` starts what shall stay.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import asyncssh

from fleetctl.remote import faults
from fleetctl.remote.faults import PhoneError
from fleetctl.remote.fleet import Fleet

KEPT_BYTES = 256 * 1024
"""So much of each output of each phone is kept; what is streamed is not kept at all."""

INPUT_LIMIT_BYTES = 16 * 1024 * 1024

END_LIMIT_SECONDS = 5.0
"""How long to wait for the word that a command that was ended is gone: KILL comes after two."""

NOT_FOUND = 127
"""The exit code of a shell that has no such command."""

CANNOT_RUN = 126
"""The exit code of a shell that found the command, and may not or cannot run it."""

_PIECE_BYTES = 64 * 1024

type Stream = Literal["stdout", "stderr"]
type Say = Callable[[str, Stream, str], None]
"""Phone, stream, one line of it without its end."""

# $1 is the command, $2 the number of bytes of its standard input. sshd made a session for it, whose
# leader this shell is. Where pkill is missing, its own process group must do, which 0 means. The
# shell's own "Terminated" goes to nobody.
_GUARD = """\
all() { pkill "-$1" -s "$$" || kill "-$1" 0; }
exec 3<&0
if [ "$2" -gt 0 ]; then
    umask 077
    kept=${TMPDIR:-/tmp}/phonerack-exec.$$
    head -c "$2" <&3 >"$kept"
    if ! [ "$(wc -c <"$kept")" -eq "$2" ]; then
        rm -f "$kept"; echo "its input did not arrive whole" >&2; exit 125
    fi
    exec 4<"$kept"
    rm -f "$kept"
else
    exec 4</dev/null
fi
(
    trap '' TERM HUP INT
    cat <&3
    all TERM; sleep 2; all KILL
) >/dev/null 2>&1 4<&- &
trap ending=1 TERM
exec 5>&2 2>/dev/null
(exec sh -c "$1" <&4 2>&5 3<&- 4<&- 5>&-)
code=$?
[ -z "$ending" ] || wait
trap '' TERM
all TERM
exit "$code"
"""


@dataclass(slots=True)
class Executed:
    """What a command left behind on one phone. `exit_code` is None when it did not finish; then
    `error` says why, or `interrupted` that it was ended from here.

    `left_out_bytes`: so much of its output was not kept. `cleared`: whether nothing of it runs
    there any more, as far as the phone said.
    """

    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    error: PhoneError | None = None
    interrupted: bool = False
    reached: bool = False
    cleared: bool = True
    left_out_bytes: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass
class Execution:
    """A command that is to run on phones, each at once.

    `timeout_seconds` is the one limit for connecting and running; None is none. `stdin` is given
    to each. `on_line` gets each line as it comes, and output is then not kept; `on_end` the name
    of each phone that is through.
    """

    fleet: Fleet
    command: str
    timeout_seconds: float | None = None
    stdin: bytes = b""
    on_line: Say | None = None
    on_end: Callable[[str, Executed], None] = lambda _name, _outcome: None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """End it everywhere; `run` then returns soon."""
        self._stop.set()

    async def run(self, names: Iterable[str]) -> dict[str, Executed]:
        """What it left behind on each phone; nothing is raised for a phone."""
        order = list(names)
        outcomes = await asyncio.gather(*(self._one(name) for name in order))
        return dict(zip(order, outcomes, strict=True))

    async def _one(self, name: str) -> Executed:
        began = time.monotonic()
        outcome = Executed()
        stop = asyncio.create_task(self._stop.wait())
        opening = asyncio.create_task(self._open(name))
        try:
            await asyncio.wait(
                {opening, stop},
                timeout=self.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if opening.done():
                used = time.monotonic() - began
                await self._follow(name, opening.result(), outcome, stop, used)
            else:
                self._explain_end(name, outcome)
        except PhoneError as error:
            outcome.error = error
        finally:
            for task in (opening, stop):
                task.cancel()
            await asyncio.gather(opening, stop, return_exceptions=True)
        outcome.seconds = time.monotonic() - began
        self.on_end(name, outcome)
        return outcome

    async def _open(self, name: str) -> asyncssh.SSHClientProcess[bytes]:
        connection = await self.fleet.connection(name)
        try:
            return await connection.create_process(
                guarded(self.command, len(self.stdin)), encoding=None
            )
        except (asyncssh.Error, OSError) as error:
            raise faults.classify(name, self.fleet.address(name), error) from error

    async def _follow(
        self,
        name: str,
        process: asyncssh.SSHClientProcess[bytes],
        outcome: Executed,
        stop: asyncio.Task[Literal[True]],
        used_seconds: float,
    ) -> None:
        """Take what it says until it ends or has to."""
        outcome.reached = True
        sinks: dict[Stream, _Sink] = {
            "stdout": self._sink(name, "stdout"),
            "stderr": self._sink(name, "stderr"),
        }
        reading = asyncio.create_task(self._read(process, sinks))
        left = None if self.timeout_seconds is None else self.timeout_seconds - used_seconds
        try:
            await asyncio.wait(
                {reading, stop},
                timeout=None if left is None else max(0.0, left),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if reading.done():
                self._conclude(name, process, outcome)
            else:
                self._explain_end(name, outcome)
                with suppress(OSError, asyncssh.Error):
                    process.stdin.write_eof()
                await asyncio.wait({reading}, timeout=END_LIMIT_SECONDS)
                outcome.cleared = reading.done() and _status(process) is not None
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            process.close()
            outcome.stdout, outcome.stderr = sinks["stdout"].end(), sinks["stderr"].end()
            outcome.left_out_bytes = sum(sink.left_out_bytes for sink in sinks.values())

    async def _read(
        self, process: asyncssh.SSHClientProcess[bytes], sinks: dict[Stream, _Sink]
    ) -> None:
        async def drain(reader: asyncssh.SSHReader[bytes], sink: _Sink) -> None:
            while piece := await reader.read(_PIECE_BYTES):
                sink.take(piece)

        with suppress(asyncssh.Error, OSError):
            if self.stdin:
                process.stdin.write(self.stdin)
            await asyncio.gather(
                drain(process.stdout, sinks["stdout"]), drain(process.stderr, sinks["stderr"])
            )
            await process.wait_closed()

    def _sink(self, name: str, stream: Stream) -> _Sink:
        say = self.on_line
        return _Sink(None if say is None else lambda line: say(name, stream, line))

    def _conclude(
        self, name: str, process: asyncssh.SSHClientProcess[bytes], outcome: Executed
    ) -> None:
        outcome.exit_code = _status(process)
        if outcome.exit_code is None:
            outcome.error, outcome.cleared = faults.lost(name), False

    def _explain_end(self, name: str, outcome: Executed) -> None:
        if self._stop.is_set():
            outcome.interrupted = True
        elif outcome.reached:
            outcome.error = faults.unfinished(name, self.timeout_seconds or 0)
        else:
            address = self.fleet.address(name)
            outcome.error = faults.unreachable(name, address, "no answer in time")


class _Sink:
    """Takes one output of one phone: keeps its beginning, or hands it on line by line."""

    def __init__(self, say: Callable[[str], None] | None) -> None:
        self._say = say
        self._kept = bytearray()
        self.left_out_bytes = 0

    def take(self, piece: bytes) -> None:
        if self._say is None:
            room = max(0, KEPT_BYTES - len(self._kept))
            self._kept += piece[:room]
            self.left_out_bytes += len(piece[room:])
            return
        *lines, rest = (bytes(self._kept) + piece).split(b"\n")
        # A line without an end must not fill the memory.
        if len(rest) > KEPT_BYTES:
            lines, rest = [*lines, rest], b""
        self._kept[:] = rest
        for line in lines:
            self._say(line.decode(errors="replace").rstrip("\r"))

    def end(self) -> str:
        """All that was kept; of what is handed on, the last line may still come now."""
        text = self._kept.decode(errors="replace")
        self._kept.clear()
        if self._say is None:
            return text
        if text:
            self._say(text)
        return ""


def guarded(command: str, input_bytes: int = 0) -> str:
    """The line for a phone's login shell, whichever that is."""
    return f"exec sh -c {shlex.quote(_GUARD)} sh {shlex.quote(command)} {input_bytes}"


def _status(process: asyncssh.SSHClientProcess[bytes]) -> int | None:
    """The exit code as a shell gives it, 128 and the number for a signal; None: nobody said."""
    if process.exit_status is None:
        return None
    code = process.returncode
    return 128 - code if code is not None and code < 0 else process.exit_status


def not_run(exit_code: int | None, command: str) -> str | None:
    """What to do about a command that a phone's shell could not run; None if it did run."""
    first = command.strip().splitlines()[0] if command.strip() else command
    shown = first if len(first) <= 40 else f"{first[:39]}…"
    if exit_code == NOT_FOUND:
        return (
            f"exit code {NOT_FOUND}: it lacks a command of `{shown}`; a package comes to all "
            "phones by `packages: {also: [NAME]}` in the rack file and `site.yml -t termux`"
        )
    if exit_code == CANNOT_RUN:
        return (
            f"exit code {CANNOT_RUN}: a command of `{shown}` is there but cannot be run: not "
            "executable, or made for another system; call a script by its interpreter, such as "
            "`python FILE` or `sh FILE`"
        )
    return None
