#!/usr/bin/python
"""Switch Termux services (runit) on and off."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: termux_service
short_description: Manage Termux services
description:
  - Drives runit below C($PREFIX/var/service) as C(termux-services) sets it up.
  - Uses full paths, since an ssh session has no SVDIR, and starts the supervisor when none runs.
options:
  name:
    description: Folder of the service below C($PREFIX/var/service).
    type: str
    required: true
  enabled:
    description: Whether the service comes up with the supervisor, that is, has no C(down) file.
    type: bool
  state:
    description:
      - V(restarted) and V(reloaded) act every time, unless O(config) is given.
      - Both start a service that is down. V(reloaded) sends HUP.
    type: str
    choices: [started, stopped, restarted, reloaded]
  config:
    description:
      - Files that the service reads when it starts. With these, V(restarted) and V(reloaded) act
        only when one of them has changed since they acted last, so that no handler is needed and
        a run that was cut off between writing and reloading is completed by the next one.
    type: list
    elements: path
    default: []
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Serve ssh now and after every start of Termux
  termux_service:
    name: sshd
    enabled: true
    state: reloaded
    config: ["{{ termux_prefix }}/etc/ssh/sshd_config.d/phonerack.conf"]
"""

RETURN = r"""
status:
  description: The service afterwards, V(run), V(down), V(failing) or V(unsupervised).
  returned: success
  type: str
"""


DEFAULT_PREFIX = "/data/data/com.termux/files/usr"
# runsvdir looks for new services every 5 seconds.
SUPERVISED_WITHIN_SECONDS = 20
SV_WAIT_SECONDS = 20
UNSUPERVISED = "unsupervised"


class Service:
    """One service folder and the programs that look after it."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.prefix = Path(os.environ.get("PREFIX") or DEFAULT_PREFIX)
        self.name: str = module.params["name"]
        self.services = self.prefix / "var/service"
        self.path = self.services / self.name
        self.down_file = self.path / "down"

    def sv(self, *arguments: str) -> tuple[int, str]:
        argv = [str(self.prefix / "bin/sv"), *arguments, str(self.path)]
        code, out, err = self.module.run_command(argv)
        return code, (out + err).strip()

    def must_sv(self, what: str, *arguments: str) -> None:
        code, said = self.sv("-w", str(SV_WAIT_SECONDS), *arguments)
        if code != 0:
            log = self.prefix / "var/log/sv" / self.name / "current"
            self.module.fail_json(
                msg=f"service {self.name} could not be {what}: {said} (see {log} on the phone)"
            )

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
        _, said = self.sv("status")
        word = said.split(":", 1)[0]
        if word not in ("run", "down", "finish"):
            return UNSUPERVISED
        if word == "run":
            return "run"
        return "failing" if "want up" in said else "down"

    def supervisor_runs(self) -> bool:
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

    def supervise(self) -> None:
        """Have the service supervised: start runsvdir if need be and wait until it has seen it."""
        if not self.supervisor_runs():
            daemon = str(self.prefix / "bin/service-daemon")
            code, out, err = self.module.run_command([daemon, "start"])
            if code != 0:
                said = (out + err).strip()
                self.module.fail_json(msg=f"the service supervisor does not start: {said}")
        deadline = time.monotonic() + SUPERVISED_WITHIN_SECONDS
        while self.status() == UNSUPERVISED:
            if time.monotonic() >= deadline:
                self.module.fail_json(
                    msg=f"runsvdir does not take up {self.path} (is its file `run` executable?)"
                )
            time.sleep(0.2)

    def bring_to(self, state: str, status: str) -> None:
        if status == UNSUPERVISED:
            self.supervise()
        if state == "stopped":
            self.must_sv("stopped", "down")
        elif status != "run" or state == "started":
            self.must_sv("started", "up")
        elif state == "restarted":
            self.must_sv("restarted", "restart")
        else:
            self.must_sv("reloaded", "hup")


class Reading:
    """What the service has read of its configuration, kept as checksums in its folder.

    Not compared by time: the clock of a phone may jump.
    """

    def __init__(self, service: Path, files: list[str]) -> None:
        self.record = service / "phonerack-read.json"
        self.wanted = {file: checksum(Path(file)) for file in files}

    def present(self) -> dict[str, str | None]:
        try:
            return json.loads(self.record.read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def is_stale(self) -> bool:
        present = self.present()
        return any(present.get(file) != digest for file, digest in self.wanted.items())

    def remember(self) -> None:
        temporary = self.record.with_suffix(".new")
        temporary.write_text(json.dumps(self.present() | self.wanted))
        temporary.replace(self.record)


def checksum(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.exists() else None


def needs_action(state: str | None, status: str, stale: bool) -> bool:
    """Whether a service in this status has to be touched to be in this state."""
    if state is None:
        return False
    if state in ("restarted", "reloaded"):
        return stale or status != "run"
    if state == "started":
        return status != "run"
    return status in ("run", "failing")


def describe(enabled: bool, status: str) -> str:
    return f"enabled: {str(enabled).lower()}\nstatus: {status}\n"


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Bring the service to the state asked for and describe the difference."""
    service = Service(module)
    enabled, state = module.params["enabled"], module.params["state"]
    if not service.path.is_dir():
        if module.check_mode:  # its package may be about to come
            return {"changed": True, "status": UNSUPERVISED}
        module.fail_json(
            msg=f"no service {service.name}: {service.path} is missing (install its package)"
        )

    was_enabled, status = service.enabled, service.status()
    files = module.params["config"]
    reading = Reading(service.path, files)
    switch = enabled is not None and enabled != was_enabled
    act = needs_action(state, status, stale=not files or reading.is_stale())
    wanted = {"stopped": "down"}.get(state, "run") if act else status
    if not module.check_mode:
        if switch:
            service.enable(enabled)
        if act:
            service.bring_to(state, status)
            if files:
                reading.remember()
    return {
        "changed": switch or act,
        "status": wanted,
        "diff": {
            "before": describe(was_enabled, status),
            "after": describe(enabled if switch else was_enabled, wanted),
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "enabled": {"type": "bool"},
            "state": {"choices": ["started", "stopped", "restarted", "reloaded"]},
            "config": {"type": "list", "elements": "path", "default": []},
        },
        required_one_of=[["enabled", "state"]],
        supports_check_mode=True,
    )
    module.exit_json(**ensure(module))


if __name__ == "__main__":
    main()
