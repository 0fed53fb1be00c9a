#!/usr/bin/python
"""Keep the rack's package mirror: dated snapshots of an upstream and of the operator's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.module_utils.aptly import (
    SCRATCH,
    Aptly,
    MirrorError,
    Package,
    changes,
    digest_of,
    expected,
    only_one,
    unmet,
)
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.mirror_sources import Folder, Upstream, gather
from ansible.module_utils.package_spec import Spec

DOCUMENTATION = r"""
module: package_mirror
short_description: Keep the rack's package mirror on the services host
description:
  - Takes Termux packages from an upstream repository, with dependencies, and from the operator's
    folder; a package of the folder takes the place of one of the same name from upstream.
  - A snapshot is named by its date and its contents, is served under a path of its own, signed by
    the mirror's key, and never changes. The rack's snapshot is the one that phones install from.
  - Packages of the folder that are not here yet are named in RV(lacking), and nothing else
    happens; put them into C(inbox) below O(root) and call again.
  - What an interrupted run left is finished or removed.
options:
  root:
    description: Folder of the mirror; C(public) below it is what a web server should serve.
    type: path
    required: true
  keyring:
    description: GnuPG home of the signing key, which is made when there is none.
    type: path
    required: true
  rack:
    description: Name of the rack, for the key.
    type: str
    required: true
  folder:
    description: The operator's packages, as SHA-256 by file name.
    type: dict
    required: true
  upstream:
    description: C(url), C(distribution), C(component), and C(key), its public keys in base64.
    type: dict
  wanted:
    description: Packages that phones need; C(name=5.0*) pins a series.
    type: list
    elements: str
    required: true
  also:
    description: Packages taken from upstream if they are there; essential ones always are.
    type: list
    elements: str
    default: []
  architectures:
    description: Architectures of the phones, in Debian's or Termux's words.
    type: list
    elements: str
    required: true
  take:
    description:
      - V(missing) takes a snapshot if there is none, and adds to the rack's what it lacks of
        O(wanted), leaving the versions of everything else.
      - V(new) takes one of all that the sources have now; the rack's stays what it was.
    type: str
    choices: [missing, new]
    default: missing
  target:
    description: A snapshot to look at instead of taking one, for RV(taken); a beginning will do.
    type: str
  current:
    description: Make this snapshot the rack's; a beginning of its name will do.
    type: str
  keep:
    description: How many stay; the rack's, its former one and the one just taken always do.
    type: int
    default: 4
  lock_timeout:
    description: How long to wait for another run on this mirror, in seconds.
    type: int
    default: 600
attributes:
  check_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Serve the packages
  package_mirror:
    root: /srv/phonerack/mirror
    keyring: /var/lib/phonerack/mirror-key
    rack: paper
    folder: {python_3.13.5_aarch64.deb: 302f8325…}
    wanted: [python, openmpi=5.0*]
    architectures: [aarch64]
"""

RETURN = r"""
lacking:
  description: Packages of the folder that must be sent first.
  returned: success
  type: list
  elements: str
snapshot:
  description: The rack's snapshot.
  returned: success
  type: str
taken:
  description: What O(take) led to; null in check mode when it would be a new one.
  returned: success
  type: str
snapshots:
  description: All that are served, oldest first.
  returned: success
  type: list
  elements: str
packages:
  description: What phones on RV(snapshot) have, as name, version, architecture.
  returned: success
  type: list
  elements: list
taken_packages:
  description: What phones on RV(taken) have.
  returned: success
  type: list
  elements: list
changes:
  description: Between RV(snapshot) and RV(taken), as name, before, after.
  returned: success
  type: list
  elements: dict
key:
  description: Public key that signs the snapshots.
  returned: success
  type: str
done:
  description: What was done, or would be in check mode.
  returned: success
  type: list
  elements: str
"""


class Mirror:
    """One call of the module."""

    def __init__(self, module: AnsibleModule) -> None:
        self.options = module.params
        self.done: list[str] = []
        self.aptly = Aptly(module, Path(self.options["root"]), Path(self.options["keyring"]))
        self.specs = [Spec.parse(text) for text in self.options["wanted"]]
        self.folder = Folder(self.aptly, self.options["folder"], self.done)
        self.upstream = None
        if self.options["upstream"]:
            names = [*(spec.name for spec in self.specs), *self.options["also"]]
            self.upstream = Upstream(
                self.aptly, self.options["upstream"], names, self.options["architectures"]
            )

    def ensure(self) -> dict[str, Any]:
        if self.aptly.prepare():
            self.done.append("made the mirror")
        self.aptly.drop_scratch()
        self.drop_damaged()
        if lacking := self.folder.lacking():
            return self.result(lacking=lacking, snapshot=self.aptly.current(), taken=None)
        self.folder.take_in()
        self.mend()
        taken = self.take()
        if beginning := self.options["current"]:
            self.move_to(self.aptly.resolve(beginning))
        elif self.aptly.current() is None or self.follows:
            self.move_to(taken)
        current = self.aptly.current() or taken
        self.prune({current, taken, self.aptly.former()})
        self.publish()
        self.aptly.drop_scratch()
        if self.done:
            self.aptly.run("db", "cleanup")
        return self.result(snapshot=current, taken=taken)

    def foresee(self) -> dict[str, Any]:
        """The same in check mode, as far as it can be told without changing anything."""
        if not self.aptly.exists:
            self.done.append("would make the mirror and its first snapshot")
            return self.result(lacking=sorted(self.folder.wanted), snapshot=None, taken=None)
        if lacking := self.folder.lacking():
            self.done.append(f"would take in {len(lacking)} packages of the operator's folder")
        current = self.aptly.current()
        if beginning := self.options["target"]:
            there = self.aptly.resolve(beginning)
            return self.result(lacking=lacking, snapshot=current, taken=there)
        before = self.aptly.packages("snapshot", current) if current else []
        if current and self.options["take"] == "missing" and not unmet(self.specs, before):
            return self.result(lacking=lacking, snapshot=current, taken=current)
        after = self.foreseen(before)
        if known := self.aptly.with_contents(digest_of(after)):
            return self.result(lacking=lacking, snapshot=current, taken=known)
        self.done.append("would take a new snapshot")
        return self.result(lacking=lacking, snapshot=current, taken=None, foreseen=after)

    def foreseen(self, before: list[Package]) -> list[Package]:
        ours = self.folder.foreseen()
        if self.upstream is None:
            return ours
        taken = {(package.name, package.architecture) for package in ours}
        theirs = self.upstream.foreseen(package.name for package in before)
        return ours + [p for p in theirs if (p.name, p.architecture) not in taken]

    def result(
        self,
        *,
        snapshot: str | None,
        taken: str | None,
        lacking: list[str] | None = None,
        foreseen: list[Package] | None = None,
    ) -> dict[str, Any]:
        held = {
            name: expected(self.aptly.packages("snapshot", name), self.specs)
            for name in (snapshot, taken)
            if name is not None
        }
        before = held.get(snapshot, [])
        after = held.get(taken, before) if foreseen is None else expected(foreseen, self.specs)
        return {
            "changed": bool(self.done) or bool(lacking),
            "lacking": lacking or [],
            "snapshot": snapshot,
            "taken": taken,
            "snapshots": self.aptly.snapshots() if self.aptly.exists else [],
            "packages": before,
            "taken_packages": after,
            "changes": changes(before, after),
            "key": self.aptly.public_key if self.aptly.exists else "",
            "done": self.done,
        }

    @property
    def follows(self) -> bool:
        """Whether what is taken becomes the rack's by itself."""
        return self.options["take"] == "missing" and not self.options["target"]

    def move_to(self, snapshot: str) -> None:
        if self.aptly.make_current(snapshot):
            self.done.append(f"the rack's snapshot is {snapshot}")

    # --- steps -------------------------------------------------------------------------------

    def take(self) -> str:
        if beginning := self.options["target"]:
            return self.aptly.resolve(beginning)
        current = self.aptly.current()
        if current is None or self.options["take"] == "new":
            return self.settle(gather(self.aptly, self.upstream, bool(self.folder.wanted)))
        return self.complete(current)

    def settle(self, scratch: str) -> str:
        packages = self.aptly.packages("snapshot", scratch)
        self.require(packages)
        before = self.aptly.snapshots()
        snapshot = self.aptly.settle(scratch, digest_of(packages))
        if snapshot not in before:
            self.done.append(f"took snapshot {snapshot}")
        return snapshot

    def require(self, packages: list[Package]) -> None:
        if missing := unmet(self.specs, packages):
            wanted = ", ".join(f"{spec.name} {spec.pin}".strip() for spec in missing)
            raise MirrorError(
                f"no source has {wanted}: put the phones' packages into the rack's packages "
                "folder, or name an upstream repository in the rack file, then rerun"
            )

    def complete(self, current: str) -> str:
        """The rack's snapshot, with what it lacks of the wanted packages added."""
        missing = unmet(self.specs, self.aptly.packages("snapshot", current))
        if not missing:
            return current
        source = gather(self.aptly, self.upstream, bool(self.folder.wanted))
        there = self.aptly.packages("snapshot", source)
        self.require(there)
        newest = set(expected(there, missing))
        names = {spec.name for spec in missing}
        found = [p for p in there if p.name in names and p[:3] in newest]
        archs = {*self.options["architectures"], *(p.architecture for p in there)} - {"all"}
        options = ["-no-remove", f"-architectures={','.join(sorted(archs))}"]
        target = f"{SCRATCH}-added"
        queries = [package.query for package in found]
        self.aptly.run("snapshot", "pull", *options, current, source, target, *queries)
        return self.settle(target)

    def drop_damaged(self) -> None:
        """Forget packages whose files are gone or cut, so that they come anew."""
        found = self.aptly.damaged(self.aptly.snapshots())
        for package in found:
            for snapshot in self.aptly.forget(package):
                self.aptly.unpublish(snapshot)
            self.done.append(f"{package.name} {package.version} was damaged here")
        if ours := [p for p in found if p.sha256 in self.folder.wanted.values()]:
            self.folder.remove(ours)

    def mend(self) -> None:
        """Fetch what was damaged. A snapshot that nobody can make whole goes; not the rack's."""
        if self.aptly.damaged(self.aptly.snapshots()) and self.upstream is not None:
            self.upstream.update()
        for snapshot in self.aptly.snapshots():
            lost = [p.name for p in self.aptly.damaged([snapshot])]
            if not lost:
                continue
            if snapshot == self.aptly.current() and self.follows:
                raise MirrorError(
                    f"the rack's snapshot {snapshot} has lost {', '.join(lost)}, and no source has "
                    "the same files: take a new one by playbooks/upgrade.yml"
                )
            self.drop(snapshot)
            self.done.append(f"dropped snapshot {snapshot}, which had lost {', '.join(lost)}")

    def drop(self, snapshot: str) -> None:
        if snapshot in self.aptly.published():
            self.aptly.unpublish(snapshot)
        self.aptly.run("snapshot", "drop", "-force", snapshot)

    def publish(self) -> None:
        published = self.aptly.published()
        for snapshot in self.aptly.snapshots():
            if snapshot in published and self.aptly.is_whole(snapshot):
                continue
            if snapshot in published:
                self.aptly.unpublish(snapshot)
            self.aptly.publish(snapshot, self.options["architectures"])
            self.done.append(f"serves snapshot {snapshot}")

    def prune(self, needed: set[str | None]) -> None:
        """Drop old snapshots, and whatever is served that is none."""
        snapshots = self.aptly.snapshots()
        last = snapshots[-self.options["keep"] :] if self.options["keep"] > 0 else []
        kept = {*last, *needed}
        for snapshot in set(snapshots) - kept:
            self.drop(snapshot)
            self.done.append(f"dropped snapshot {snapshot}")
        self.aptly.sweep(kept)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "required": True},
            "keyring": {"type": "path", "required": True},
            "rack": {"type": "str", "required": True},
            "folder": {"type": "dict", "required": True},
            # The key is a public one.
            "upstream": {"type": "dict", "no_log": False},
            "wanted": {"type": "list", "elements": "str", "required": True},
            "also": {"type": "list", "elements": "str", "default": []},
            "architectures": {"type": "list", "elements": "str", "required": True},
            "take": {"choices": ["missing", "new"], "default": "missing"},
            "target": {"type": "str"},
            "current": {"type": "str"},
            "keep": {"type": "int", "default": 4},
            "lock_timeout": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    mirror = Mirror(module)
    try:
        if module.check_mode:
            result = mirror.foresee()
        else:
            with only_one(mirror.aptly.root, module.params["lock_timeout"]):
                result = mirror.ensure()
    except MirrorError as problem:
        module.fail_json(msg=str(problem), done=mirror.done)
    finally:
        mirror.aptly.leave()
    module.exit_json(**result)


if __name__ == "__main__":
    main()
