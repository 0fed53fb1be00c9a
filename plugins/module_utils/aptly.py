"""The rack's package mirror on the services host, as aptly keeps it.

Below `root`: `db/` and `pool/` are aptly's, `public/<snapshot>/` is what nginx serves, each
snapshot a repository of its own, `inbox/` is where new packages arrive.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.package_spec import Spec

FOLDER, UPSTREAM, SCRATCH = "folder", "upstream", "scratch"
"""The local repository, the mirror, and the prefix of snapshots that are only being made."""

DISTRIBUTION, COMPONENT, ORIGIN = "stable", "main", "phonerack"
SNAPSHOT = re.compile(r"\d{4}-\d\d-\d\d-[0-9a-f]{6}")
_UNSIGNED = re.compile(r"gpgv: (?:Can't check signature|BAD signature|no signature found)")
_FORMAT = "{{.Package}} {{.Version}} {{.Architecture}} {{.SHA256}} {{.Size}}"


class MirrorError(Exception):
    """What happened and what to do."""


class Package(NamedTuple):
    """One package file. `size` in bytes."""

    name: str
    version: str
    architecture: str
    sha256: str
    size: int

    @property
    def query(self) -> str:
        return (
            f'(Name (= "{self.name}"), $Version (= "{self.version}"), '
            f'$Architecture (= "{self.architecture}"))'
        )


def digest_of(packages: list[Package]) -> str:
    """Six hex digits for the contents of a snapshot."""
    text = "".join(f"{p.name} {p.version} {p.architecture} {p.sha256}\n" for p in sorted(packages))
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def unmet(specs: list[Spec], packages: list[Package]) -> list[Spec]:
    versions: dict[str, set[str]] = {}
    for package in packages:
        versions.setdefault(package.name, set()).add(package.version)
    return [spec for spec in specs if not any(map(spec.admits, versions.get(spec.name, ())))]


@functools.cache
def newer(one: str, other: str) -> bool:
    """Whether version `one` is newer than `other`, by Debian's rules."""
    done = subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False)
    return done.returncode == 0


def expected(packages: list[Package], specs: list[Spec]) -> list[tuple[str, str, str]]:
    """What a phone has of each package: the newest version that fits the pin, if there is one."""
    missing = unmet(specs, packages)
    pins = {spec.name: spec for spec in specs if spec.pin}
    best: dict[tuple[str, str], str] = {}
    for package in packages:
        pin = pins.get(package.name)
        if pin and pin not in missing and not pin.admits(package.version):
            continue
        key = (package.name, package.architecture)
        if key not in best or newer(package.version, best[key]):
            best[key] = package.version
    return sorted((name, version, arch) for (name, arch), version in best.items())


def changes(before: list[tuple[str, str, str]], after: list[tuple[str, str, str]]) -> list[dict]:
    old = {(name, arch): version for name, version, arch in before}
    new = {(name, arch): version for name, version, arch in after}
    keys = sorted({*old, *new})
    rows = [{"name": k[0], "before": old.get(k), "after": new.get(k)} for k in keys]
    return [row for row in rows if row["before"] != row["after"]]


class Aptly:
    """aptly with all its state below one folder. `module` is the AnsibleModule that runs it."""

    def __init__(self, module: Any, root: Path, keyring: Path) -> None:
        self.module = module
        self.root = root
        self.public = root / "public"
        self.inbox = root / "inbox"
        self.keyring = keyring
        self._answers: dict[tuple[str, ...], tuple[int, str, str]] = {}

    def prepare(self) -> bool:
        """Make the folders, aptly's configuration and the signing key; whether one was missing."""
        settings = {
            "rootDir": str(self.root),
            "skipContentsPublishing": True,
            "skipBz2Publishing": True,
            "gpgProvider": "gpg",
            "downloadRetries": 3,
        }
        text = json.dumps(settings, indent=1) + "\n"
        for folder, mode in ((self.public, 0o755), (self.inbox, 0o700), (self.keyring, 0o700)):
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
        changed = not self._config.is_file() or self._config.read_text() != text
        if changed:
            self._config.write_text(text)
        if not self._has_key:
            owner = f"phonerack {self.module.params['rack']}"
            # `--yes`: the public half of one that was lost may be there still.
            made = ("--passphrase=", "--yes", "--quick-generate-key")
            self._gpg(*made, owner, "ed25519", "sign", "never")
            changed = True
        if FOLDER not in self.run("repo", "list", "-raw").split():
            self.run("repo", "create", FOLDER)
        return changed

    @property
    def exists(self) -> bool:
        return self._config.is_file() and (self.root / "db").is_dir()

    @property
    def _has_key(self) -> bool:
        """Asked of the files: an agent that is just ending says that there is no secret key."""
        secret = any((self.keyring / "private-keys-v1.d").glob("*.key"))
        return secret and bool(self._gpg("--list-keys", "--with-colons"))

    @property
    def _config(self) -> Path:
        return self.root / "aptly.conf"

    @property
    def public_key(self) -> str:
        return self._gpg("--export", "--armor")

    def _gpg(self, *arguments: str) -> str:
        argv = ["gpg", f"--homedir={self.keyring}", "--batch", *arguments]
        code, out, err = self.module.run_command(argv)
        if code:
            raise MirrorError(f"the mirror's signing key cannot be used: {err.strip()}")
        return str(out)

    def leave(self) -> None:
        """End the agent that gpg has started to sign."""
        self.module.run_command(["gpgconf", f"--homedir={self.keyring}", "--kill", "gpg-agent"])

    def run(self, *arguments: str) -> str:
        """One aptly command; its standard output. Raises MirrorError with its last error."""
        code, out, err = self._run(*arguments)
        if code:
            said = (out + err).rpartition("ERROR: ")[2] or out + err
            reason = " ".join(said.split())[:500]
            if _UNSIGNED.search(err):
                reason = "its index is not signed by the key that the rack file names"
            raise MirrorError(f"aptly {' '.join(arguments[:2])}: {reason}")
        return out

    def _run(self, *arguments: str) -> tuple[int, str, str]:
        """aptly's answer; what only reads is asked once, until something is written."""
        reads = arguments[1] in ("list", "search")
        if not reads:
            self._answers.clear()
        elif arguments in self._answers:
            return self._answers[arguments]
        argv = ["aptly", f"-config={self._config}", *arguments]
        environment = {"GNUPGHOME": str(self.keyring), "LC_ALL": "C.UTF-8"}
        answer: tuple[int, str, str] = self.module.run_command(argv, environ_update=environment)
        if reads:
            self._answers[arguments] = answer
        return answer

    def packages(self, kind: str, name: str) -> list[Package]:
        """What a `repo`, `mirror` or `snapshot` holds, sorted."""
        code, out, err = self._run(kind, "search", f"-format={_FORMAT}", name, "Name")
        if code and "no results" not in err:
            raise MirrorError(f"aptly cannot list {kind} {name}: {err.strip()[-300:]}")
        rows = (line.split(" ") for line in out.splitlines() if line.count(" ") == 4)
        return sorted(Package(*row[:4], int(row[4])) for row in rows)

    def snapshots(self) -> list[str]:
        """The finished snapshots, oldest first."""
        return [name for name in self._snapshots() if SNAPSHOT.fullmatch(name)]

    def _snapshots(self) -> list[str]:
        return self.run("snapshot", "list", "-raw", "-sort=time").split()

    def published(self) -> list[str]:
        rows = (line.split() for line in self.run("publish", "list", "-raw").splitlines())
        return [row[0] for row in rows if row]

    def current(self) -> str | None:
        """The rack's snapshot, if it still exists."""
        return self._marked(0)

    def make_current(self, snapshot: str) -> bool:
        """Make it the rack's; whether it was not yet."""
        current = self.current()
        if current == snapshot:
            return False
        part = self._mark.with_suffix(".part")
        part.write_text(f"{snapshot}\n{current or ''}\n")
        part.replace(self._mark)
        return True

    def former(self) -> str | None:
        """The one that was the rack's before, to go back to."""
        return self._marked(1)

    def _marked(self, line: int) -> str | None:
        names = self._mark.read_text().splitlines() if self._mark.is_file() else []
        name = names[line] if len(names) > line else None
        return name if name in self.snapshots() else None

    @property
    def _mark(self) -> Path:
        return self.root / "current"

    def resolve(self, beginning: str) -> str:
        """The snapshot whose name begins so. Raises MirrorError with those that there are."""
        snapshots = self.snapshots()
        found = [name for name in snapshots if name.startswith(beginning)]
        if len(found) != 1:
            what = "several snapshots begin with" if found else "there is no snapshot"
            known = ", ".join(snapshots) or "none"
            raise MirrorError(f"{what} {beginning}; there are: {known}")
        return found[0]

    def drop_scratch(self) -> None:
        """Remove what an interrupted run was making."""
        for name in self._snapshots():
            if name.startswith(SCRATCH):
                self.run("snapshot", "drop", "-force", name)

    def with_contents(self, digest: str) -> str | None:
        return next((name for name in self.snapshots() if name.endswith(f"-{digest}")), None)

    def settle(self, name: str, digest: str) -> str:
        """Give the scratch snapshot `name` its lasting name, or take the equal one from before."""
        if known := self.with_contents(digest):
            return known
        lasting = f"{time.strftime('%Y-%m-%d', time.gmtime())}-{digest}"
        self.run("snapshot", "rename", name, lasting)
        return lasting

    def publish(self, snapshot: str, architectures: Iterable[str]) -> None:
        """Serve `snapshot` under a path of its own. What an interrupted run left there goes."""
        target = self.public / snapshot
        if target.exists():
            shutil.rmtree(target)
        options = [
            *("-batch", f"-distribution={DISTRIBUTION}", f"-component={COMPONENT}"),
            *(f"-origin={ORIGIN}", f"-label={snapshot}"),
            f"-architectures={','.join(sorted(architectures))}",
        ]
        self.run("publish", "snapshot", *options, snapshot, snapshot)

    def unpublish(self, snapshot: str) -> None:
        self.run("publish", "drop", "-force-drop", DISTRIBUTION, snapshot)

    def is_whole(self, snapshot: str) -> bool:
        """Whether the index of a published snapshot is there, and signed by the present key."""
        index = self.public / snapshot / "dists" / DISTRIBUTION / "InRelease"
        argv = ["gpg", f"--homedir={self.keyring}", "--batch", "--ignore-time-conflict"]
        return index.is_file() and self.module.run_command([*argv, "--verify", str(index)])[0] == 0

    def damaged(self, snapshots: Iterable[str]) -> list[Package]:
        """Packages of the folder and of `snapshots` whose files are gone or of a wrong length."""
        kinds = [("repo", FOLDER), *(("snapshot", name) for name in snapshots)]
        known = {package for kind, name in kinds for package in self.packages(kind, name)}
        return sorted(package for package in known if self.pool_file(package) is None)

    def sweep(self, kept: set[str]) -> None:
        """Remove folders that are served and belong to none of `kept`."""
        for folder in self.public.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder)

    def pool_file(self, package: Package) -> Path | None:
        """Where aptly keeps a package; None where it is missing or not as long as it should be."""
        digest = package.sha256
        folder = self.root / "pool" / digest[:2] / digest[2:4]
        for file in folder.glob(f"{digest[4:32]}_*"):
            if file.stat().st_size == package.size:
                return file
        return None

    def forget(self, package: Package) -> list[str]:
        """Remove a damaged package from the pool; the snapshots in whose folders it lay too."""
        digest = package.sha256
        inodes = set()
        for file in (self.root / "pool" / digest[:2] / digest[2:4]).glob(f"{digest[4:32]}_*"):
            inodes.add(file.stat().st_ino)
            file.unlink()
        touched = set()
        for file in self.public.glob("*/pool/**/*.deb"):
            if file.stat().st_ino in inodes:
                touched.add(file.relative_to(self.public).parts[0])
                file.unlink()
        return sorted(touched)


@contextmanager
def only_one(root: Path, limit_seconds: int) -> Iterator[None]:
    """Hold the mirror; the kernel lets go when this process ends."""
    root.mkdir(mode=0o755, parents=True, exist_ok=True)
    deadline = time.monotonic() + limit_seconds
    with (root / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise MirrorError(
                        f"another run has worked on the mirror for {limit_seconds} s: wait for "
                        "its end, then rerun"
                    ) from None
                time.sleep(0.5)
        yield
