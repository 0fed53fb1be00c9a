"""Where the mirror's packages come from: an upstream repository and the operator's folder."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ansible.module_utils.aptly import FOLDER, SCRATCH, UPSTREAM, Aptly, MirrorError, Package

_APT = """\
Dir "{here}";
Dir::State::status "/dev/null";
Dir::Etc::SourceList "{here}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Bin::methods "/usr/lib/apt/methods";
APT::Architecture "{arch}";
APT::Architectures {{ "{arch}"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
"""


class Folder:
    """The operator's folder, `wanted` as SHA-256 by file name, in aptly's local repository."""

    def __init__(self, aptly: Aptly, wanted: Mapping[str, str], done: list[str]) -> None:
        self.aptly = aptly
        self.wanted = wanted
        self.done = done

    def lacking(self) -> list[str]:
        """Files that are neither in the repository nor whole in the inbox."""
        return sorted(name for name in self._new() if not self._has_arrived(name))

    def take_in(self) -> None:
        """Bring the repository to what the folder holds; nothing of it may lack."""
        new = self._new()
        for name in new:
            self._refuse_corrupt(self.aptly.inbox / name)
        if new:
            files = [str(self.aptly.inbox / name) for name in new]
            self.aptly.run("repo", "add", "-force-replace", FOLDER, *files)
            if twice := self._new():
                raise MirrorError(
                    f"{', '.join(twice)}: another file of the packages folder is the same package "
                    "in the same version; keep one of both"
                )
            self.done.append(f"took in {len(new)} packages of the operator's folder")
        for file in self.aptly.inbox.iterdir():
            file.unlink()
        if extra := self._extra():
            self.remove(extra)
            self.done.append(f"{len(extra)} packages have left the operator's folder")

    def foreseen(self) -> list[Package]:
        """What it will hold, as far as the names of files that are not here yet tell."""
        extra = set(self._extra())
        kept = [p for p in self.aptly.packages("repo", FOLDER) if p not in extra]
        return kept + [_named(name, self.wanted[name]) for name in self._new()]

    def remove(self, packages: Iterable[Package]) -> None:
        self.aptly.run("repo", "remove", FOLDER, " | ".join(p.query for p in packages))

    def _new(self) -> list[str]:
        here = {package.sha256 for package in self.aptly.packages("repo", FOLDER)}
        return sorted(name for name, digest in self.wanted.items() if digest not in here)

    def _extra(self) -> list[Package]:
        wanted = set(self.wanted.values())
        return [p for p in self.aptly.packages("repo", FOLDER) if p.sha256 not in wanted]

    def _has_arrived(self, name: str) -> bool:
        file = self.aptly.inbox / name
        if not file.is_file():
            return False
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == self.wanted[name]

    def _refuse_corrupt(self, file: Path) -> None:
        """aptly reads the beginning only; a package has to be readable to its end."""
        argv = ["dpkg-deb", "--fsys-tarfile", str(file)]
        read = subprocess.run(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if read.returncode:
            file.unlink()
            raise MirrorError(
                f"{file.name} is corrupt ({read.stderr.strip()}): put a good one into the "
                "packages folder and rerun"
            )


def _named(file: str, digest: str) -> Package:
    """A package by its file's name, `name_version_architecture.deb`."""
    parts = file.removesuffix(".deb").replace("%3a", ":").split("_")
    name, version, architecture = (*parts, "?", "?")[:3]
    return Package(name, version, architecture, digest, 0)


class Upstream:
    """The repository of the rack file; only `names`, with dependencies, and essential packages.

    `settings`: url, distribution, component, and key, the base64 of the public keys' file.
    """

    def __init__(
        self,
        aptly: Aptly,
        settings: Mapping[str, str],
        names: Iterable[str],
        architectures: Iterable[str],
    ) -> None:
        self.aptly = aptly
        self.settings = settings
        self.names = sorted(set(names))
        self.architectures = sorted(architectures)

    @property
    def _place(self) -> tuple[str, str, str]:
        settings = self.settings
        return settings["url"], settings["distribution"], settings["component"]

    def update(self) -> None:
        """Fetch what is new; aptly has each file once, whoever asks for it."""
        keys = f"-keyring={self._keys()}"
        query = " | ".join([f'Name (= "{name}")' for name in self.names] + ["Essential (yes)"])
        definition = [
            f"-architectures={','.join(self.architectures)}",
            *(f"-filter={query}", "-filter-with-deps", UPSTREAM, *self._place),
        ]
        mark = self.aptly.root / "upstream.json"
        made = UPSTREAM in self.aptly.run("mirror", "list", "-raw").split()
        if not (made and mark.is_file() and json.loads(mark.read_text()) == definition):
            mark.unlink(missing_ok=True)
            if made:
                self.aptly.run("mirror", "drop", "-force", UPSTREAM)
            self.aptly.run("mirror", "create", keys, *definition)
            mark.write_text(json.dumps(definition))
        # We hold the mirror's lock: whatever aptly believes to be updating still is dead.
        self.aptly.run("mirror", "update", "-force", keys, UPSTREAM)

    def _keys(self) -> Path:
        """The public keys as gpgv wants them; the operator's file may be armored or not."""
        content = base64.b64decode(self.settings["key"])
        target = self.aptly.root / "upstream.gpg"
        if content.lstrip().startswith(b"-----BEGIN"):
            argv = ["gpg", "--batch", "--dearmor"]
            opened = subprocess.run(argv, input=content, capture_output=True, check=False)
            if opened.returncode:
                reason = opened.stderr.decode(errors="replace").strip()
                raise MirrorError(f"the upstream's key file holds no public key: {reason}")
            content = opened.stdout
        target.write_bytes(content)
        return target

    def foreseen(self, names: Iterable[str]) -> list[Package]:
        """The versions of `names` that upstream has now, by apt, which fetches its index only."""
        wanted = {*names, *self.names}
        found: list[Package] = []
        for arch in self.architectures:
            with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
                found += [p for p in self._ask(Path(folder), arch) if p.name in wanted]
        return sorted(set(found))

    def _ask(self, here: Path, arch: str) -> list[Package]:
        for part in ("lists/partial", "state/lists/partial", "cache/archives/partial"):
            (here / part).mkdir(parents=True)
        url, distribution, component = self._place
        line = f"deb [signed-by={self._keys()}] {url} {distribution} {component}\n"
        (here / "sources.list").write_text(line)
        (here / "apt.conf").write_text(_APT.format(here=here, arch=arch))
        options = ["-c", str(here / "apt.conf"), f"-oDir::State={here}/state"]
        options.append(f"-oDir::Cache={here}/cache")
        self._apt("apt-get", *options, "-oAPT::Update::Error-Mode=any", "update")
        return _stanzas(self._apt("apt-cache", *options, "dumpavail"))

    def _apt(self, *argv: str) -> str:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no answer"])[0]
            raise MirrorError(f"the upstream repository cannot be read: {reason}")
        return done.stdout


def _stanzas(text: str) -> list[Package]:
    """Packages of an index in Debian's form."""
    found = []
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if "Package" in fields:
            parts = (fields[key] for key in ("Package", "Version", "Architecture"))
            found.append(Package(*parts, fields.get("SHA256", ""), int(fields.get("Size", 0))))
    return found


def gather(aptly: Aptly, upstream: Upstream | None, has_folder: bool) -> str:
    """A scratch snapshot of all that the sources have; the folder's packages come first."""
    parts = []
    if upstream is not None:
        upstream.update()
        parts.append(f"{SCRATCH}-upstream")
        aptly.run("snapshot", "create", parts[-1], "from", "mirror", UPSTREAM)
    if has_folder or not parts:
        parts.append(f"{SCRATCH}-folder")
        aptly.run("snapshot", "create", parts[-1], "from", "repo", FOLDER)
    if len(parts) == 1:
        return parts[0]
    aptly.run("snapshot", "merge", f"{SCRATCH}-all", *parts)
    return f"{SCRATCH}-all"
