"""An ssh server on loopback whose sessions are played by the test, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import asyncssh
from lab import HOST_KEY, PASSWORD

type Talk = Callable[[asyncssh.SSHServerProcess[Any]], Awaitable[None]]


class _Login(asyncssh.SSHServer):
    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("admin", PASSWORD)


class SshServer:
    """Lets admin in and hands each session to `talk`; `offer` is what asyncssh is told beside."""

    def __init__(self, talk: Talk, **offer: Any) -> None:
        self._talk = talk
        self._offer = {"server_host_keys": [HOST_KEY], "encoding": "utf-8"} | offer
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(60)

    def known_hosts(self) -> str:
        key = HOST_KEY.export_public_key("openssh").decode().strip()
        return f"[127.0.0.1]:{self.port} {key}\n"

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> int:
        self._server = await asyncssh.create_server(
            *(_Login, "127.0.0.1", 0),
            process_factory=self._talk,
            line_editor=False,
            **self._offer,
        )
        return self._server.get_port()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
