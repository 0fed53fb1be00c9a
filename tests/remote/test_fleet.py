"""The fleet's connections: results, environment, files, streams, and phones that misbehave."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from loopback_phones import Listen, Loopback, keygen

from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.remote.openssh import explain

pytestmark = pytest.mark.usefixtures("loopback")


def test_a_command_runs_on_every_phone_named(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> None:
        async with listen("phone001", "phone002"), loopback.fleet() as fleet:
            results = await fleet.run(["phone002", "phone001"], "echo out; echo err >&2; exit 3")
            assert list(results) == ["phone002", "phone001"]
            for result in results.values():
                assert result.error is None, result.error
                assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
                assert result.error is None
                assert not result.ok

    asyncio.run(scene())


def test_environment_and_stdin_reach_the_command(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            result = await fleet.run_on(
                "phone001", 'echo "$A"; cat', env={"A": "two words; 'quoted'"}, stdin="fed\n"
            )
            assert result.stdout == "two words; 'quoted'\nfed\n"

    asyncio.run(scene())


def test_a_command_that_ends_without_reading_its_stdin_is_no_lost_phone(
    loopback: Loopback, listen: Listen
) -> None:
    """As `cd FOLDER && …` does where there is no folder: its end is here before we could write."""

    def ends_at_once(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(b"no folder\n")
        process.exit(3)

    async def ask() -> Result:
        async with listen("phone001", program=ends_at_once), loopback.fleet() as fleet:
            return await fleet.run_on("phone001", "cd nowhere && cat", stdin="many words\n" * 1000)

    assert asyncio.run(ask()) == Result(3, "no folder\n")


def test_one_connection_is_kept_for_many_commands(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            first = await fleet.connection("phone001")
            await asyncio.gather(*(fleet.run_on("phone001", "true") for _ in range(5)))
            assert await fleet.connection("phone001") is first

    asyncio.run(scene())


def test_a_dead_phone_does_not_keep_the_others_from_answering(
    loopback: Loopback, listen: Listen
) -> None:
    async def scene() -> None:
        loopback.add("phone003")
        async with listen("phone001"), loopback.fleet() as fleet:
            results = await fleet.run(["phone001", "phone003"], "echo here")
            assert results["phone001"].stdout == "here\n"
            error = results["phone003"].error
            assert error is not None
            assert error.fault is Fault.REFUSED
            assert "phone003" in str(error)

    asyncio.run(scene())


def test_a_command_that_takes_too_long_is_named_with_its_phone(
    loopback: Loopback, listen: Listen
) -> None:
    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            result = await fleet.run_on("phone001", "exec sleep 30", timeout_seconds=0.3)
            assert result.exit_code is None
            assert result.error is not None
            assert result.error.fault is Fault.TIMEOUT
            assert result.failure("phone001").startswith("phone001 did not finish")
            assert (await fleet.run_on("phone001", "echo still")).stdout == "still\n"

    asyncio.run(scene())


def test_a_stranger_with_another_host_key_is_not_talked_to(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / "other"))

    async def scene() -> None:
        loopback.add("phone001")
        keys = {"phone001": str(tmp_path / "other")}
        async with listen("phone001", host_keys=keys), loopback.fleet() as fleet:
            result = await fleet.run_on("phone001", "echo secret")
            assert result.error is not None
            assert result.error.fault is Fault.HOST_KEY_CHANGED
            assert "enrol it again" in str(result.error)

    asyncio.run(scene())


def test_a_phone_without_a_known_key_is_never_asked(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            loopback.known_hosts.write_text("phone009 ssh-ed25519 AAAA\n")
            result = await fleet.run_on("phone001", "true")
            assert result.error is not None
            assert "no host key" in str(result.error)

    asyncio.run(scene())


def test_the_authority_vouches_for_a_phone_by_its_name(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    """With only an @cert-authority line, the certificate's principal must be the phone's name."""
    loopback.add("phone001")
    loopback.add("phone002")
    keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / "ca"))
    for name in ("phone001", "phone002"):
        public = str(loopback.folder / f"{name}.pub")
        keygen("-s", str(tmp_path / "ca"), "-I", name, "-h", "-n", "phone001", public)
    authority = (tmp_path / "ca.pub").read_text()
    loopback.known_hosts.write_text(f"@cert-authority phone* {authority}")
    keys = {
        name: (str(loopback.folder / name), str(loopback.folder / f"{name}-cert.pub"))
        for name in ("phone001", "phone002")
    }

    async def scene() -> None:
        async with listen("phone001", "phone002", host_keys=keys), loopback.fleet() as fleet:
            results = await fleet.run(["phone001", "phone002"], "echo hello")
            assert results["phone001"].stdout == "hello\n"
            error = results["phone002"].error
            assert error is not None
            assert error.fault is Fault.HOST_KEY_CHANGED

    asyncio.run(scene())


def test_the_operators_certificate_is_used_when_it_is_there(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / "ca"))
    public = str(loopback.folder / "operator.pub")
    keygen("-s", str(tmp_path / "ca"), "-I", "operator", "-n", "operator,phone", public)
    authorized = tmp_path / "authorized"
    authorized.write_text("cert-authority " + (tmp_path / "ca.pub").read_text())

    async def scene() -> None:
        async with listen("phone001", authorized=authorized), loopback.fleet() as fleet:
            assert (await fleet.run_on("phone001", "echo in")).stdout == "in\n"

    asyncio.run(scene())


def test_a_refused_key_says_so(loopback: Loopback, listen: Listen, tmp_path: Path) -> None:
    keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / "other"))

    async def scene() -> None:
        async with (
            listen("phone001", authorized=tmp_path / "other.pub"),
            loopback.fleet() as fleet,
        ):
            result = await fleet.run_on("phone001", "true")
            assert result.error is not None
            assert result.error.fault is Fault.AUTH

    asyncio.run(scene())


async def _talk(loopback: Loopback, name: str, greeting: bytes) -> asyncio.Server:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        if greeting:
            await writer.drain()
            writer.close()

    address = loopback.add(name)
    server = await asyncio.start_server(answer, address, loopback.port)
    loopback.port = loopback.port or server.sockets[0].getsockname()[1]
    return server


def test_a_penalised_controller_is_throttled_not_down(loopback: Loopback) -> None:
    async def scene() -> None:
        server = await _talk(loopback, "phone001", b"Not allowed at this time\r\n")
        async with server, loopback.fleet() as fleet:
            result = await fleet.run_on("phone001", "true")
            assert result.error is not None
            assert result.error.fault is Fault.THROTTLED

    asyncio.run(scene())


def test_a_phone_whose_sshd_says_nothing_hangs(
    loopback: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleetctl.remote.connect.CONNECT_LIMIT_SECONDS", 0.3)

    async def scene() -> None:
        server = await _talk(loopback, "phone001", b"")
        async with loopback.fleet() as fleet:
            result = await fleet.run_on("phone001", "true")
            assert result.error is not None
            assert result.error.fault is Fault.TIMEOUT
            assert "hangs" in str(result.error)
        server.close()

    asyncio.run(scene())


class Cable:
    """Passes bytes between the controller and a phone until it is pulled; nobody is told."""

    def __init__(self) -> None:
        self.pulled = False

    async def plug(self, listen_at: tuple[str, int], phone: tuple[str, int]) -> asyncio.Server:
        async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            far_reader, far_writer = await asyncio.open_connection(*phone)
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

        return await asyncio.start_server(join, *listen_at)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.pulled:
                writer.write(data)


@pytest.mark.parametrize("how", ["run", "stream"])
def test_a_pulled_cable_is_noticed_by_keepalives(
    loopback: Loopback, listen: Listen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    """The phone freezes on a connection that is up; the waiting command names it."""
    monkeypatch.setattr("fleetctl.remote.connect.KEEPALIVE_INTERVAL_SECONDS", 0.2)

    async def scene() -> None:
        async with listen("phone001"):
            cable = Cable()
            real = (loopback.phones["phone001"].address, loopback.port)
            with socket.socket() as probe:
                probe.bind(("127.77.1.1", 0))
                loopback.port = probe.getsockname()[1]
            loopback.phones["phone001"].address = "127.77.1.1"
            server = await cable.plug(("127.77.1.1", loopback.port), real)
            async with loopback.fleet() as fleet:
                if how == "run":
                    begun = tmp_path / "begun"
                    waiting = asyncio.create_task(
                        fleet.run_on("phone001", f"touch {begun}; exec sleep 5", timeout_seconds=60)
                    )
                    while not begun.exists():
                        await asyncio.sleep(0.05)
                    cable.pulled = True
                    error = (await waiting).error
                else:
                    error = None
                    try:
                        async for _ in fleet.stream("phone001", "echo up; exec sleep 5"):
                            cable.pulled = True
                    except PhoneError as raised:
                        error = raised
            assert error is not None
            assert error.fault is Fault.LOST
            assert error.phone == "phone001"
            server.close()

    asyncio.run(scene())


def test_a_stream_gives_lines_while_the_command_runs(loopback: Loopback, listen: Listen) -> None:
    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            lines = []
            async for line in fleet.stream("phone001", "echo one; echo two; exec sleep 30"):
                lines.append(line)
                if len(lines) == 2:
                    break
            assert lines == ["one", "two"]

    asyncio.run(scene())


def test_files_and_folders_go_both_ways_whole(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner/a").write_bytes(b"\0\xff" * 70000)
    there, back = tmp_path / "there/data", tmp_path / "back"

    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            assert await fleet.put(["phone001"], source, str(there)) == {"phone001": None}
            (source / "inner/b").write_text("newer")
            assert await fleet.put(["phone001"], source, str(there)) == {"phone001": None}
            await fleet.get("phone001", str(there), back)
            await fleet.get("phone001", str(there / "inner/b"), tmp_path / "b")

    asyncio.run(scene())
    assert (back / "inner/a").read_bytes() == b"\0\xff" * 70000
    assert (tmp_path / "b").read_text() == "newer"
    assert [path.name for path in there.parent.iterdir()] == ["data"]


def test_a_copy_that_breaks_leaves_nothing_behind(
    loopback: Loopback, listen: Listen, tmp_path: Path
) -> None:
    there = tmp_path / "phone"
    there.mkdir()

    async def scene() -> None:
        async with listen("phone001"), loopback.fleet() as fleet:
            with pytest.raises(PhoneError, match="phone001 lacks a file"):
                await fleet.get("phone001", str(tmp_path / "absent"), tmp_path / "here/file")

    asyncio.run(scene())
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("with_certificate", [False, True])
def test_a_revoked_host_key_is_refused_by_fleetctl_and_by_ssh(
    loopback: Loopback, listen: Listen, with_certificate: bool
) -> None:
    """Whoever left the rack may still bear a certificate of its authority."""
    address = loopback.add("phone001")
    key = (loopback.folder / "phone001.pub").read_text().split()
    shown: Any = str(loopback.folder / "phone001")
    if with_certificate:
        keygen("-t", "ed25519", "-N", "", "-f", str(loopback.folder / "ca"))
        keygen("-s", str(loopback.folder / "ca"), "-h", "-I", "p", "-n", "phone001",
               str(loopback.folder / "phone001.pub"))  # fmt: skip
        shown = (shown, f"{shown}-cert.pub")
        authority = " ".join((loopback.folder / "ca.pub").read_text().split()[:2])
        loopback.known_hosts.write_text(f"@cert-authority phone001 {authority}\n")
    with loopback.known_hosts.open("a") as file:
        file.write(f"@revoked * {key[0]} {key[1]}\n")

    async def scene() -> tuple[Result, str]:
        keys = {"phone001": shown}
        async with listen("phone001", host_keys=keys), loopback.fleet() as fleet:
            result = await fleet.run_on("phone001", "true")
            options = {
                "UserKnownHostsFile": loopback.known_hosts,
                "HostKeyAlias": "phone001",
                "StrictHostKeyChecking": "yes",
                "BatchMode": "yes",
            }
            ssh = await asyncio.create_subprocess_exec(
                *("ssh", "-F", "none", "-p", str(loopback.port)),
                *(f"-o{name}={value}" for name, value in options.items()),
                *(address, "true"),
                stderr=asyncio.subprocess.PIPE,
            )
            return result, (await ssh.communicate())[1].decode()

    result, said = asyncio.run(scene())

    assert result.error is not None
    assert result.error.fault is Fault.HOST_KEY_CHANGED
    assert "answers with a host key that was revoked" in str(result.error)
    assert "was revoked" in str(explain("phone001", address, said)), said
