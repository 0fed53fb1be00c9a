#!/usr/bin/python
"""Install, upgrade and remove Termux packages with the phone's own apt and dpkg."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.package_spec import Spec
from ansible.module_utils.termux_apt import (
    UNKNOWN,
    AptError,
    Change,
    Installed,
    Termux,
    parse_plan,
)

DOCUMENTATION = r"""
module: termux_pkg
short_description: Manage Termux packages
description:
  - Drives the C(apt-get) and C(dpkg) below C($PREFIX) as the app's user, without root.
  - Finishes what an interrupted dpkg left, and waits for a lock that another apt holds.
  - Every archive is downloaded and read to its end, and the free space looked at, before dpkg
    touches the phone, so that a corrupt index or archive, a mirror that goes away, or a full phone
    leaves the installed packages as they were.
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
  snapshot:
    description:
      - The snapshot of the rack's mirror that the phone shall stand on. A phone that stands on
        another, as $PREFIX/etc/phonerack/snapshot says, is brought to it as a whole, up or down,
        so that versions are never mixed.
    type: dict
    suboptions:
      name:
        description: Its name.
        type: str
        required: true
      source:
        description: The line of apt's sources.list that leads there.
        type: str
        required: true
      packages:
        description:
          - What phones have on it, as name, version, architecture. With it, check mode tells every
            change, what was done is held against it, and a phone that differs is brought back.
        type: list
        elements: list
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
snapshot:
  description: The snapshots before and after; null where none is recorded.
  returned: success
  type: dict
repaired:
  description: Packages that an interrupted dpkg had left half-way and that were finished.
  returned: success
  type: list
  elements: str
"""

ORIGIN = "phonerack"


def is_met(spec: Spec, package: Installed | None) -> bool:
    return package is not None and package.whole and spec.admits(package.version)


def listing(packages: dict[str, str | None]) -> str:
    return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()) if version)


def preferences(pinned: dict[str, str]) -> str:
    """apt's pins: the snapshot's versions at any price, of pinned packages exactly these."""
    pins = [("*", f"release o={ORIGIN}", 1001)]
    pins += [(name, f"version {version}", 1002) for name, version in pinned.items()]
    return "".join(
        f"Package: {name}\nPin: {pin}\nPin-Priority: {priority}\n\n" for name, pin, priority in pins
    )


def action_for(state: str, specs: list[Spec], installed: dict[str, Installed]) -> list[str]:
    """The apt-get command that is needed, or nothing."""
    if state == "absent":
        present = [spec.name for spec in specs if spec.name in installed]
        return ["remove", *present] if present else []
    if state == "latest":
        wanted = specs
    else:
        wanted = [spec for spec in specs if not is_met(spec, installed.get(spec.name))]
    # A pin is an order, so it may lead back to an older version.
    downgrade = ["--allow-downgrades"] if any(spec.pin for spec in wanted) else []
    return ["install", *downgrade, *map(str, wanted)] if wanted else []


class Standing:
    """The snapshot that the phone stands on, and the one that it shall stand on."""

    def __init__(self, termux: Termux, wanted: dict[str, Any] | None) -> None:
        self.record = termux.prefix / "etc/phonerack/snapshot"
        self.sources = termux.prefix / "etc/apt/sources.list"
        self.before = self.record.read_text().strip() if self.record.is_file() else None
        self.after: str | None = wanted["name"] if wanted else self.before
        self.source = f"{wanted['source']}\n" if wanted else None
        rows = (wanted or {}).get("packages") or []
        self.versions: dict[str, set[str]] = {}
        for name, version, _ in rows:
            self.versions.setdefault(name, set()).add(version)

    @property
    def has_other_sources(self) -> bool:
        if self.source is None:
            return False
        return not self.sources.is_file() or self.sources.read_text() != self.source

    def drift(self, installed: dict[str, Installed]) -> list[Change]:
        """Packages whose version is not the snapshot's, as far as its contents were given."""
        found = []
        for name, package in sorted(installed.items()):
            wanted = self.versions.get(name)
            if wanted and package.version not in wanted:
                found.append(Change(name, package.version, min(wanted)))
        return found

    def write_sources(self) -> None:
        write(self.sources, self.source or "")

    def write_record(self) -> None:
        if self.after is not None and (self.after != self.before or not self.record.is_file()):
            write(self.record, f"{self.after}\n")

    def unrecord(self) -> None:
        """From here on the phone stands between two snapshots."""
        self.record.unlink(missing_ok=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(text)
    part.replace(path)


class Ensure:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.check = module.check_mode
        self.termux = Termux(module)
        self.specs = [Spec.parse(text) for text in module.params["name"]]
        self.standing = Standing(self.termux, module.params["snapshot"])
        self.changes: list[Change] = []

    def run(self) -> dict[str, Any]:
        termux, standing = self.termux, self.standing
        moves = standing.after != standing.before or standing.has_other_sources
        if moves and not self.check:
            # Before any repair: only the new snapshot is sure to be served still.
            standing.write_sources()
        repaired = termux.interrupted()
        if repaired and not self.check:
            termux.repair()
        before = termux.installed()
        if moves or standing.drift(before):
            self.move(before)
        else:
            self.install(before, bool(repaired))
        after = before if self.check else termux.installed()
        return self.result(before, after, repaired, moves)

    def move(self, before: dict[str, Installed]) -> None:
        """Bring the whole phone to the snapshot's versions."""
        termux, standing = self.termux, self.standing
        if self.check:
            drift = standing.drift(before)
            known = {change.name for change in drift}
            self.changes = drift + [c for c in self.foreseen(before) if c.name not in known]
            return
        termux.refresh()
        with tempfile.TemporaryDirectory(dir=self.module.tmpdir) as folder:
            pins = Path(folder) / "preferences"
            pins.write_text(preferences(self.pinned()))
            termux.options = [f"-oDir::Etc::Preferences={pins}"]
            # Names only: a pattern would also fit what is installed and the snapshot has not.
            action = ["dist-upgrade", "--allow-downgrades", *(spec.name for spec in self.specs)]
            self.changes = self.plan(action)
            if self.changes:
                standing.unrecord()
                termux.apply(action, self.changes)
                if left := self.plan(action):
                    names = " ".join(change.name for change in left)
                    raise AptError(f"apt-get succeeded, but did not bring {names} to the snapshot")
            termux.options = []
        if odd := standing.drift(termux.installed()):
            said = ", ".join(f"{c.name} is {c.before}, not {c.after}" for c in odd)
            raise AptError(
                f"not what snapshot {standing.after} holds: {said} (rerun; if it stays so, the "
                "mirror is at fault: run site.yml -t controller)"
            )
        standing.write_record()

    def pinned(self) -> dict[str, str]:
        """Of each pinned package the newest version that the snapshot has and the pin allows."""
        found = {}
        for spec in self.specs:
            if spec.pin:
                offers = self.termux.offered(spec.name)
                fits = [version for version in offers if spec.admits(version)]
                if not fits:
                    there = ", ".join(offers) or "none"
                    raise AptError(f"snapshot {self.standing.after} has no {spec} (it has {there})")
                found[spec.name] = fits[0]
        return found

    def install(self, before: dict[str, Installed], was_repaired: bool) -> None:
        """Bring the packages named to their state and leave all others."""
        termux, options = self.termux, self.module.params
        action = action_for(options["state"], self.specs, before)
        if not action:
            return
        stale = options["update_cache"] and options["state"] != "absent"
        if stale and not self.check and not termux.index_is_fresh(options["cache_valid_time"]):
            termux.refresh()
        # An interrupted dpkg makes apt refuse to plan.
        self.changes = [] if was_repaired and self.check else self.plan(action)
        if self.changes and not self.check:
            termux.apply(action, self.changes)
            after = termux.installed()
            unmet = [str(spec) for spec in self.specs if not is_met(spec, after.get(spec.name))]
            if unmet and options["state"] != "absent":
                raise AptError(f"apt-get succeeded, but these are not installed: {unmet}")

    def plan(self, action: list[str]) -> list[Change]:
        code, out, err = self.termux.simulate(action)
        if code and self.check and UNKNOWN.search(err):
            # The index may be stale and check mode must not refresh it: say what is wanted.
            return self.foreseen({})
        return parse_plan(self.termux.must("nothing was installed", (code, out, err)))

    def foreseen(self, installed: dict[str, Installed]) -> list[Change]:
        """What is wanted and not there, as far as it can be told without an index."""
        found = []
        for spec in self.specs:
            package = installed.get(spec.name)
            if not is_met(spec, package):
                known = min(self.standing.versions.get(spec.name, {spec.pin or "newest"}))
                found.append(Change(spec.name, package.version if package else None, known))
        return found

    def result(
        self,
        before: dict[str, Installed],
        after: dict[str, Installed],
        repaired: list[str],
        moves: bool,
    ) -> dict[str, Any]:
        standing = self.standing
        old = {c.name: before[c.name].version if c.name in before else None for c in self.changes}
        new = {change.name: change.after for change in self.changes}
        if moves:
            old["snapshot"], new["snapshot"] = standing.before, standing.after
        return {
            "changed": bool(self.changes or repaired or moves),
            "packages": {
                spec.name: after[spec.name].version if spec.name in after else None
                for spec in self.specs
            },
            "changes": [change._asdict() for change in self.changes],
            "snapshot": {"before": standing.before, "after": standing.after},
            "repaired": repaired,
            "diff": {
                "before_header": "packages",
                "after_header": "packages",
                "before": listing(old),
                "after": listing(new),
            },
        }


def main() -> None:
    snapshot = {
        "name": {"type": "str", "required": True},
        "source": {"type": "str", "required": True},
        "packages": {"type": "list", "elements": "list"},
    }
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "state": {"choices": ["present", "latest", "absent"], "default": "present"},
            "snapshot": {"type": "dict", "options": snapshot},
            "update_cache": {"type": "bool", "default": False},
            "cache_valid_time": {"type": "int", "default": 0},
            "lock_timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        result = Ensure(module).run()
    except AptError as problem:
        module.fail_json(msg=str(problem), output=problem.output)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
