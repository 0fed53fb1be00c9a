#!/usr/bin/python
"""Switch Termux services (runit) on and off."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: termux_service
short_description: Manage Termux services
description:
  - Drives runit below C($PREFIX/var/service) as C(termux-services) sets it up, all services of a
    phone in one call.
  - Uses full paths, since an ssh session has no SVDIR, and starts the supervisor when none runs.
  - A service that fails does not keep the others from what they need; all that failed are named.
options:
  services:
    description:
      - What the services shall be, acted on in this order.
      - A service may be named several times, as by several roles. Its O(services[].config) then
        adds up, and what it shall be must not contradict.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Folder of the service below C($PREFIX/var/service); C(NAME/log) is its logger.
        type: str
        required: true
      enabled:
        description: Whether it comes up with the supervisor, that is, has no C(down) file.
        type: bool
      state:
        description:
          - V(restarted) and V(reloaded) act every time, unless O(services[].config) is given.
          - Both start a service that is down. V(reloaded) sends HUP.
        type: str
        choices: [started, stopped, restarted, reloaded]
      config:
        description:
          - Files that the service reads when it starts. With these, V(restarted) and V(reloaded)
            act only when one of them is not the very file (place on the disk, times, content) that
            was there when they acted last. So no handler is needed, a run that was cut off between
            writing and reloading is completed by the next one, and a clock that jumps is no matter,
            since times are compared for equality only.
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
    services:
      - name: sshd
        enabled: true
        state: reloaded
        config: ["{{ termux_prefix }}/etc/ssh/sshd_config.d/phonerack.conf"]
"""

RETURN = r"""
services:
  description:
    - By name, the status afterwards (V(run), V(down), V(failing) or V(unsupervised)) and whether
      something was done.
  returned: success
  type: dict
"""


DEFAULT_PREFIX = "/data/data/com.termux/files/usr"
# runsvdir looks for new services every 5 seconds.
SUPERVISED_WITHIN_SECONDS = 20
SV_WAIT_SECONDS = 20
# runsv starts what ended within a second once a second.
STEADY_SECONDS = 1.2
STEADY_WITHIN_SECONDS = 15.0
PROCESS = re.compile(r"run: .*?: \(pid (\d+)\)")
UNSUPERVISED = "unsupervised"
VERBS = {"started": "up", "stopped": "down", "restarted": "restart", "reloaded": "hup"}


class Problem(Exception):
    """Why one service is not what it shall be."""


class Wanted(NamedTuple):
    """What one service shall be; None where nothing is asked."""

    name: str
    enabled: bool | None
    state: str | None
    config: tuple[str, ...]

    def plus(self, other: Wanted) -> Wanted:
        """Both wishes for one service. Raises Problem if they contradict."""
        for field in ("enabled", "state"):
            mine, theirs = getattr(self, field), getattr(other, field)
            if None not in (mine, theirs) and mine != theirs:
                raise Problem(f"{self.name}: {field} shall be {mine} and {theirs}")
        return self._replace(
            enabled=other.enabled if self.enabled is None else self.enabled,
            state=other.state if self.state is None else self.state,
            config=tuple(dict.fromkeys(self.config + other.config)),
        )


def merge(items: list[dict[str, Any]]) -> list[Wanted]:
    """One wish a service, in the order in which they were first named."""
    merged: dict[str, Wanted] = {}
    for item in items:
        one = Wanted(item["name"], item["enabled"], item["state"], tuple(item["config"]))
        merged[one.name] = merged[one.name].plus(one) if one.name in merged else one
    return list(merged.values())


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

    def bring_to(self, state: str, status: str) -> None:
        """Raises Problem if it does not get there, or does not stay."""
        if status == UNSUPERVISED:
            self.supervise()
        # What has just come up, or is not up, has read nothing old.
        verb = VERBS[state] if state == "stopped" or status == "run" else "up"
        code, said = self.runit.sv("-w", str(SV_WAIT_SECONDS), verb, str(self.path))
        if code != 0:
            raise Problem(f"service {self.name} could not be {state}: {said} ({self.last_words()})")
        if state != "stopped" and not self.stays():
            raise Problem(f"service {self.name} ends as soon as it starts: {self.last_words()}")

    def stays(self) -> bool:
        """Whether one and the same process is there for a while; sv is content with any."""
        deadline = time.monotonic() + STEADY_WITHIN_SECONDS
        process, since = None, 0.0
        while (asked := time.monotonic()) < deadline:
            found = PROCESS.match(self.runit.sv("status", str(self.path))[1])
            present = found[1] if found else None
            if present is None or present != process:
                # Seen only now: a busy phone may take a second to answer.
                process, since = present, time.monotonic()
            elif asked - since >= STEADY_SECONDS:
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


class Reading:
    """What the service has read of its configuration, kept beside it.

    A file is known by its place on the disk, its times, its size and its content. An equal text
    that was put there anew counts as changed: what stood there between is not known.
    """

    def __init__(self, service: Path, files: tuple[str, ...]) -> None:
        self.record = service / "phonerack-applied.json"
        self.known = self._read()
        self.now = {file: self._mark(file) for file in files}

    def _read(self) -> dict[str, dict[str, Any] | None]:
        try:
            known = json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def _mark(self, file: str) -> dict[str, Any] | None:
        path = Path(file)
        try:
            status = path.stat()
            mark = {"inode": status.st_ino, "time": status.st_mtime_ns, "size": status.st_size}
            return mark | {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        except FileNotFoundError:
            return None

    def is_stale(self) -> bool:
        return any(file not in self.known or self.known[file] != m for file, m in self.now.items())

    def remember(self) -> None:
        temporary = self.record.with_suffix(".new")
        temporary.write_text(json.dumps(self.known | self.now))
        temporary.replace(self.record)


def needs_action(state: str | None, status: str, stale: bool) -> bool:
    """Whether a service in this status has to be touched to be in this state."""
    if state is None:
        return False
    if state in ("restarted", "reloaded"):
        return stale or status != "run"
    if state == "started":
        return status != "run"
    return status in ("run", "failing")


class Outcome(NamedTuple):
    """One service before and after."""

    name: str
    changed: bool
    status: str
    before: str
    after: str


def describe(name: str, enabled: bool, status: str, note: str = "") -> str:
    return f"{name}: {'enabled' if enabled else 'disabled'}, {status}{note}\n"


def ensure(runit: Runit, wanted: Wanted) -> Outcome:
    """Bring one service to what is wanted. Raises Problem."""
    check = runit.module.check_mode
    service = Service(runit, wanted.name)
    if not service.path.is_dir():
        if check:  # its package may be about to come
            after = describe(wanted.name, bool(wanted.enabled), wanted.state or "absent")
            return Outcome(wanted.name, True, UNSUPERVISED, f"{wanted.name}: absent\n", after)
        raise Problem(f"no service {wanted.name}: {service.path} is missing (install its package)")

    enabled, status = service.enabled, service.status()
    reading = Reading(service.path, wanted.config)
    switch = wanted.enabled is not None and wanted.enabled != enabled
    act = needs_action(wanted.state, status, stale=not wanted.config or reading.is_stale())
    reached = ("down" if wanted.state == "stopped" else "run") if act else status
    note = f" ({wanted.state})" if act and reached == status else ""
    if not check:
        if switch:
            service.enable(bool(wanted.enabled))
        if act:
            service.bring_to(str(wanted.state), status)
        if wanted.config and act:
            reading.remember()
    return Outcome(
        wanted.name,
        switch or act,
        reached,
        describe(wanted.name, enabled, status),
        describe(wanted.name, enabled != switch, reached, note),
    )


def ensure_all(module: AnsibleModule) -> dict[str, Any]:
    """Every service in turn; fails at the end with all that did not get there."""
    runit = Runit(module)
    outcomes, problems = [], []
    try:
        wanted = merge(module.params["services"])
    except Problem as problem:
        module.fail_json(msg=f"nothing was done: {problem}")
    for one in wanted:
        try:
            outcomes.append(ensure(runit, one))
        except Problem as problem:
            problems.append(str(problem))
        except OSError as problem:
            problems.append(f"service {one.name}: {problem.filename}: {problem.strerror}")
    changed = [outcome for outcome in outcomes if outcome.changed]
    result = {
        "changed": bool(changed),
        "services": {
            outcome.name: {"status": outcome.status, "changed": outcome.changed}
            for outcome in outcomes
        },
        "diff": {
            "before": "".join(outcome.before for outcome in changed),
            "after": "".join(outcome.after for outcome in changed),
        },
    }
    if problems:
        module.fail_json(msg="; ".join(problems), **result)
    return result


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "services": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "enabled": {"type": "bool"},
                    "state": {"choices": list(VERBS)},
                    "config": {"type": "list", "elements": "path", "default": []},
                },
                "required_one_of": [["enabled", "state"]],
            }
        },
        supports_check_mode=True,
    )
    module.exit_json(**ensure_all(module))


if __name__ == "__main__":
    main()
