"""One ssh session on one switch, by netmiko.

What a switch prints is concealed before anybody sees it, lines are revealed on their way out, and
whatever netmiko or paramiko raise becomes one of three failures: the switch is lost, it rejected a
line, or it answered something unexpected.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.switches.errors import SwitchError
from fleetctl.switches.offers import disagreement
from fleetctl.switches.platforms.base import Platform
from fleetctl.switches.secrets import Secrets

if TYPE_CHECKING:
    from netmiko.session_log import SessionLog


_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\0]")
_NOTICES = re.compile(r"^\*\*\*.*$", re.MULTILINE)
"""What an IOS prints on every terminal when a reload comes near; no prompt of anything."""

_PROMPT = re.compile(r"[\w.-]+[>#]")


class LostError(SwitchError):
    """The switch stopped answering, or the session ended."""


class RejectedLineError(SwitchError):
    """The switch did not take a line; `line` as it was meant, secrets as markers."""

    def __init__(self, switch: str, line: str, text: str) -> None:
        super().__init__(switch, f"it rejected `{line}`: {text}", "correct what it complains about")
        self.line = line
        self.text = text


class LoginError(SwitchError):
    """There is no session to be had: wrong password, unknown host key, no common algorithm."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a switch may take. Timers of a stand-in may run faster than ours."""

    connect_seconds: float = 10.0
    line_seconds: float = 15.0
    show_seconds: float = 60.0
    save_seconds: float = 100.0
    settle_seconds: float = 60.0
    """Until everybody who was reachable before a change is reachable after it."""

    boot_seconds: float = 600.0
    timer_speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where and as whom to log in. `password` and `enable` are names of secrets."""

    switch: str
    address: str
    user: str
    password: str
    enable: str | None
    known_hosts: Path
    port: int = 22


@dataclass
class Session:
    """A session; use it as a context manager, or `close` it."""

    target: Target
    platform: Platform
    secrets: Secrets
    patience: Patience = field(default_factory=Patience)
    hostnames: Sequence[str] = ()
    """Further names that its prompt may show, such as the one that it is about to get."""

    _connection: Any = field(default=None, init=False)

    def __enter__(self) -> Session:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- there and away -------------------------------------------------------------------------

    def open(self) -> None:
        """Log in and make sure of the prompt. Raises LoginError, LostError."""
        from netmiko.session_log import SessionLog

        # Its debug messages hold everything that passes, secrets too.
        logging.getLogger("netmiko").setLevel(logging.INFO)
        heard = BytesIO()
        log = SessionLog(buffered_io=heard)
        try:
            self._log_in(log)
        except LostError as problem:
            log.close()
            self._name_prompt(heard.getvalue().decode(errors="replace"), problem)
            raise
        self._connection.session_log = None
        # A session that begins in the middle of something is no switch of ours either.
        if "(" in (prompt := self._connection.base_prompt):
            self.close()
            raise self._wrong_prompt(f"{prompt}#")

    def _log_in(self, log: SessionLog) -> None:
        target = self.target
        with self._explained("the login"):
            self._connection = _driver(self.platform.name)(
                device_type=self.platform.name,
                host=target.address,
                port=target.port,
                username=target.user,
                password=self.secrets.value(target.password),
                secret=self.secrets.value(target.enable) if target.enable else "",
                ssh_strict=True,
                alt_host_keys=True,
                alt_key_file=str(target.known_hosts),
                conn_timeout=self.patience.connect_seconds,
                auth_timeout=self.patience.connect_seconds,
                banner_timeout=self.patience.connect_seconds,
                session_log=log,
            )
            if not self._connection.check_enable_mode():
                self._enable()

    def _name_prompt(self, heard: str, problem: LostError) -> None:
        """Where something answered that is no switch, say what it said. Raises LostError."""
        heard = _NOTICES.sub("", _ESCAPES.sub("", heard))
        lines = [line.strip() for line in heard.splitlines() if line.strip()]
        # netmiko's last word stands behind the prompt.
        last = lines[-1].removesuffix("exit").strip() if lines else ""
        if last and not _PROMPT.match(last):
            raise self._wrong_prompt(last) from problem

    def _wrong_prompt(self, prompt: str) -> LostError:
        name = next(iter(self.hostnames), self.target.switch)
        shown = self.secrets.scrub(prompt)[:60]
        return LostError(
            self.target.switch,
            f"it answered the login with `{shown}`, which is no prompt of its platform "
            f"{self.platform.name}",
            f"`{name}#` would be right: see what answers at {self.target.address}",
        )

    def _enable(self) -> None:
        from netmiko.exceptions import NetmikoBaseException

        if not self.target.enable:
            raise LoginError(
                self.target.switch,
                f"user {self.target.user} is not privileged",
                "give `enable:` at its login in the rack file, or another user",
            )
        try:
            with self._hurry():
                self._connection.enable()
        except (NetmikoBaseException, ValueError):
            raise LoginError(
                self.target.switch,
                f"it does not take the secret `{self.target.enable}`",
                "correct it in the vault or the environment",
            ) from None

    def close(self) -> None:
        """Leave quickly; a switch that hangs is not waited for."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    # --- commands -------------------------------------------------------------------------------

    def ask(self, command: str, seconds: float | None = None) -> str:
        """What the switch prints for a command that changes no configuration."""
        with self._explained(f"`{command}`"):
            printed: str = self._connection.send_command(
                command,
                expect_string=self._prompt,
                read_timeout=seconds or self.patience.show_seconds,
            )
        return self.secrets.conceal(printed)

    def converse(self, command: str, replies: Sequence[tuple[str, str]], seconds: float) -> str:
        """A command that may ask back: each `(pattern, reply)` is used as often as it is asked."""
        asked = "|".join(f"(?:{pattern})" for pattern, _ in replies)
        printed, say = "", command
        with self._explained(f"`{command}`"):
            for _ in range(6):
                heard: str = self._connection.send_command(
                    say,
                    expect_string=rf"{asked}|{self._prompt}",
                    read_timeout=seconds,
                    strip_prompt=False,
                    strip_command=False,
                    cmd_verify=bool(say),
                )
                printed += heard
                last = heard.rstrip().rpartition("\n")[2]
                reply = next(
                    (reply for pattern, reply in replies if re.search(pattern, last)), None
                )
                if reply is None:
                    return self.secrets.conceal(printed)
                say = reply
        raise SwitchError(
            self.target.switch, f"`{command}` never stops asking", "look at it by hand"
        )

    def type(self, line: str, seconds: float | None = None) -> str:
        """One line of configuration, or one that leads to it. Raises RejectedLineError."""
        from netmiko.exceptions import ConfigInvalidException

        with self._explained(f"`{line}`"):
            try:
                printed: str = self._connection.send_config_set(
                    [self.secrets.reveal(line)],
                    enter_config_mode=False,
                    exit_config_mode=False,
                    error_pattern=self.platform.error_pattern,
                    read_timeout=seconds or self.patience.line_seconds,
                )
            except ConfigInvalidException as problem:
                text = str(problem).rpartition("matched error: ")[2].strip()
                raise RejectedLineError(
                    self.target.switch, line, self.secrets.scrub(text)
                ) from None
        return self.secrets.conceal(printed)

    def type_ahead(self, lines: Sequence[str], seconds: float) -> None:
        """Lines of configuration all at once, for a way that breaks until they have been taken.

        They are in the switch before the first has an effect. Raises RejectedLineError.
        """
        if not lines:
            return
        with self._explained("lines that were typed ahead"):
            connection = self._connection
            connection.write_channel("".join(f"{self.secrets.reveal(line)}\n" for line in lines))
            until, printed = time.monotonic() + seconds, ""
            for line in lines:
                left = max(0.1, until - time.monotonic())
                printed += connection.read_until_pattern(
                    re.escape(self.secrets.reveal(line)), read_timeout=left
                )
                printed += connection.read_until_pattern(r"#", read_timeout=left)
                if match := re.search(self.platform.error_pattern, printed, re.MULTILINE):
                    text = self.secrets.scrub(match[0].strip())
                    raise RejectedLineError(self.target.switch, line, text)

    def leave_configuration(self) -> None:
        """Back to the privileged prompt, from wherever a failure left the session."""
        with self._explained("`end`"), self._hurry():
            if self._connection.check_config_mode():
                self._connection.exit_config_mode()

    @contextmanager
    def _hurry(self) -> Iterator[None]:
        """Let netmiko's own steps take as long as a line; they cannot be told how long to wait."""
        connection = self._connection
        connection.read_timeout_override = self.patience.line_seconds
        try:
            yield
        finally:
            connection.read_timeout_override = None

    @property
    def _prompt(self) -> str:
        """The privileged prompt, at the end but for messages of a reload that comes near.

        A hostname that changes in mid-session is known beforehand.
        """
        names = {self._connection.base_prompt, *(name[:16] for name in self.hostnames)}
        name = "|".join(re.escape(name) for name in sorted(names))
        return rf"(?:^|\n)(?:{name})[^\n#>(]*[#>]\s*(?:\*\*\*[^\n]*\s*)*$"

    # --- failures -------------------------------------------------------------------------------

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        import paramiko
        from netmiko.exceptions import (
            NetmikoAuthenticationException,
            NetmikoBaseException,
            NetmikoTimeoutException,
        )

        switch, target = self.target.switch, self.target
        try:
            yield
        except SwitchError:
            raise
        except NetmikoAuthenticationException:
            raise LoginError(
                switch,
                f"it does not let {target.user} in with the secret `{target.password}`",
                "correct user or secret",
            ) from None
        except (NetmikoTimeoutException, paramiko.SSHException) as problem:
            raise self._login_or_lost(str(problem), doing) from None
        except (NetmikoBaseException, OSError, EOFError, ValueError) as problem:
            gist = self.secrets.scrub(_gist(str(problem)))
            raise LostError(
                switch, f"no answer to {doing} ({gist})", "see whether it is up and reachable"
            ) from None

    def _login_or_lost(self, text: str, doing: str) -> SwitchError:
        switch, target = self.target.switch, self.target
        if "not found in known_hosts" in text:
            return LoginError(
                switch,
                f"the host key of {target.address} is not known",
                f"record it in {target.known_hosts} once you know that it is the right machine",
            )
        if "does not match" in text:
            return LoginError(
                switch,
                f"another host key than recorded answers at {target.address}",
                f"make sure that it is the right machine, then replace the key in "
                f"{target.known_hosts}",
            )
        gist = self.secrets.scrub(_gist(text))
        if "acceptable" in text or "ncompatible" in text:
            seconds = self.patience.connect_seconds
            return LoginError(switch, *disagreement(gist, target.address, target.port, seconds))
        return LostError(
            switch,
            f"no connection to {target.address} port {target.port} for {doing} ({gist})",
            "see whether it is up, and whether the address in the rack file is right",
        )


@cache
def _driver(name: str) -> Any:
    """netmiko's class for a platform, but for what it does where nobody answers any more."""
    from netmiko import ssh_dispatcher
    from netmiko.exceptions import ReadException

    class Driver(ssh_dispatcher(name)):  # type: ignore[misc]
        def read_channel(self) -> str:
            # It would go on reading from a session that has ended until its time is over.
            data: str = super().read_channel()
            if not data and self.remote_conn.closed:
                raise ReadException("the session has ended")
            return data

        def cleanup(self, command: str = "") -> None:
            # It would ask for the prompt before it leaves, which costs ten seconds.
            del command

    return Driver


def _gist(text: str) -> str:
    """The line that matters of netmiko's paragraphs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else "no reason given"
    return lines[-1] if first.startswith("A paramiko SSHException") else first
