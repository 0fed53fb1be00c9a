#!/usr/bin/python
"""Switch Termux services (runit) on and off."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.termux_runit import UNSUPERVISED, VERBS, Problem, Runit, Service

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
          - Both start a service that is down. V(reloaded) sends HUP; sshd then starts its own
            program anew and keeps its sessions.
          - With O(services[].config) or O(services[].only_if_outdated) both also act when a package
            has replaced the program that runs, or a library of it; so an upgrade needs no handler.
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
      only_if_outdated:
        description:
          - V(restarted) and V(reloaded) act only on a service that runs and whose program, library
            or O(services[].config) has been replaced. One that is down or not there is left alone.
        type: bool
        default: false
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


# runsv starts what ended within a second once a second.
STEADY_SECONDS = 1.2


class Wanted(NamedTuple):
    """What one service shall be; None where nothing is asked."""

    name: str
    enabled: bool | None
    state: str | None
    config: tuple[str, ...]
    only_if_outdated: bool

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
            only_if_outdated=self.only_if_outdated and other.only_if_outdated,
        )


def merge(items: list[dict[str, Any]]) -> list[Wanted]:
    """One wish a service, in the order in which they were first named."""
    merged: dict[str, Wanted] = {}
    for item in items:
        one = Wanted(**{**item, "config": tuple(item["config"])})
        merged[one.name] = merged[one.name].plus(one) if one.name in merged else one
    return list(merged.values())


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
        if wanted.only_if_outdated:
            return Outcome(wanted.name, False, UNSUPERVISED, "", "")
        if check:  # its package may be about to come
            after = describe(wanted.name, bool(wanted.enabled), wanted.state or "absent")
            return Outcome(wanted.name, True, UNSUPERVISED, f"{wanted.name}: absent\n", after)
        raise Problem(f"no service {wanted.name}: {service.path} is missing (install its package)")

    enabled, status = service.enabled, service.status()
    reading = Reading(service.path, wanted.config)
    switch = wanted.enabled is not None and wanted.enabled != enabled
    outdated = status == "run" and service.runs_replaced_code()
    stale = outdated or reading.is_stale() or not (wanted.config or wanted.only_if_outdated)
    act = needs_action(wanted.state, status, stale) and (stale or not wanted.only_if_outdated)
    reached = ("down" if wanted.state == "stopped" else "run") if act else status
    note = f" ({wanted.state})" if act and reached == status else ""
    if not check:
        if switch:
            service.enable(bool(wanted.enabled))
        if act:
            service.bring_to(str(wanted.state), status, STEADY_SECONDS)
            if outdated and wanted.state == "reloaded":
                service.renew(STEADY_SECONDS)
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
                    "only_if_outdated": {"type": "bool", "default": False},
                },
                "required_one_of": [["enabled", "state"]],
            }
        },
        supports_check_mode=True,
    )
    module.exit_json(**ensure_all(module))


if __name__ == "__main__":
    main()
