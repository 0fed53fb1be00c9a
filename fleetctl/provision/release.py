"""Build the bundle of what this project runs on a phone.

`python -m fleetctl.provision.release --target TARGET --out FOLDER` writes
phonerack-VERSION-TARGET.tar.gz and prints one JSON line about it. The version ends in a hash of
the sources, so equal sources give equal versions on all targets, and a bundle that is there
already is used again. Layout: manifest.json, python/ (packages for PYTHONPATH), lib/.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from fleetctl import __version__
from fleetctl.errors import ExitCode, FleetError
from trainer.formats import write_atomic

HOSTNAME_LIBRARY = "libphonerack_hostname.so"
MANIFEST = "manifest.json"
TARGETS = {
    "termux-aarch64": "aarch64-linux-android",
    "linux-aarch64": "aarch64-linux-musl",
    "linux-x86_64": "x86_64-linux-musl",
}
"""Our targets and zig's names for them. The library needs no C library, so none is implied."""

_ROOT = Path(__file__).resolve().parents[2]
_OWN_PACKAGES = ("trainer", "exporters")
_NATIVE_SOURCE = Path("trainer/native/hostname.c")
_VENDORED = "prometheus-client"
_COMPILER_FLAGS = (
    "-shared", "-nostdlib", "-ffreestanding", "-fno-builtin", "-fPIC", "-O2", "-g0", "-s",
    "-fno-stack-protector", "-fno-sanitize=all", "-fvisibility=hidden", "-Wall", "-Werror",
    # Android 15 has kernels with pages of 16 KiB; 64 KiB suits any.
    "-Wl,-z,max-page-size=65536", f"-Wl,-soname,{HOSTNAME_LIBRARY}",
)  # fmt: skip


class ReleaseError(FleetError):
    """A bundle cannot be built."""


class UnknownTargetError(ReleaseError):
    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that lies ready; `changed` says whether it was written just now."""

    version: str
    target: str
    bundle: str
    sha256: str
    changed: bool


def build(target: str, folder: Path) -> Bundle:
    """The bundle of the present sources for `target` in `folder`. Raises ReleaseError."""
    if target not in TARGETS:
        raise UnknownTargetError(f"{target}: no such target; known: {', '.join(TARGETS)}")
    python = _python_files()
    source = (_ROOT / _NATIVE_SOURCE).read_bytes()
    version = _version({**python, str(_NATIVE_SOURCE): source})
    path = folder / f"phonerack-{version}-{target}.tar.gz"
    changed = not is_whole(path)
    if changed:
        files = {**python, f"lib/{HOSTNAME_LIBRARY}": _compile(target)}
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, _pack(files, version, target))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Bundle(version, target, str(path), digest, changed)


def is_whole(path: Path) -> bool:
    """Whether a bundle is there, can be read, and holds what its manifest says."""
    try:
        with tarfile.open(path) as archive:
            content = {
                member.name: file.read()
                for member in archive
                if (file := archive.extractfile(member)) is not None
            }
        stated: dict[str, str] = json.loads(content.pop(MANIFEST))["files"]
    except (OSError, EOFError, tarfile.TarError, KeyError, ValueError):
        return False
    return stated == {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}


def _python_files() -> dict[str, bytes]:
    """All modules that go to phones: ours, and the one pure-Python dependency that Termux does
    not package, with its licence."""
    files = {
        f"python/{path.relative_to(_ROOT)}": path.read_bytes()
        for package in _OWN_PACKAGES
        for path in (_ROOT / package).rglob("*.py")
    }
    for entry in metadata.files(_VENDORED) or ():
        if entry.suffix == ".py":
            files[f"python/{entry}"] = entry.read_binary()
        elif "licenses" in entry.parts:
            files[f"python/prometheus_client/{entry.name}"] = entry.read_binary()
    return files


def _version(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for part in (metadata.version("ziglang"), *_COMPILER_FLAGS):
        digest.update(part.encode() + b"\0")
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{__version__}+{digest.hexdigest()[:8]}"


def _compile(target: str) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / HOSTNAME_LIBRARY
        compiler = [sys.executable, "-m", "ziglang", "cc", f"--target={TARGETS[target]}"]
        done = subprocess.run(
            [*compiler, *_COMPILER_FLAGS, "-o", str(library), str(_ROOT / _NATIVE_SOURCE)],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise ReleaseError(f"{_NATIVE_SOURCE} for {target}: {done.stderr.strip()}")
        return library.read_bytes()


def _pack(files: Mapping[str, bytes], version: str, target: str) -> bytes:
    """A tar.gz that depends on nothing but its arguments: no times, no owners."""
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = {"version": version, "target": target, "files": checksums}
    content = {MANIFEST: (json.dumps(manifest, indent=1) + "\n").encode(), **files}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(content.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.release")
    parser.add_argument("--target", required=True, help=", ".join(TARGETS))
    parser.add_argument("--out", required=True, type=Path, help="folder of the bundles")
    options = parser.parse_args()
    try:
        bundle = build(options.target, options.out)
    except ReleaseError as problem:
        print(f"release: {problem}", file=sys.stderr)
        return problem.exit_code
    except OSError as problem:
        print(f"release: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return ExitCode.FAILED
    print(json.dumps(asdict(bundle)))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
