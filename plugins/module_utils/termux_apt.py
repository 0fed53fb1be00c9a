"""The phone's own apt and dpkg, below $PREFIX, as the app's user.

Everything that may be needed is imported at the start: an upgrade may take Python's library away
while a module runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

DEFAULT_PREFIX = "/data/data/com.termux/files/usr"
LOCKED = re.compile(r"Could not get lock|Unable to (?:lock|acquire)|locked by another process")
HOLDER = re.compile(r"(?:held by process|with pid) (\d+)")
UNKNOWN = re.compile(r"Unable to locate package|was not found|has no installation candidate")
DAMAGED_INDEX = re.compile(
    r"package lists or status file could not be parsed|Problem with MergeList"
    r"|package cache file is corrupted|Unable to parse package file|section with no Package: header"
)
NO_SPACE = re.compile(r"No space left on device|don't have enough free space|Disk quota exceeded")
UNLINKED = re.compile(
    r"CANNOT LINK EXECUTABLE.*|.*error while loading shared libraries.*|.*symbol lookup error.*"
)
PLANNED = re.compile(
    r"^(?P<verb>Inst|Remv|Purg) (?P<name>[^\s:]+)(?::\S+)?(?: \[(?P<before>[^\]]+)\])?"
    r"(?: \((?P<after>\S+) .*\[(?P<arch>[^\]]+)\]\))?"
)
GROWTH = re.compile(r"After this operation, ([\d.,]+) ([kMGT]?)B of additional disk space")
UNVERIFIED = re.compile(r"InRelease' is not signed|GPG error|OpenPGP signature verification failed")
REASON = re.compile(
    r"^(?:E:|W: (?:Failed|GPG error|OpenPGP signature)|dpkg: error|dpkg-deb: error|Err:"
    r"|.*No space left)"
)
# What apt adds to every failure; the line before it says what happened.
NOISE = re.compile(r"Unable to fetch some archives|Some index files failed|Sub-process .* returned")
SOURCES = "-oDir::Etc::SourceParts=/dev/null"
"""The rack's mirror alone: what somebody has added beside it may not be there on the rack's wire,
and has packages of other versions."""
APT_OPTIONS = (
    SOURCES,
    "-y",
    "-q",
    "-oAcquire::Retries=3",
    "-oAcquire::http::Timeout=30",
    # Snapshots never expire, and a phone's clock may stand at 1970.
    "-oAcquire::Check-Date=false",
    "-oAPT::Update::Error-Mode=any",
    "-oDpkg::Options::=--force-confdef",
    "-oDpkg::Options::=--force-confold",
)
PRELOADS = ("libtermux-exec-ld-preload.so", "libtermux-exec.so")
"""Names, present and former, of the library that Termux has all its programs preload."""
OWN_PRELOAD = "libphonerack_exec.so"
"""Role release's copy of it, which no package touches."""
LOCK_POLL_SECONDS = 2
MEBI = 1 << 20
LEAST_TEMPORARY_BYTES = MEBI
"""What apt needs to verify a signature: it lays the index and its keys into files."""


class AptError(Exception):
    """What happened and what to do; `output` is the last that apt or dpkg said."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output[-4000:]


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


def parse_growth(text: str) -> int:
    """Bytes that the file system will hold more after what apt is about to do; 0 if it shrinks."""
    found = GROWTH.search(text)
    if not found:
        return 0
    return int(float(found[1].replace(",", "")) * 1000 ** ["", "k", "M", "G", "T"].index(found[2]))


def reason_of(text: str) -> str:
    """The lines of an apt or dpkg failure that say what happened, on one line."""
    if unlinked := UNLINKED.search(text):
        return unlinked[0].strip()
    # dpkg breaks the line after "error processing package NAME (--configure):".
    text = re.sub(r"(?m)^(dpkg: error .*:)\n +", r"\1 ", text)
    lines = [line.strip() for line in text.splitlines() if REASON.match(line.strip())]
    telling = [line for line in lines if not NOISE.search(line)] or lines
    return "; ".join(dict.fromkeys(telling)) or text.strip()[-300:]


def copy(source: Path, target: Path) -> None:
    """Whole or not at all; a phone without room for it is told of by what needs more."""
    staged = target.with_name(f".{target.name}.phonerack")
    with contextlib.suppress(OSError):
        shutil.copy(source, staged)
        staged.replace(target)
    staged.unlink(missing_ok=True)


class Termux:
    """The phone's package manager. `module` is the AnsibleModule that uses it."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.prefix = Path(os.environ.get("PREFIX") or DEFAULT_PREFIX)
        self.refreshed = False
        self.options: list[str] = []
        """Further options of every apt-get, such as its preferences."""

    # --- running -----------------------------------------------------------------------------

    def run(self, program: str, *arguments: str) -> tuple[int, str, str]:
        """Run one of the prefix's programs; wait as long as another process holds its lock."""
        deadline = time.monotonic() + self.module.params["lock_timeout"]
        argv = [str(self.prefix / "bin" / program), *arguments]
        environment = {
            "LC_ALL": "C",
            "DEBIAN_FRONTEND": "noninteractive",
            "TMPDIR": str(self.temporary()),
        }
        if own := self.own_preload():
            environment["LD_PRELOAD"] = str(own)
        named = self.present(*PRELOADS)
        while True:
            code, out, err = self.module.run_command(argv, environ_update=environment)
            self.keep(named)
            if code == 0 or not LOCKED.search(err) or time.monotonic() >= deadline:
                return code, out, err
            time.sleep(LOCK_POLL_SECONDS)

    def present(self, *names: str) -> list[Path]:
        """Those of the prefix's libraries that are there."""
        paths = (self.prefix / "lib" / name for name in names)
        return [path for path in paths if path.exists()]

    def own_preload(self) -> Path | None:
        """The copy that no package touches, for what is run here."""
        own = self.prefix / "lib" / OWN_PRELOAD
        named = self.present(*PRELOADS)
        if named and not own.exists() and not self.module.check_mode:
            copy(named[0], own)
        return own if own.exists() else None

    def keep(self, named: Iterable[Path]) -> None:
        """Give what the packages have renamed its former name too.

        Nothing on Android starts that preloads a file which is gone, and what runs already, sshd
        above all, still says that name.
        """
        for path in named:
            if not path.exists() and (sources := self.present(*PRELOADS, OWN_PRELOAD)):
                copy(sources[0], path)

    def temporary(self) -> Path:
        """Termux's folder for temporary files, which a phone without /tmp cannot do without."""
        folder = self.prefix / "tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise AptError(
                f"no folder for temporary files: {folder} cannot be made, {problem.strerror} "
                "(remove what is in its place, or make room, then rerun)"
            ) from problem
        return folder

    def apt_get(self, *arguments: str) -> tuple[int, str, str]:
        return self.run("apt-get", *APT_OPTIONS, *self.options, *arguments)

    def must(self, what: str, result: tuple[int, str, str]) -> str:
        code, out, err = result
        if code:
            self.fail(what, out + err)
        return out

    def fail(self, what: str, output: str) -> None:
        reason, cure = reason_of(output), "remove the cause, then rerun"
        if LOCKED.search(output):
            reason, cure = self.holder(output, reason), "end that process or wait, then rerun"
        elif NO_SPACE.search(output):
            self.run("apt-get", "clean")
            free = self.free_bytes() // MEBI
            reason = f"no space left on the phone: {free} MiB are free now ({reason})"
            cure = (
                "remove old runs (`fleetctl jobs --prune`) and data sets on the phone, then rerun"
            )
        elif UNVERIFIED.search(output):
            reason, cure = self.unverified(reason)
        elif UNLINKED.search(output):
            cure = (
                "a partial upgrade has mixed versions: full upgrade by playbooks/upgrade.yml; if "
                "apt-get itself does not start, reinstall Termux there and enrol the phone again"
            )
        raise AptError(f"{what}: {reason} ({cure})", output)

    def holder(self, output: str, reason: str) -> str:
        """Who holds the lock that this phone has been waiting for."""
        found = HOLDER.search(output)
        if not found:
            return reason
        try:
            words = Path(f"/proc/{found[1]}/cmdline").read_bytes().split(b"\0")
            command = " ".join(word.decode(errors="replace") for word in words).strip()[:100]
        except OSError:
            command = "which has just ended"
        waited = self.module.params["lock_timeout"]
        return f"process {found[1]} ({command}) still held the lock after {waited} s: {reason}"

    def unverified(self, reason: str) -> tuple[str, str]:
        """Why the mirror's signature does not count, which apt calls unsigned whatever it is."""
        folder = self.temporary()
        if shutil.disk_usage(folder).free < LEAST_TEMPORARY_BYTES:
            what = f"no room for temporary files in {folder}, so the mirror cannot be verified"
            return f"{what} ({reason})", "empty that folder, or make room on the phone, then rerun"
        if "NO_PUBKEY" in reason or "No public key" in reason:
            return (
                f"this phone trusts another key than the mirror's ({reason})",
                "bring it the present one by site.yml -t controller,termux",
            )
        return reason, "sign the mirror anew by site.yml -t controller, then rerun"

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.prefix).free

    # --- looking -----------------------------------------------------------------------------

    def installed(self) -> dict[str, Installed]:
        fields = "${Package}\t${db:Status-Eflag}\t${db:Status-Status}\t${Version}\n"
        said = self.run("dpkg-query", "-W", "-f", fields)
        return parse_status(self.must("cannot read dpkg's status", said))

    def interrupted(self) -> list[str]:
        """Packages that dpkg left half-way; an unread journal counts as dpkg."""
        broken = [name for name, package in self.installed().items() if not package.whole]
        updates = self.prefix / "var/lib/dpkg/updates"
        journal = updates.is_dir() and any(entry.name.isdigit() for entry in updates.iterdir())
        return sorted(broken) or (["dpkg"] if journal else [])

    def directories(self) -> tuple[Path, Path]:
        """Folders of the package index and of the downloaded archives."""
        words = ("shell", "LISTS", "Dir::State::lists/d", "ARCHIVES", "Dir::Cache::archives/d")
        text = self.must("cannot read apt's configuration", self.run("apt-config", *words))
        values = dict(item.split("=", 1) for item in shlex.split(text))
        return Path(values["LISTS"]), Path(values["ARCHIVES"])

    def offered(self, name: str) -> list[str]:
        """Versions of a package in the index, newest first; what is installed is no offer."""
        text = self.must("cannot read apt's index", self.run("apt-cache", SOURCES, "madison", name))
        rows = [[field.strip() for field in line.split("|")] for line in text.splitlines()]
        return list(dict.fromkeys(row[1] for row in rows if len(row) == 3 and row[0] == name))

    # --- mending -----------------------------------------------------------------------------

    def repair(self) -> None:
        """Finish an interrupted dpkg run: configure what is unpacked, fetch again what is half."""
        what = "an interrupted dpkg could not be repaired"
        self.run("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
        half = self.interrupted()
        if not half:
            return
        self.refresh()
        again = ("--allow-downgrades", "--fix-broken", "--reinstall", "install")
        code, out, err = self.apt_get(*again, *half)
        if (code and UNKNOWN.search(err)) or "cannot be downloaded" in out + err:
            # Of a version that no mirror has any more: only its record keeps it.
            self.run("dpkg", "--remove", "--force-remove-reinstreq", "--force-depends", *half)
            code, out, err = self.apt_get("--fix-broken", "install")
        self.must(what, (code, out, err))
        if half := self.interrupted():
            self.fail(what, f"E: still half-way: {' '.join(half)}")

    def refresh(self) -> None:
        """Fetch the index anew, once a run."""
        if self.refreshed:
            return
        what = "the package index could not be refreshed, the one from before is kept"
        result = self.apt_get("update")
        if result[0] and DAMAGED_INDEX.search(result[2]):
            self.drop_index()
            result = self.apt_get("update")
        self.must(what, result)
        (self.directories()[0] / "phonerack-refreshed").touch()
        self.refreshed = True

    def drop_index(self) -> None:
        """Remove an index that a power cut has damaged: apt would trip over it for ever."""
        for file in self.directories()[0].iterdir():
            if file.is_file() and file.name != "lock":
                file.unlink()
        for cache in (self.prefix / "var/cache/apt").glob("*pkgcache.bin"):
            cache.unlink()

    def index_is_fresh(self, valid_seconds: float) -> bool:
        stamp = self.directories()[0] / "phonerack-refreshed"
        try:
            age = time.time() - stamp.stat().st_mtime
        except FileNotFoundError:
            return False
        # A phone whose clock was reset has a stamp from the future: that is not fresh.
        return 0 <= age < valid_seconds

    # --- changing ----------------------------------------------------------------------------

    def simulate(self, action: Iterable[str]) -> tuple[int, str, str]:
        """apt's plan; the index is refreshed when it is damaged or does not know a package."""
        code, out, err = self.apt_get("--simulate", *action)
        if code == 0 or self.refreshed or self.module.check_mode:
            return code, out, err
        if DAMAGED_INDEX.search(err):
            self.drop_index()
        elif not UNKNOWN.search(err):
            return code, out, err
        self.refresh()
        return self.apt_get("--simulate", *action)

    def apply(self, action: list[str], changes: list[Change]) -> None:
        """Download, read every archive, look at the space, and only then let dpkg begin."""
        what = "nothing was installed"
        said = self.must(what, self.apt_get("--download-only", *action))
        largest = self.verify_archives(changes)
        # dpkg lays a package's new files beside its old ones.
        need, free = parse_growth(said) + largest, self.free_bytes()
        if need > free:
            self.run("apt-get", "clean")
            raise AptError(
                f"{what}: {need // MEBI} MiB are needed, {free // MEBI} MiB are free on the "
                "phone (`fleetctl jobs --prune` removes old runs; take data sets away; then rerun)"
            )
        result = self.apt_get(*action)
        if result[0]:
            if NO_SPACE.search(result[1] + result[2]):
                self.run("apt-get", "clean")
            # What can be finished is, so that no package stays half-way.
            self.run("dpkg", "--configure", "-a", "--force-confdef", "--force-confold")
            half = self.interrupted()
            what = "not all was installed, no package is half-way"
            if half:
                what = f"left half-way, a rerun completes them: {' '.join(half)}"
        self.must(what, result)
        self.run("apt-get", "clean")  # torch's archive alone takes as much room as a run

    def verify_archives(self, changes: list[Change]) -> int:
        """Read every downloaded archive to its end; delete a bad one, so a rerun fetches it.

        Returns the unpacked size of the largest package that takes another's place, in bytes.
        """
        archives, largest = self.directories()[1], 0
        for change in changes:
            if change.after is None:
                continue
            version = change.after.replace(":", "%3a")
            archive = archives / f"{change.name}_{version}_{change.arch}.deb"
            if not archive.exists():  # a file: repository is used in place
                continue
            code, out, err = self.run("dpkg-deb", "--contents", str(archive))
            if code:
                archive.unlink()
                self.fail(f"nothing was installed, {archive.name} is corrupt", out + err)
            size = self.run("dpkg-deb", "--field", str(archive), "Installed-Size")[1].strip()
            if change.before is not None and size.isdigit():
                largest = max(largest, int(size) * 1024)
        return largest
