"""The only code that runs ansible-playbook: one wrapper round ansible-runner that holds its traps.

- It is not asked to write down what it was given: `interface.run` puts passwords and extra
  variables into files, and replaces the handler of SIGINT for good. `Runner` itself does neither.
- Its folder holds the whole environment, and a file for each event. It is private, one a run, and
  goes with the run; what is kept is the log, and the record that the caller writes.
- It switches host keys off unless told otherwise, and facts into a cache of files.
- It ends ansible-playbook alone when it is cancelled: workers have sessions of their own, ssh's
  masters are nobody's children, and commands run on on the phones. See `playbook_end`.
- What became of hosts is read from the last event, never from its exit code.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import RawIOBase
from pathlib import Path
from typing import Any

from fleetctl.errors import DISK_TROUBLE, FleetError
from fleetctl.provision.playbook_events import Event, Tracker, parse_event
from fleetctl.rack.loader import PROJECT

POLL_SECONDS = 0.5
_VAULT_PROMPT = r"Vault password: ?$"


class AnsibleError(FleetError):
    """Ansible ended before it came to any host."""


@dataclass(frozen=True, slots=True)
class Playbook:
    """A call of ansible-playbook. `limit` holds names of hosts; empty means all.

    `vault_password` is typed at its prompt, so that it is in no argument and no file.
    """

    inventory: Path
    playbook: str = "site.yml"
    tags: tuple[str, ...] = ()
    skip_tags: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    check: bool = False
    diff: bool = False
    extra_vars: tuple[str, ...] = ()
    vault_password_file: Path | None = None
    vault_password: str | None = field(default=None, repr=False)
    verbosity: int = 0
    vault_ids: tuple[str, ...] = ()
    forks: int | None = None
    start_at_task: str | None = None
    flush_cache: bool = False

    def arguments(self) -> list[str]:
        """ansible-playbook's own arguments. Pure."""
        words = ["-i", str(self.inventory.absolute())]
        words += ["--limit", ",".join(self.limit)] if self.limit else []
        words += ["--tags", ",".join(self.tags)] if self.tags else []
        words += ["--skip-tags", ",".join(self.skip_tags)] if self.skip_tags else []
        words += ["--check"] if self.check else []
        words += ["--diff"] if self.diff else []
        for each in self.extra_vars:
            words += ["--extra-vars", each]
        if self.vault_password_file is not None:
            words += ["--vault-password-file", str(self.vault_password_file.absolute())]
        words += ["--ask-vault-pass"] if self.vault_password is not None else []
        for each in self.vault_ids:
            words += ["--vault-id", each]
        words += ["--forks", str(self.forks)] if self.forks is not None else []
        words += ["--start-at-task", self.start_at_task] if self.start_at_task else []
        words += ["--flush-cache"] if self.flush_cache else []
        words += [f"-{'v' * self.verbosity}"] if self.verbosity else []
        return [*words, self.playbook]


class Log:
    """What Ansible printed. A full disk costs lines of it, and never the run."""

    def __init__(self, file: RawIOBase) -> None:
        self._file = file
        self.problem: OSError | None = None

    def write(self, text: str) -> None:
        try:
            self._file.write(text.encode())
        except OSError as problem:
            if problem.errno not in DISK_TROUBLE:
                raise
            self.problem = self.problem or problem


class Run:
    """One run of a playbook. `tracker` knows how far it is."""

    def __init__(self, playbook: Playbook, log: Path) -> None:
        self._playbook, self._log = playbook, log
        self.tracker = Tracker()
        # Short, since ssh's masters have their sockets in here.
        self.folder = Path(tempfile.mkdtemp(prefix="provision-"))
        self.sockets = self.folder / "cp"
        self.sockets.mkdir(mode=0o700)
        self.exit_code: int | None = None
        self.log_problem: OSError | None = None
        """Why parts of the log are missing."""

    def follow(self, on_event: Callable[[Event], None], idle: Callable[[], None]) -> None:
        """Run it to its end. `idle` is called at least every half second; it may end processes,
        and must not wait for them. Raises AnsibleError."""
        from ansible_runner.exceptions import AnsibleRunnerException
        from ansible_runner.runner import Runner

        config = self._config()
        written = Path(config.artifact_dir) / "command"

        def on_status(status: dict[str, Any], runner_config: Any) -> None:
            del runner_config
            if status["status"] == "running":  # it has written the environment down
                written.unlink(missing_ok=True)

        def between() -> bool:
            idle()
            return False  # it is never the one to end it

        with self._log.open("ab", buffering=0) as file:
            os.fchmod(file.fileno(), 0o600)
            log = Log(file)

            def take(document: dict[str, Any]) -> bool:
                if text := document.get("stdout"):
                    log.write(f"{text}\n")
                    self.log_problem = log.problem
                event = parse_event(document)
                self.tracker.take(event)
                on_event(event)
                return False  # no file for it

            runner = Runner(
                config, event_handler=take, status_handler=on_status, cancel_callback=between
            )
            try:
                runner.run()
            except AnsibleRunnerException as problem:
                raise AnsibleError(f"ansible-runner failed: {problem}") from problem
        self.exit_code = runner.rc

    def close(self) -> None:
        """Leave nothing but the log."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _config(self) -> Any:
        from ansible_runner.config.runner import RunnerConfig

        config = RunnerConfig(
            private_data_dir=str(self.folder),
            project_dir=str(PROJECT),
            playbook=self._playbook.playbook,
            binary=str(Path(sys.executable).with_name("ansible-playbook")),
            envvars=environment(self.sockets),
            passwords=self._passwords(),
            fact_cache_type="memory",
            quiet=True,
        )
        config.prepare()
        # By hand: its own way to an argument list goes through a shell's quotes.
        config.command = [config.command[0], *self._playbook.arguments()]
        config.suppress_output_file = True
        config.pexpect_timeout = POLL_SECONDS
        return config

    def _passwords(self) -> dict[str, str] | None:
        secret = self._playbook.vault_password
        return None if secret is None else {_VAULT_PROMPT: secret}


def environment(sockets: Path) -> dict[str, str]:
    """What ansible-playbook needs beside this process's own environment."""
    programs = Path(sys.executable).parent
    return {
        # Ansible leaves out an ansible.cfg in a folder that others may write to.
        "ANSIBLE_CONFIG": str(PROJECT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(PROJECT / "plugins/callback"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def without_secrets(words: Sequence[str]) -> list[str]:
    """Arguments as they may be kept: values of extra variables may be secrets."""
    shown, hide = [], False
    for word in words:
        if hide:
            word = re.sub(r"=.*", "=…", word) if "=" in word else "…"
            hide = False
        elif word in ("-e", "--extra-vars"):
            hide = True
        elif word.startswith("--extra-vars=") or re.match(r"-e.", word):
            word = f"{word.partition('=')[0] if word.startswith('--') else '-e'}=…"
        shown.append(word)
    return shown
