"""A phone's services under runit: what they are, and how they are brought to what they shall be."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

DEFAULT_PREFIX = "/data/data/com.termux/files/usr"
# runsvdir looks for new services every 5 seconds.
SUPERVISED_WITHIN_SECONDS = 20
SV_WAIT_SECONDS = 20
STEADY_WITHIN_SECONDS = 15.0
PROCESS = re.compile(r"run: .*?: \(pid (\d+)\)")
RENEWED_WITHIN_SECONDS = 5.0
GONE = " (deleted)"
UNSUPERVISED = "unsupervised"
VERBS = {"started": "up", "stopped": "down", "restarted": "restart", "reloaded": "hup"}


class Problem(Exception):
    """Why one service is not what it shall be."""


class Runit:
    """The phone's supervisor."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.prefix = Path(os.environ.get("PREFIX") or DEFAULT_PREFIX)
        self.services = self.prefix / "var/service"

    def sv(self, *arguments: str) -> tuple[int, str]:
        code, out, err = self.module.run_command([str(self.prefix / "bin/sv"), *arguments])
        return code, (out + err).strip()

    def runs(self) -> bool:
        """Whether a runsvdir of ours looks after the service folder."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:  # another app's process, or one that just ended
                continue
            runs = any(Path(argument).name == "runsvdir" for argument in arguments[:2])
            if runs and str(self.services) in arguments:
                return True
        return False

    def start(self) -> None:
        if self.runs():
            return
        daemon = str(self.prefix / "bin/service-daemon")
        code, out, err = self.module.run_command([daemon, "start"])
        if code != 0:
            raise Problem(f"the service supervisor does not start: {(out + err).strip()}")


class Service:
    """One service folder and what runit says about it."""

    def __init__(self, runit: Runit, name: str) -> None:
        self.runit = runit
        self.name = name
        self.path = runit.services / name
        self.down_file = self.path / "down"

    @property
    def enabled(self) -> bool:
        return not self.down_file.exists()

    def enable(self, wanted: bool) -> None:
        if wanted:
            self.down_file.unlink(missing_ok=True)
        else:
            self.down_file.touch()

    def status(self) -> str:
        """run, down, failing (down, but runit starts it again and again), or unsupervised."""
        _, said = self.runit.sv("status", str(self.path))
        word = said.split(":", 1)[0]
        if word not in ("run", "down", "finish"):
            return UNSUPERVISED
        if word == "run":
            return "run"
        return "failing" if word == "finish" or "want up" in said else "down"

    def supervise(self) -> None:
        """Have the service supervised: start runsvdir if need be and wait until it has seen it."""
        self.runit.start()
        deadline = time.monotonic() + SUPERVISED_WITHIN_SECONDS
        while self.status() == UNSUPERVISED:
            if time.monotonic() >= deadline:
                raise Problem(
                    f"runsvdir does not take up {self.path} (is its file `run` executable?)"
                )
            time.sleep(0.2)

    def process(self) -> int | None:
        """The one that runsv has started, while it is up."""
        found = PROCESS.match(self.runit.sv("status", str(self.path))[1])
        return int(found[1]) if found else None

    def runs_replaced_code(self) -> bool:
        """Whether a package has since replaced the program that runs, or a library of it.

        dpkg puts the new file in the place of the old one, which then has no name any more. No
        clock is asked. A process that Android does not let us look into has replaced nothing.
        """
        prefixes = (f"{self.runit.prefix}/", f"{self.runit.prefix.resolve()}/")
        try:
            maps = Path(f"/proc/{self.process()}/maps").read_text(errors="replace")
        except OSError:
            return False
        return any(
            "x" in words[1] and words[5].startswith(prefixes) and words[5].endswith(GONE)
            for line in maps.splitlines()
            if len(words := line.split(maxsplit=5)) == 6
        )

    def renew(self, steady_seconds: float) -> None:
        """After a reload: what does not start itself anew on HUP, as sshd does, is restarted.

        Raises Problem.
        """
        deadline = time.monotonic() + RENEWED_WITHIN_SECONDS
        while self.runs_replaced_code():
            if time.monotonic() >= deadline:
                self.bring_to("restarted", "run", steady_seconds)
                return
            time.sleep(0.1)

    def bring_to(self, state: str, status: str, steady_seconds: float) -> None:
        """Raises Problem if it does not get there, or does not stay."""
        if status == UNSUPERVISED:
            self.supervise()
        # What has just come up, or is not up, has read nothing old.
        verb = VERBS[state] if state == "stopped" or status == "run" else "up"
        code, said = self.runit.sv("-w", str(SV_WAIT_SECONDS), verb, str(self.path))
        if code != 0:
            raise Problem(f"service {self.name} could not be {state}: {said} ({self.last_words()})")
        if state != "stopped" and not self.stays(steady_seconds):
            raise Problem(f"service {self.name} ends as soon as it starts: {self.last_words()}")

    def stays(self, steady_seconds: float) -> bool:
        """Whether one and the same process is there for a while; sv is content with any."""
        deadline = time.monotonic() + STEADY_WITHIN_SECONDS
        process, since = None, 0.0
        while (asked := time.monotonic()) < deadline:
            present = self.process()
            if present is None or present != process:
                # Seen only now: a busy phone may take a second to answer.
                process, since = present, time.monotonic()
            elif asked - since >= steady_seconds:
                return True
            time.sleep(0.1)
        return False

    def last_words(self) -> str:
        """The end of the service's log, and where it lies."""
        log = self.runit.prefix / "var/log/sv" / self.name.removesuffix("/log") / "current"
        try:
            lines = log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return f"{log} on the phone" + (f" says: {lines[-1]}" if lines else "")
