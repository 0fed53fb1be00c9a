#!/usr/bin/python
"""Install, upgrade and remove Termux packages with the phone's own apt and dpkg."""

from __future__ import annotations

import os
import re
import shlex
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: termux_pkg
short_description: Manage Termux packages
description:
  - Drives the C(apt-get) and C(dpkg) below C($PREFIX) as the app's user, without root.
  - Finishes what an interrupted dpkg left, and waits for a lock that another apt holds.
  - Every archive is downloaded and read to its end before dpkg touches the phone, so that a
    corrupt index or archive leaves the installed packages as they were.
options:
  name:
    description:
      - Packages. C(name=VERSION) pins a version; a trailing C(*) makes it a prefix.
    type: list
    elements: str
    required: true
  state:
    description: V(latest) also upgrades what is installed.
    type: str
    choices: [present, latest, absent]
    default: present
  update_cache:
    description: Refresh the package index before something is looked up in it.
    type: bool
    default: false
  cache_valid_time:
    description: Age in seconds up to which the index need not be refreshed.
    type: int
    default: 0
  lock_timeout:
    description: How long to wait for another apt or dpkg, in seconds.
    type: int
    default: 120
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Install Python and the Open MPI of one series
  termux_pkg:
    name: [python, openmpi=5.0*]
    update_cache: true
    cache_valid_time: 3600
"""

RETURN = r"""
packages:
  description: Installed version of every package named, null where it is absent.
  returned: success
  type: dict
changes:
  description: What was done, or would be done in check mode, as name, before and after.
  returned: success
  type: list
  elements: dict
repaired:
  description: Packages that an interrupted dpkg had left half-way and that were finished.
  returned: success
  type: list
  elements: str
"""


DEFAULT_PREFIX = "/data/data/com.termux/files/usr"
LOCKED = re.compile(r"Could not get lock|Unable to (?:lock|acquire)|locked by another process")
UNKNOWN = re.compile(r"Unable to locate package|was not found|has no installation candidate")
PLANNED = re.compile(
    r"^(?P<verb>Inst|Remv|Purg) (?P<name>[^\s:]+)(?::\S+)?(?: \[(?P<before>[^\]]+)\])?"
    r"(?: \((?P<after>\S+) .*\[(?P<arch>[^\]]+)\]\))?"
)
REASON = re.compile(r"^(?:E:|W: Failed|dpkg: error|dpkg-deb: error|Err:|.*No space left)")
# What apt adds to every failure; the line before it says what happened.
NOISE = re.compile(r"Unable to fetch some archives|Some index files failed|Sub-process .* returned")
APT_OPTIONS = (
    "-y",
    "-q",
    "-oAcquire::Retries=3",
    "-oAcquire::http::Timeout=30",
    "-oAPT::Update::Error-Mode=any",
    "-oDpkg::Options::=--force-confdef",
    "-oDpkg::Options::=--force-confold",
)
LOCK_POLL_SECONDS = 2


class Installed(NamedTuple):
    """One line of dpkg's status database."""

    version: str
    whole: bool  # False: dpkg was interrupted at this package


class Change(NamedTuple):
    """One step of apt's plan; before or after is None where the package is absent."""

    name: str
    before: str | None
    after: str | None
    arch: str | None = None


class Spec(NamedTuple):
    """A package asked for, with an optional version or version prefix."""

    name: str
    pin: str

    @classmethod
    def parse(cls, text: str) -> Spec:
        name, _, pin = text.partition("=")
        return cls(name.strip(), pin.strip())

    def __str__(self) -> str:
        return f"{self.name}={self.pin}" if self.pin else self.name

    def met_by(self, package: Installed | None) -> bool:
        if package is None or not package.whole:
            return False
        return not self.pin or fnmatchcase(package.version, self.pin)


def parse_status(text: str) -> dict[str, Installed]:
    """Packages from dpkg-query lines of name, error flag, status, version."""
    packages = {}
    for line in text.splitlines():
        name, flag, status, version = line.split("\t")
        if status in ("not-installed", "config-files"):
            continue
        whole = flag == "ok" and status == "installed"
        packages[name] = Installed(version, whole)
    return packages


def parse_plan(text: str) -> list[Change]:
    """Steps from the output of apt-get --simulate."""
    matches = filter(None, map(PLANNED.match, text.splitlines()))
    return [Change(m["name"], m["before"], m["after"], m["arch"]) for m in matches]


def reason_of(text: str) -> str:
    """The lines of an apt or dpkg failure that say what happened, on one line."""
    lines = [line.strip() for line in text.splitlines() if REASON.match(line.strip())]
    telling = [line for line in lines if not NOISE.search(line)] or lines
    return "; ".join(dict.fromkeys(telling)) or text.strip()[-300:]


def listing(packages: dict[str, str | None]) -> str:
    return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()) if version)


class Termux:
    """The phone's apt and dpkg."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.prefix = Path(os.environ.get("PREFIX") or DEFAULT_PREFIX)
        self.refreshed = False

    def run(self, program: str, *arguments: str) -> tuple[int, str, str]:
        """Run one of the prefix's programs; wait as long as another process holds its lock."""
        deadline = time.monotonic() + self.module.params["lock_timeout"]
        argv = [str(self.prefix / "bin" / program), *arguments]
        environment = {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
        while True:
            code, out, err = self.module.run_command(argv, environ_update=environment)
            if code == 0 or not LOCKED.search(err) or time.monotonic() >= deadline:
                return code, out, err
            time.sleep(LOCK_POLL_SECONDS)

    def must_run(self, what: str, program: str, *arguments: str) -> str:
        code, out, err = self.run(program, *arguments)
        if code != 0:
            self.fail(what, out + err)
        return out

    def fail(self, what: str, output: str) -> None:
        reason = reason_of(output)
        held = LOCKED.search(output)
        cure = "end that process or wait, then rerun" if held else "remove the cause, then rerun"
        self.module.fail_json(msg=f"{what}: {reason} ({cure})", output=output[-4000:])

    def installed(self) -> dict[str, Installed]:
        fields = "${Package}\t${db:Status-Eflag}\t${db:Status-Status}\t${Version}\n"
        return parse_status(
            self.must_run("cannot read dpkg's status", "dpkg-query", "-W", "-f", fields)
        )

    def interrupted(self) -> list[str]:
        """Packages that dpkg left half-way; an unread journal counts as dpkg."""
        broken = [name for name, package in self.installed().items() if not package.whole]
        updates = self.prefix / "var/lib/dpkg/updates"
        journal = updates.is_dir() and any(entry.name.isdigit() for entry in updates.iterdir())
        return sorted(broken) or (["dpkg"] if journal else [])

    def repair(self) -> None:
        """Finish an interrupted dpkg run: configure what is unpacked, fetch again what is half."""
        what = "an interrupted dpkg could not be repaired"
        self.run("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
        if half := self.interrupted():
            self.refresh()
            again = ["--fix-broken", "--reinstall", "install", *half]
            self.must_run(what, "apt-get", *APT_OPTIONS, *again)
        if half := self.interrupted():
            self.fail(what, f"E: still half-way: {' '.join(half)}")

    def directories(self) -> tuple[Path, Path]:
        """Folders of the package index and of the downloaded archives."""
        text = self.must_run(
            "cannot read apt's configuration",
            "apt-config",
            *("shell", "LISTS", "Dir::State::lists/d", "ARCHIVES", "Dir::Cache::archives/d"),
        )
        values = dict(item.split("=", 1) for item in shlex.split(text))
        return Path(values["LISTS"]), Path(values["ARCHIVES"])

    def index_is_fresh(self) -> bool:
        stamp = self.directories()[0] / "phonerack-refreshed"
        try:
            age = time.time() - stamp.stat().st_mtime
        except FileNotFoundError:
            return False
        # A phone whose clock was reset has a stamp from the future: that is not fresh.
        return 0 <= age < self.module.params["cache_valid_time"]

    def refresh(self) -> None:
        if self.refreshed:
            return
        what = "the package index could not be refreshed, the one from before is kept"
        self.must_run(what, "apt-get", *APT_OPTIONS, "update")
        (self.directories()[0] / "phonerack-refreshed").touch()
        self.refreshed = True

    def plan(self, action: list[str]) -> list[Change]:
        """What apt would do; the index is refreshed when it does not know a package."""
        code, out, err = self.run("apt-get", *APT_OPTIONS, "--simulate", *action)
        may_refresh = not (self.refreshed or self.module.check_mode)
        if code != 0 and UNKNOWN.search(err) and may_refresh:
            self.refresh()
            code, out, err = self.run("apt-get", *APT_OPTIONS, "--simulate", *action)
        if code != 0:
            if self.module.check_mode and UNKNOWN.search(err):
                # The index may be stale and check mode must not refresh it: say what is wanted.
                specs = [Spec.parse(text) for text in self.module.params["name"]]
                return [Change(spec.name, None, spec.pin or "newest") for spec in specs]
            self.fail("nothing was installed", out + err)
        return parse_plan(out)

    def apply(self, action: list[str], changes: list[Change]) -> None:
        self.must_run("nothing was installed", "apt-get", *APT_OPTIONS, "--download-only", *action)
        self.verify_archives(changes)
        self.must_run(
            "packages are left half-way, a rerun completes them", "apt-get", *APT_OPTIONS, *action
        )
        self.run("apt-get", "clean")  # torch's archive alone takes as much room as a run

    def verify_archives(self, changes: list[Change]) -> None:
        """Read every downloaded archive to its end; delete a bad one, so a rerun fetches it."""
        archives = self.directories()[1]
        for change in changes:
            if change.after is None:
                continue
            version = change.after.replace(":", "%3a")
            archive = archives / f"{change.name}_{version}_{change.arch}.deb"
            if not archive.exists():  # a file: repository is used in place
                continue
            code, out, err = self.run("dpkg-deb", "--contents", str(archive))
            if code != 0:
                archive.unlink()
                self.fail(f"nothing was installed, {archive.name} is corrupt", out + err)


def action_for(state: str, specs: list[Spec], installed: dict[str, Installed]) -> list[str]:
    """The apt-get command that is needed, or nothing."""
    if state == "absent":
        present = [spec.name for spec in specs if spec.name in installed]
        return ["remove", *present] if present else []
    if state == "latest":
        wanted = specs
    else:
        wanted = [spec for spec in specs if not spec.met_by(installed.get(spec.name))]
    # A pin is an order, so it may lead back to an older version.
    downgrade = ["--allow-downgrades"] if any(spec.pin for spec in wanted) else []
    return ["install", *downgrade, *map(str, wanted)] if wanted else []


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Bring the phone to the state asked for and describe the difference."""
    termux = Termux(module)
    specs = [Spec.parse(text) for text in module.params["name"]]
    state = module.params["state"]

    repaired = termux.interrupted()
    if repaired and not module.check_mode:
        termux.repair()
    installed = termux.installed()
    before = {name: package.version for name, package in installed.items()}

    action = action_for(state, specs, installed)
    changes: list[Change] = []
    if action:
        stale = module.params["update_cache"] and state != "absent" and not termux.index_is_fresh()
        if stale and not module.check_mode:
            termux.refresh()
        # An interrupted dpkg makes apt refuse to plan.
        changes = termux.plan(action) if not (repaired and module.check_mode) else []
    if changes and not module.check_mode:
        termux.apply(action, changes)
        installed = termux.installed()
        unmet = [str(spec) for spec in specs if not spec.met_by(installed.get(spec.name))]
        if unmet and state != "absent":
            module.fail_json(msg=f"apt-get succeeded, but these are not installed: {unmet}")

    touched = {change.name: change.before for change in changes}
    after = {change.name: change.after for change in changes}
    versions = {name: package.version for name, package in installed.items()}
    return {
        "changed": bool(changes or repaired),
        "packages": {spec.name: versions.get(spec.name) for spec in specs},
        "changes": [change._asdict() for change in changes],
        "repaired": repaired,
        "diff": {
            "before_header": "packages",
            "after_header": "packages",
            "before": listing({name: before.get(name, old) for name, old in touched.items()}),
            "after": listing(after),
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["present", "latest", "absent"], "default": "present"},
            "update_cache": {"type": "bool", "default": False},
            "cache_valid_time": {"type": "int", "default": 0},
            "lock_timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    module.exit_json(**ensure(module))


if __name__ == "__main__":
    main()
