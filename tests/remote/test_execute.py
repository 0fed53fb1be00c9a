"""One command on many phones, and that nothing of it is left, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from loopback_phones import Listen, Loopback

from fleetctl.remote import Fault
from fleetctl.remote.execute import KEPT_BYTES, NOT_FOUND, Execution, guarded

pytestmark = pytest.mark.usefixtures("loopback")


def lives(pid_file: Path) -> bool:
    """Whether the process that wrote its number there still runs."""
    stat = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


def scene(listen: Listen, play: Callable[[], Awaitable[None]], *phones: str) -> None:
    async def played() -> None:
        async with listen(*phones):
            await play()

    asyncio.run(played())


def test_every_phone_says_what_it_says(loopback: Loopback, listen: Listen) -> None:
    async def play() -> None:
        async with loopback.fleet() as fleet:
            found = await Execution(fleet, "echo out; echo err >&2; exit 3").run(
                ["phone002", "phone001"]
            )
        assert list(found) == ["phone002", "phone001"]
        for outcome in found.values():
            assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (3, "out\n", "err\n")
            assert outcome.reached
            assert outcome.cleared
            assert outcome.error is None

    scene(listen, play, "phone001", "phone002")


@pytest.mark.parametrize(
    ("command", "code"),
    [("true", 0), ("surely-no-such-command", NOT_FOUND), ("kill -KILL $$", 137), ("exit 255", 255)],
)
def test_exit_codes_are_the_commands_own(
    loopback: Loopback, listen: Listen, command: str, code: int
) -> None:
    async def play() -> None:
        async with loopback.fleet() as fleet:
            assert (await Execution(fleet, command).run(["phone001"]))["phone001"].exit_code == code

    scene(listen, play, "phone001")


@pytest.mark.parametrize("size", [0, 1, 200_000])
def test_standard_input_arrives_whole_or_is_empty(
    loopback: Loopback, listen: Listen, size: int
) -> None:
    async def play() -> None:
        async with loopback.fleet() as fleet:
            outcome = (await Execution(fleet, "wc -c", stdin=b"x" * size).run(["phone001"]))[
                "phone001"
            ]
        assert outcome.stdout.split() == [str(size)]

    scene(listen, play, "phone001")


def test_a_command_over_its_time_dies_with_all_its_group(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    stubborn, child = tmp_path / "stubborn", tmp_path / "child"
    command = (
        f"trap '' TERM; (trap '' TERM HUP; echo $(exec sh -c 'echo $PPID') >{child}; "
        f"while :; do sleep 1; done) >/dev/null 2>&1 & echo $$ >{stubborn}; "
        "echo said; while :; do sleep 1; done"
    )

    async def play() -> None:
        async with loopback.fleet() as fleet:
            outcome = (await Execution(fleet, command, 1.0).run(["phone001"]))["phone001"]
        assert outcome.error is not None
        assert outcome.error.fault is Fault.TIMEOUT
        assert outcome.stdout == "said\n"
        assert outcome.cleared
        await until(lambda: not lives(stubborn) and not lives(child))

    scene(listen, play, "phone001")


@pytest.mark.parametrize("how", ["stopped", "connection lost"])
def test_nothing_is_left_when_it_is_stopped_or_its_connection_goes(
    loopback: Loopback, listen: Listen, tmp_path: Path, how: str
) -> None:
    running = tmp_path / "running"

    async def play() -> None:
        async with loopback.fleet() as fleet:
            execution = Execution(fleet, f"echo $$ >{running}; sleep 1000")
            work = asyncio.create_task(execution.run(["phone001"]))
            await until(lambda: running.exists() and bool(running.read_text()))
            if how == "stopped":
                execution.stop()
            else:
                (await fleet.connection("phone001")).abort()
            outcome = (await work)["phone001"]
        assert outcome.interrupted == (how == "stopped")
        assert outcome.cleared == (how == "stopped")
        assert outcome.exit_code is None
        await until(lambda: not lives(running))

    scene(listen, play, "phone001")


def test_what_a_command_leaves_behind_ends_with_it(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    left = tmp_path / "left"

    async def play() -> None:
        async with loopback.fleet() as fleet:
            command = f"sleep 1000 & echo $! >{left}; echo done"
            outcome = (await Execution(fleet, command).run(["phone001"]))["phone001"]
        assert (outcome.exit_code, outcome.stdout) == (0, "done\n")
        await until(lambda: not lives(left))

    scene(listen, play, "phone001")


@pytest.mark.parametrize("how", ["its time is over", "left behind"])
def test_process_groups_of_its_own_end_with_a_command(
    loopback: Loopback, listen: Listen, tmp_path: Path, how: str
) -> None:
    stubborn, stays = tmp_path / "own group", tmp_path / "stays"
    own = f"exec timeout 1000 sh -c 'echo $$ >\"{stubborn}\"; exec sleep 1000'"
    away = f"setsid sh -c 'echo $$ >{stays}; exec sleep 30' >/dev/null 2>&1 &"
    written = f'until [ -s "{stubborn}" ] && [ -s {stays} ]; do sleep 0.1; done'
    command = f"{away} ({own}) & {written}" + ("; wait" if how == "its time is over" else "")

    async def play() -> None:
        async with loopback.fleet() as fleet:
            outcome = (await Execution(fleet, command, 3.0).run(["phone001"]))["phone001"]
        assert outcome.exit_code == (0 if how == "left behind" else None)
        assert outcome.cleared
        await until(lambda: not lives(stubborn))
        assert lives(stays), "what setsid started is nobody's but its own"
        os.kill(int(stays.read_text()), signal.SIGKILL)

    scene(listen, play, "phone001")


def test_a_phone_that_is_away_and_one_that_is_slow_do_not_hold_up_the_others(
    loopback: Loopback, listen: Listen
) -> None:
    loopback.add("phone002")
    ended: list[str] = []

    async def play() -> None:
        async with loopback.fleet() as fleet:
            execution = Execution(fleet, "echo here", 5.0)
            execution.on_end = lambda name, _: ended.append(name)
            found = await execution.run(["phone001", "phone002", "phone003"])
        assert found["phone001"].ok
        assert found["phone003"].ok
        away = found["phone002"]
        assert away.error is not None
        assert away.error.fault is Fault.REFUSED
        assert not away.reached
        assert sorted(ended) == ["phone001", "phone002", "phone003"]

    scene(listen, play, "phone001", "phone003")


def test_lines_come_while_it_runs_and_are_not_kept(loopback: Loopback, listen: Listen) -> None:
    said: list[tuple[str, str, str]] = []

    async def play() -> None:
        async with loopback.fleet() as fleet:
            execution = Execution(fleet, "echo one; printf 'two\\r\\n'; echo bad >&2; printf three")
            execution.on_line = lambda *words: said.append(words)
            outcome = (await execution.run(["phone001"]))["phone001"]
        assert outcome.ok
        assert outcome.stdout == ""
        assert [text for _, stream, text in said if stream == "stdout"] == ["one", "two", "three"]
        assert ("phone001", "stderr", "bad") in said

    scene(listen, play, "phone001")


def test_of_endless_output_the_beginning_is_kept(loopback: Loopback, listen: Listen) -> None:
    async def play() -> None:
        async with loopback.fleet() as fleet:
            command = f"head -c {KEPT_BYTES + 5000} /dev/zero"
            outcome = (await Execution(fleet, command).run(["phone001"]))["phone001"]
        assert len(outcome.stdout) == KEPT_BYTES
        assert outcome.left_out_bytes == 5000

    scene(listen, play, "phone001")


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_command_reaches_the_phone_unchanged_whatever_shell_logs_in(shell: str) -> None:
    command = "printf %s 'it'\"'\"'s `echo $0`' \"$HOME\" *.none \\\\ && exit 3"
    plain = subprocess.run(["sh", "-c", command], capture_output=True, env={"HOME": "/h"})
    guard = subprocess.Popen(
        [shell, "-c", guarded(command)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"HOME": "/h", "PATH": os.environ["PATH"]},
        start_new_session=True,
    )
    with guard:
        assert guard.stdout is not None
        assert (guard.stdout.read(), guard.wait()) == (plain.stdout, plain.returncode)
    assert plain.returncode == 3
