#!/usr/bin/python
"""Install a signed release bundle on a phone and switch to it."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import http.client
import json
import os
import shutil
import tarfile
import tempfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: phone_release
short_description: Verify, unpack and switch to a signed release bundle
description:
  - Before anything is unpacked, the manifest's signature, its version and target, what it needs of
    the processor, and the SHA-256 of every file are checked.
  - Unpacks beside the releases that are there, and then switches the link C(current), in one step.
    Whatever fails before leaves the running release as it is.
  - The release before stays, under the link C(previous); older ones go. Going back to it needs no
    bundle.
options:
  archive:
    description: The bundle, already on the phone.
    type: path
  url:
    description: Where the phone gets the bundle itself, if it needs it. Not through a proxy.
    type: str
  sha256:
    description: Checksum of what O(url) gives.
    type: str
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
  signers:
    description: The allowed signers, as ssh-keygen has them in a file.
    type: str
    required: true
  signer:
    description: Who of them must have signed.
    type: str
    required: true
attributes:
  check_mode:
    support: full
    description: The bundle is not fetched, so what is wrong with it is not seen.
  diff_mode:
    support: full
author: phonerack
"""

EXAMPLES = r"""
- name: Install the release
  phone_release:
    url: http://10.138.0.2/releases/phonerack-1.0-termux-aarch64.tar.gz
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    root: "{{ termux_home }}/phonerack"
    version: "1.0"
    target: termux-aarch64
    signers: release@rack1 namespaces="phonerack-release" ssh-ed25519 AAAA…
    signer: release@rack1
"""

RETURN = r"""
removed:
  description: Versions that were deleted, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "phonerack-release"
MOST_BYTES = 1 << 20
"""Of a manifest or a signature."""
DOWNLOAD_TIMEOUT_SECONDS = 30

AT_HWCAP, AT_HWCAP2 = 16, 26
# The kernel's names of the bits that it tells a process about an arm64 processor.
HWCAP = (
    *("fp", "asimd", "evtstrm", "aes", "pmull", "sha1", "sha2", "crc32", "atomics", "fphp"),
    *("asimdhp", "cpuid", "asimdrdm", "jscvt", "fcma", "lrcpc", "dcpop", "sha3", "sm3", "sm4"),
    *("asimddp", "sha512", "sve", "asimdfhm", "dit", "uscat", "ilrcpc", "flagm", "ssbs", "sb"),
    *("paca", "pacg"),
)
HWCAP2 = (
    *("dcpodp", "sve2", "sveaes", "svepmull", "svebitperm", "svesha3", "svesm4", "flagm2"),
    *("frint", "svei8mm", "svef32mm", "svef64mm", "svebf16", "i8mm", "bf16", "dgh", "rng"),
    *("bti", "mte"),
)


class BadRelease(Exception):
    """A release that must not be used, with the reason."""


class Wanted(NamedTuple):
    """What a release must be, and how its manifest's signature is verified."""

    version: str
    target: str
    verify: Callable[[bytes, Path], None]
    """Raises BadRelease unless the file holds a good signature under the bytes."""

    def read(self, manifest: bytes, signature: Path) -> dict[str, str]:
        """The checksums of a manifest that this phone may use. Raises BadRelease."""
        self.verify(manifest, signature)
        try:
            content = json.loads(manifest)
            found = {"version": content["version"], "target": content["target"]}
            cpu, files = content["cpu"], content["files"]
            machine, processor = cpu["machine"], cpu["processor"]
            needed = set(cpu["features"])
        except (ValueError, LookupError, TypeError) as problem:
            raise BadRelease(f"its {MANIFEST} cannot be read: {problem!r}") from None
        for field, wanted in (("version", self.version), ("target", self.target)):
            if found[field] != wanted:
                raise BadRelease(f"it has {field} {found[field]}, this phone needs {wanted}")
        if os.uname().machine != machine:
            raise BadRelease(
                f"it is for {machine}, this processor is {os.uname().machine}: "
                "give the phone its own `target` in the rack file"
            )
        if missing := sorted(needed - processor_features()):
            raise BadRelease(
                f"it is compiled for {processor} and needs {', '.join(missing)}, which this "
                "processor lacks: take the phone out of the rack file, or compile for an older "
                "processor (docs/operations.md, Releases)"
            )
        return dict(files)


def processor_features() -> set[str]:
    """What the kernel says that this processor has, in the words of /proc/cpuinfo."""
    if os.uname().machine == "aarch64":
        # /proc/cpuinfo may be hidden from an app; this cannot be.
        libc = ctypes.CDLL(None)
        libc.getauxval.argtypes, libc.getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
        found = set()
        for kind, names in ((AT_HWCAP, HWCAP), (AT_HWCAP2, HWCAP2)):
            bits = libc.getauxval(kind)
            found |= {name for bit, name in enumerate(names) if bits >> bit & 1}
        return found
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    return set(flags.partition(":")[2].split())


def verifier(module: AnsibleModule) -> Callable[[bytes, Path], None]:
    """Verifies by ssh-keygen that the wanted signer signed."""
    signer = module.params["signer"]
    program = module.get_bin_path("ssh-keygen")

    def verify(content: bytes, signature: Path) -> None:
        if program is None:
            raise BadRelease("there is no ssh-keygen here to verify it: install package openssh")
        if not signature.exists():
            raise BadRelease("it is not signed")
        with tempfile.NamedTemporaryFile("w") as signers:
            signers.write(module.params["signers"] + "\n")
            signers.flush()
            options = ["-n", NAMESPACE, "-I", signer, "-f", signers.name, "-s", str(signature)]
            code, _, said = module.run_command(
                [program, "-Y", "verify", *options], data=content, binary_data=True
            )
        if code != 0:
            raise BadRelease(f"it is not signed by {signer}: {said.strip()}")

    return verify


def sha256(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def verify_installed(folder: Path, wanted: Wanted) -> None:
    """Check a release that lies unpacked. Raises BadRelease."""
    try:
        manifest = (folder / MANIFEST).read_bytes()
    except OSError as problem:
        raise BadRelease(f"its {MANIFEST} cannot be read: {problem}") from None
    files = wanted.read(manifest, folder / SIGNATURE)
    present = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    # Python writes its bytecode beside the modules that it runs.
    present = {name for name in present if "__pycache__" not in name}
    if stray := sorted(present ^ files.keys() ^ {MANIFEST, SIGNATURE}):
        raise BadRelease(f"manifest and files differ: {', '.join(stray[:3])}")
    for name, digest in files.items():
        with (folder / name).open("rb") as file:
            if sha256(file) != digest:
                raise BadRelease(f"{name} is corrupt")


def verify_archive(archive: tarfile.TarFile, wanted: Wanted) -> None:
    """Check a bundle before any of it is unpacked. Raises BadRelease."""
    members = iter(archive)
    first = {}
    for name in (MANIFEST, SIGNATURE):
        member = next(members, None)
        if member is None or member.name != name or member.size > MOST_BYTES:
            what = "it is not signed" if name == SIGNATURE else f"it does not begin with {name}"
            raise BadRelease(what)
        first[name] = opened(archive, member).read()
    with tempfile.NamedTemporaryFile() as signature:
        signature.write(first[SIGNATURE])
        signature.flush()
        missing = wanted.read(first[MANIFEST], Path(signature.name))
    for member in members:
        if member.name not in missing:
            raise BadRelease(f"manifest and files differ: {member.name}")
        if sha256(opened(archive, member)) != missing.pop(member.name):
            raise BadRelease(f"{member.name} is corrupt")
    if missing:
        raise BadRelease(f"manifest and files differ: {', '.join(sorted(missing)[:3])}")


def opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    file = archive.extractfile(member) if member.isreg() else None
    if file is None:
        raise BadRelease(f"{member.name} is no plain file")
    return file  # type: ignore[return-value]


class Releases:
    """The releases of one phone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "releases"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Two installations at once would unpack into each other: the second waits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.root / ".releases.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

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

    def is_whole(self, wanted: Wanted) -> bool:
        try:
            verify_installed(self.folder / wanted.version, wanted)
        except BadRelease:
            return False
        return True

    def unpack(self, file: BinaryIO, wanted: Wanted) -> None:
        """Verify, unpack in a folder of its own, verify again, then rename it into place."""
        partial = self.folder / f".{wanted.version}.partial"
        damaged = self.folder / f".{wanted.version}.damaged"
        release = self.folder / wanted.version
        for leftover in (partial, damaged):
            shutil.rmtree(leftover, ignore_errors=True)
        try:
            with tarfile.open(fileobj=file) as archive:
                verify_archive(archive, wanted)
                partial.mkdir()
                archive.extractall(partial, filter="data")
            verify_installed(partial, wanted)
            os.sync()
            if release.exists():
                release.rename(damaged)
            partial.rename(release)
        finally:
            for leftover in (partial, damaged):
                shutil.rmtree(leftover, ignore_errors=True)

    def outdated(self, kept: set[str | None]) -> list[str]:
        """Versions beside those that are kept."""
        if not self.folder.is_dir():
            return []
        versions = {p.name for p in self.folder.iterdir() if p.is_dir() and p.name[0] != "."}
        return sorted(versions - kept)

    def remove(self, versions: list[str], archive: Path | None) -> None:
        for version in versions:
            shutil.rmtree(self.folder / version)
        for old in self.folder.glob("*.tar.gz"):
            if old != archive:
                old.unlink()


@contextlib.contextmanager
def bundle(module: AnsibleModule, folder: Path) -> Iterator[BinaryIO]:
    """The bundle, opened; what is downloaded goes again."""
    if module.params["archive"]:
        with Path(module.params["archive"]).open("rb") as file:
            yield file
        return
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".download.") as download:
        fetch(module.params["url"], download)
        download.seek(0)
        if sha256(download) != module.params["sha256"]:
            raise BadRelease("what was downloaded has another checksum than the controller's")
        download.seek(0)
        yield download


def fetch(url: str, target: Any) -> None:
    # The services host stands in the phone's own network.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=DOWNLOAD_TIMEOUT_SECONDS) as source:
            shutil.copyfileobj(source, target)
        target.flush()
    except http.client.HTTPException as problem:
        raise BadRelease(f"the download broke off: {problem!r}") from None


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Bring the phone to the wanted release and describe the difference."""
    releases, version = Releases(Path(module.params["root"])), module.params["version"]
    wanted = Wanted(version, module.params["target"], verifier(module))
    with contextlib.nullcontext() if module.check_mode else releases.alone():
        current = releases.linked("current")
        whole = releases.is_whole(wanted)
        previous = releases.linked("previous") if current in (None, version) else current
        outdated = releases.outdated({version, previous})
        changed = not whole or current != version or bool(outdated)
        if changed and not module.check_mode:
            if not whole:
                with bundle(module, releases.folder) as file:
                    releases.unpack(file, wanted)
            if previous is not None and previous != version:
                releases.link("previous", previous)
            releases.link("current", version)
            archive = module.params["archive"]
            releases.remove(outdated, Path(archive) if archive else None)
    return {
        "changed": changed,
        "removed": outdated,
        "diff": {"before": f"current: {current}\n", "after": f"current: {version}\n"},
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "path"},
            "url": {"type": "str"},
            "sha256": {"type": "str"},
            "root": {"type": "path", "required": True},
            "version": {"type": "str", "required": True},
            "target": {"type": "str", "required": True},
            "signers": {"type": "str", "required": True},
            "signer": {"type": "str", "required": True},
        },
        mutually_exclusive=[("archive", "url")],
        required_one_of=[("archive", "url")],
        required_together=[("url", "sha256")],
        supports_check_mode=True,
    )
    try:
        result = ensure(module)
    except (BadRelease, tarfile.TarError, zlib.error, EOFError, OSError) as problem:
        source = module.params["archive"] or module.params["url"]
        module.fail_json(
            msg=f"{source} is not installed, the release before stays: {problem or repr(problem)}"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
