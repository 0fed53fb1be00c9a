"""The real adb and a stand-in phone as out of the box: who is let in, as whom, and to what."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetctl.rack import RackPaths
from fleetctl.remote.adb import Adb, AdbError, AdbHeld, AdbPhone, session
from standin import images
from standin.android import apk, fresh
from standin.android.handset import Handset
from standin.android.state import write_state
from standin.commands import run
from standin.engine import Spec, remove, restart, start_new
from standin.errors import StandinError

pytestmark = pytest.mark.standin

CONTAINER = "adb-test-phone"
HOME = "/data/data/com.termux/files/home"


@dataclass
class Box:
    """One phone, its Android played by this process, and the controller's folder."""

    handset: Handset
    paths: RackPaths
    loop: asyncio.AbstractEventLoop

    def hands[Result](self, work: Awaitable[Result] | Callable[[], Result]) -> Result:
        """Do something to the phone in its own thread."""

        async def doing() -> Result:
            return await work if isinstance(work, Awaitable) else work()

        return asyncio.run_coroutine_threadsafe(doing(), self.loop).result(60)

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.handset.adb.usb_port}"

    def adb[Result](self, work: Callable[[Adb], Awaitable[Result]]) -> Result:
        """Something with the real adb, in a session of its own."""

        async def doing() -> Result:
            async with session(self.paths) as adb:
                await adb.connect(self.endpoint)
                return await work(adb)

        return asyncio.run(doing())

    def phone[Result](self, work: Callable[[AdbPhone], Awaitable[Result]]) -> Result:
        return self.adb(lambda adb: work(adb.phone(self.endpoint)))

    def shell(self, command: str) -> Any:
        return self.phone(lambda phone: phone.shell(command))

    def inside(self, command: str) -> str:
        """As root, past Android."""
        return run(("podman", "exec", CONTAINER, "/system/bin/sh", "-c", command)).strip()


def eventually(happens: Callable[[], object], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := happens()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found, "it does not happen"
    return found


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    home = tmp_path_factory.mktemp("adb")
    hardware, enrol = home / "hw", home / "enrol"
    for folder in (hardware, enrol):
        folder.mkdir()
    (home / "denied").touch(mode=0o000)
    (hardware / "props.txt").write_text("[ro.product.model]: [SM-G975F]\n[ro.serialno]: [R58M1]\n")
    write_state(hardware, fresh.boxed(31, "x86_64", 10_050))
    paths = RackPaths("adb-test", home)
    paths.ensure()
    handset = Handset("phone001", hardware, lambda: None)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = Box(handset, paths, loop)
    try:
        made.hands(handset.open())
        start_new(
            Spec(
                name=CONTAINER,
                image=images.ensure(print).phone,
                rack="adb-test",
                host="phone001",
                folder=str(home),
                hostname="localhost",
                options=("--init", "--ipc=none", "--network=none"),
                mounts={
                    "/standin/hw": str(hardware),
                    "/standin/enrol": str(enrol),
                    "/proc/stat": str(home / "denied"),
                },
            )
        )
        eventually(lambda: handset.adb.on_usb)
        yield made
    finally:
        remove([CONTAINER])
        made.hands(handset.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@pytest.fixture(scope="module")
def known(box: Box) -> Box:
    """The phone after somebody has accepted the controller's key."""

    async def accept(adb: Adb) -> None:
        while box.handset.adb.asking is None:
            await asyncio.sleep(0.05)
        box.hands(box.handset.unlock)
        box.hands(box.handset.authorize)
        await adb.phone(box.endpoint).until_device()

    if not box.handset.state.adb_keys:
        box.adb(accept)
    return box


def test_an_unknown_computer_is_let_in_only_after_somebody_has_accepted_its_dialog(
    box: Box,
) -> None:
    (link,) = box.adb(lambda adb: adb.links())
    assert (link.name, link.state) == (box.endpoint, "unauthorized")
    with pytest.raises(StandinError, match="shows no dialog"):
        box.hands(box.handset.authorize)

    async def try_locked(adb: Adb) -> None:
        while box.handset.adb.asking is None:
            await asyncio.sleep(0.05)
        with pytest.raises(StandinError, match="is locked"):
            box.hands(box.handset.authorize)

    box.adb(try_locked)


def test_an_accepted_computer_comes_back_without_a_dialog(known: Box) -> None:
    (link,) = known.adb(lambda adb: adb.links())
    assert link.state == "device"


def test_another_computers_key_counts_for_nothing(known: Box, tmp_path: Path) -> None:
    other = Box(known.handset, RackPaths("other", tmp_path), known.loop)
    other.paths.ensure()
    (link,) = other.adb(lambda adb: adb.links())
    assert link.state == "unauthorized"


def test_commands_run_as_adbs_user_with_their_exit_code_and_both_outputs(known: Box) -> None:
    said = known.shell("id -u; echo wrong >&2; exit 7")
    assert (said.stdout.strip(), said.stderr.strip(), said.exit_code) == ("2000", "wrong", 7)


def test_files_come_where_adbs_user_may_write_and_nowhere_else(known: Box, tmp_path: Path) -> None:
    file = tmp_path / "blob"
    file.write_bytes(bytes(range(256)) * 5000)

    async def push(phone: AdbPhone) -> list[Any]:
        return [
            await phone.push([file], "/data/local/tmp/x/blob"),
            await phone.shell("wc -c </data/local/tmp/x/blob; sha256sum /data/local/tmp/x/blob"),
            await phone.push([file], "/data/data/blob"),
        ]

    made, looked, refused = known.phone(push)
    assert made.ok, made.complaint
    assert looked.stdout.split()[0] == str(file.stat().st_size)
    assert not refused.ok
    assert "Permission denied" in refused.complaint


def test_there_is_no_termux_before_it_is_installed_and_opened(known: Box) -> None:
    if "com.termux" in known.handset.state.apps:
        pytest.skip("another test has installed it")
    assert known.inside("ls /data/data") == ""
    assert "unknown package" in known.shell("run-as com.termux ls").stderr


def install(box: Box, folder: Path, signer: str, debuggable: bool = False) -> list[Any]:
    key = apk.load_signer(box.paths.dir / f"{signer}.pem")
    files = []
    for name, content in apk.standin_apps(debuggable).items():
        (folder / name).write_bytes(apk.build(content, key))
        files.append(folder / name)

    async def all_of_them(phone: AdbPhone) -> list[Any]:
        return [await phone.install(file) for file in files]

    return box.phone(all_of_them)


@pytest.fixture(scope="module")
def opened(known: Box, tmp_path_factory: pytest.TempPathFactory) -> Box:
    """Termux is installed, and has been opened for the first time."""
    done = install(known, tmp_path_factory.mktemp("apks"), "a")
    assert all(said.ok and "Success" in said.stdout for said in done)
    known.shell("am start -n com.termux/.app.TermuxActivity")
    eventually(lambda: known.handset.screen.ready)
    return known


def test_an_app_of_another_signer_is_refused_in_androids_words(opened: Box, tmp_path: Path) -> None:
    said = [one.stderr for one in install(opened, tmp_path, "b")]
    assert "INSTALL_FAILED_UPDATE_INCOMPATIBLE" in said[0]


def test_adbs_user_cannot_enter_the_apps_data(opened: Box) -> None:
    assert opened.inside("ls /data/data/com.termux/files") == "home\nusr"
    assert "Permission denied" in opened.shell("ls /data/data/com.termux").stderr
    assert "not debuggable" in opened.shell("run-as com.termux ls").stderr


def test_typed_text_reaches_a_shell_of_the_apps_user(opened: Box) -> None:
    opened.shell("input text 'echo%s$PREFIX:$(id%s-u)>~/typed'; input keyevent 66")
    said = eventually(lambda: opened.inside(f"cat {HOME}/typed 2>/dev/null || true"))
    assert said == "/data/data/com.termux/files/usr:10050"


def test_nothing_reaches_it_while_the_screen_is_locked(opened: Box) -> None:
    opened.hands(lambda: opened.handset.lock(pin=True))
    opened.shell("input keyevent 224; wm dismiss-keyguard")
    assert "showing=true" in opened.shell("dumpsys window policy").stdout
    opened.shell("input text 'touch%s~/locked'; input keyevent 66")
    opened.hands(lambda: opened.handset.lock(pin=False))
    opened.shell("input keyevent 224; wm dismiss-keyguard")
    opened.shell("input text 'touch%s~/unlocked'; input keyevent 66")
    eventually(lambda: "unlocked" in opened.inside(f"ls {HOME}").split())
    assert "locked" not in opened.inside(f"ls {HOME}").split()


def test_what_an_app_logs_adb_reads(opened: Box) -> None:
    opened.shell("logcat -c; input text 'log%s-t%smine%shello'; input keyevent 66")
    said = eventually(lambda: "hello" in opened.shell("logcat -d -s mine:I").stdout)
    assert said
    assert "hello" not in opened.shell("logcat -d -s other").stdout


def test_a_port_of_the_phones_own_is_reached_through_the_cable(opened: Box) -> None:
    opened.shell("input text 'echo%shi|/system/bin/nc%s-l%s-p%s8022'; input keyevent 66")

    async def read(phone: AdbPhone) -> bytes:
        async with phone.forwarded(8022) as port:
            while True:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                data = await reader.read(10)
                writer.close()
                if data:
                    return data
                await asyncio.sleep(0.1)

    assert opened.phone(read) == b"hi\n"


def test_adb_listens_on_the_network_only_when_told_and_until_a_reboot(opened: Box) -> None:
    def listens() -> bool:
        return ":15B3" in opened.inside("cat /proc/net/tcp")

    assert not listens()
    opened.phone(lambda phone: phone.listen_on_network())
    eventually(listens)
    eventually(lambda: opened.handset.adb.on_usb)
    opened.shell("settings put global kept 1")
    restart(CONTAINER)
    eventually(lambda: opened.handset.inside is not None and opened.handset.adb.on_usb)
    assert not listens()
    assert opened.handset.state.adb_tcp_port == 0
    assert opened.shell("settings get global kept").stdout == "1\n"


def test_an_uninstalled_app_takes_its_data_along_and_comes_back_as_another_user(
    opened: Box, tmp_path: Path
) -> None:
    for package in ("com.termux.boot", "com.termux.api", "com.termux"):
        opened.shell(f"pm uninstall {package}")
    assert opened.inside("ls /data/data") == ""
    install(opened, tmp_path, "b", debuggable=True)
    assert opened.handset.state.apps["com.termux"].uid == 10_051
    opened.shell("am start -n com.termux/.app.TermuxActivity")
    eventually(lambda: opened.shell("run-as com.termux ls files").stdout == "home\nusr\n")
    assert opened.shell("run-as com.termux id -u").stdout == "10051\n"


def test_a_phone_that_is_unplugged_is_gone(known: Box) -> None:
    known.hands(known.handset.plug("nothing"))
    try:
        assert known.adb(lambda adb: adb.links()) == []
    finally:
        known.hands(known.handset.plug("controller"))


def test_one_session_of_a_rack_at_a_time_and_nothing_is_left_of_it(known: Box) -> None:
    async def second(_: Adb) -> None:
        with pytest.raises(AdbHeld, match="another fleetctl"):
            async with session(known.paths):
                pass

    known.adb(second)
    assert not (known.paths.adb / "socket").exists()
    pid = int((known.paths.adb / "server.pid").read_text())
    assert not Path(f"/proc/{pid}").exists()


def test_without_adb_it_says_how_to_get_it(known: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(AdbError, match="apt-get install adb"):
        known.adb(lambda adb: adb.links())
