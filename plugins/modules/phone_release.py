#!/usr/bin/python
"""Install a release bundle on a phone and switch to it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: phone_release
short_description: Unpack, verify and switch to a release bundle
description:
  - Unpacks beside the releases that are there, compares every file with the manifest's SHA-256,
    and only then switches the link C(current), in one step.
  - The release before stays, under the link C(previous); older ones go.
options:
  archive:
    description: The bundle, already on the phone.
    type: path
    required: true
  root:
    description: Folder that holds C(releases), C(current) and C(previous).
    type: path
    required: true
  version:
    description: Version that the bundle must have.
    type: str
    required: true
  target:
    description: Target that the bundle must be built for.
    type: str
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Install the release
  phone_release:
    archive: "{{ termux_home }}/phonerack/releases/phonerack-1.0-termux-aarch64.tar.gz"
    root: "{{ termux_home }}/phonerack"
    version: "1.0"
    target: termux-aarch64
"""

RETURN = r"""
removed:
  description: Versions that were deleted, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

MANIFEST = "manifest.json"


class BadRelease(Exception):
    """A release that must not be used, with the reason."""


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, version: str, target: str) -> None:
    """Compare an unpacked release with its manifest, and the manifest with what is wanted."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        files: dict[str, str] = manifest["files"]
        found = {"version": manifest["version"], "target": manifest["target"]}
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BadRelease(f"its {MANIFEST} cannot be read: {problem!r}") from None
    for field, wanted in (("version", version), ("target", target)):
        if found[field] != wanted:
            raise BadRelease(f"it has {field} {found[field]}, this phone needs {wanted}")
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    # Python writes its bytecode beside the modules that it runs.
    present = {name for name in present if "__pycache__" not in name and name != MANIFEST}
    if stray := sorted(present ^ files.keys()):
        raise BadRelease(f"manifest and files differ: {', '.join(stray[:3])}")
    for name, wanted in files.items():
        if sha256(folder / name) != wanted:
            raise BadRelease(f"{name} is corrupt")


class Releases:
    """The releases of one phone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "releases"

    def linked(self, link: str) -> str | None:
        """The version that a link names."""
        path = self.root / link
        return path.readlink().name if path.is_symlink() else None

    def link(self, name: str, version: str) -> None:
        """Point a link at a version; whoever opens it sees the old or the new one."""
        temporary = self.root / f".{name}.new"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(Path("releases") / version)
        temporary.replace(self.root / name)

    def is_whole(self, version: str, target: str) -> bool:
        try:
            verify(self.folder / version, version, target)
        except BadRelease:
            return False
        return True

    def unpack(self, archive: Path, version: str, target: str) -> None:
        """Unpack and verify in a folder of its own, then rename it into place."""
        partial = self.folder / f".{version}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            with tarfile.open(archive) as bundle:
                bundle.extractall(partial, filter="data")
            verify(partial, version, target)
            os.sync()
            # A damaged release of this version is in the way of its replacement.
            shutil.rmtree(self.folder / version, ignore_errors=True)
            partial.rename(self.folder / version)
        except (tarfile.TarError, EOFError, OSError) as problem:
            raise BadRelease(str(problem)) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def outdated(self, kept: set[str | None]) -> list[str]:
        """Versions beside those that are kept."""
        if not self.folder.is_dir():
            return []
        versions = {p.name for p in self.folder.iterdir() if p.is_dir() and p.name[0] != "."}
        return sorted(versions - kept)

    def remove(self, versions: list[str], archive: Path) -> None:
        for version in versions:
            shutil.rmtree(self.folder / version)
        for old in self.folder.glob("*.tar.gz"):
            if old != archive:
                old.unlink()


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Bring the phone to the wanted release and describe the difference."""
    releases = Releases(Path(module.params["root"]))
    archive = Path(module.params["archive"])
    version, target = module.params["version"], module.params["target"]

    current = releases.linked("current")
    whole = releases.is_whole(version, target)
    previous = releases.linked("previous") if current in (None, version) else current
    outdated = releases.outdated({version, previous})
    changed = not whole or current != version or bool(outdated)
    if changed and not module.check_mode:
        if not whole:
            releases.unpack(archive, version, target)
        if previous is not None and previous != version:
            releases.link("previous", previous)
        releases.link("current", version)
        releases.remove(outdated, archive)
    return {
        "changed": changed,
        "removed": outdated,
        "diff": {
            "before": f"current: {current}\n",
            "after": f"current: {version}\n",
        },
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "path", "required": True},
            "root": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "target": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        result = ensure(module)
    except BadRelease as problem:
        module.fail_json(
            msg=f"{module.params['archive']} is not installed, the release before stays: {problem}"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
