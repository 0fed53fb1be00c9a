"""Build the signed bundle of what this project runs on a phone.

`python -m fleetctl.provision.release --target TARGET --out FOLDER --key KEY` writes
phonerack-VERSION-TARGET.tar.gz and prints one JSON line about it. The version ends in a hash of
the sources, so equal sources give equal versions on all targets; equal sources and an equal key
give equal bytes. A bundle that is there already is used again. `--version` names one that was
built before, to go back to it.

Layout: manifest.json, manifest.json.sig (ssh-keygen's signature under the manifest), then
python/ (packages for PYTHONPATH) and lib/. The manifest has the SHA-256 of every file and what
the processor of the phone must have.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path

from fleetctl import __version__
from fleetctl.errors import ExitCode, FleetError
from fleetctl.provision import native, signing
from fleetctl.provision.native import TARGETS
from trainer.formats import write_atomic

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
FORMAT = 2
"""Of bundle and manifest; another one makes another version of equal sources."""

_ROOT = Path(__file__).resolve().parents[2]
_OWN_PACKAGES = ("trainer", "exporters")
_NOT_FOR_PHONES = ("exporters/switches", "exporters/dashboards")
_VENDORED = "prometheus-client"


class ReleaseError(FleetError):
    """A bundle cannot be built or used."""


class UnknownTargetError(ReleaseError):
    exit_code = ExitCode.BAD_INPUT


class UnknownVersionError(ReleaseError):
    exit_code = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that lies ready; `changed` says whether it was written just now.

    `signers` is the line that a phone verifies it by. Where it would only be written, `sha256` is
    empty.
    """

    version: str
    target: str
    bundle: str
    sha256: str
    signers: str
    changed: bool


def build(
    target: str, folder: Path, key: Path, *, check: bool = False, processor: str | None = None
) -> Bundle:
    """The bundle of the present sources for `target` in `folder`, signed by `key`.

    With `check` nothing is written. `processor` is another one to compile for than the target's
    own. Raises ReleaseError, CompileError, SigningError.
    """
    made_for = _target(target)
    if processor is not None:
        made_for = replace(made_for, processor=processor)
    python = _python_files()
    version = _version({**python, **native.sources(_ROOT)}, processor)
    path = _path(folder, version, target)
    if is_good(path, key):
        return _describe(path, version, target, key, changed=False)
    if check:
        return Bundle(version, target, str(path), "", signing.allowed_signers(key), changed=True)
    libraries = {
        f"lib/{name}": native.compile_library(_ROOT, name, made_for) for name in native.LIBRARIES
    }
    cpu = {
        "machine": made_for.machine,
        "processor": made_for.processor,
        "features": native.needed_features(made_for),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(
        path, pack({**python, **libraries}, {"version": version, "target": target, "cpu": cpu}, key)
    )
    return _describe(path, version, target, key, changed=True)


def former(version: str, target: str, folder: Path, key: Path) -> Bundle:
    """A bundle that was built before. Raises ReleaseError where it is not there or not good."""
    _target(target)
    path = _path(folder, version, target)
    if not path.exists():
        ending = f"-{target}.tar.gz"
        there = [each.name for each in folder.glob(f"phonerack-*{ending}")]
        versions = ", ".join(
            sorted(name.removeprefix("phonerack-").removesuffix(ending) for name in there)
        )
        raise UnknownVersionError(
            f"{version} for {target} is not in {folder}; there are: {versions or 'none'}"
        )
    if not is_good(path, key):
        raise ReleaseError(
            f"{path} is damaged, or not signed by {key}: check that version of the project out "
            "and run site.yml -t release from there"
        )
    return _describe(path, version, target, key, changed=False)


def is_good(path: Path, key: Path) -> bool:
    """Whether a bundle is there, can be read, holds what its manifest says, and is signed by
    `key` as it stands now."""
    try:
        with tarfile.open(path) as archive:
            content = {
                member.name: file.read()
                for member in archive
                if (file := archive.extractfile(member)) is not None
            }
        signature, manifest = content.pop(SIGNATURE), content.pop(MANIFEST)
        stated: dict[str, str] = json.loads(manifest)["files"]
    except (OSError, EOFError, tarfile.TarError, KeyError, ValueError):
        return False
    found = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    return stated == found and signing.is_signed(key, manifest, signature)


def pack(files: Mapping[str, bytes], about: Mapping[str, object], key: Path) -> bytes:
    """A tar.gz that depends on nothing but its arguments: no times, no owners.

    The manifest and its signature stand first, so that a phone can refuse before it reads on.
    """
    checksums = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    manifest = (json.dumps({**about, "files": checksums}, indent=1) + "\n").encode()
    first = {MANIFEST: manifest, SIGNATURE: signing.sign(key, manifest)}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in (*first.items(), *sorted(files.items())):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def _target(name: str) -> native.Target:
    if name not in TARGETS:
        raise UnknownTargetError(f"{name}: no such target; known: {', '.join(TARGETS)}")
    return TARGETS[name]


def _path(folder: Path, version: str, target: str) -> Path:
    return folder / f"phonerack-{version}-{target}.tar.gz"


def _describe(path: Path, version: str, target: str, key: Path, *, changed: bool) -> Bundle:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    signers = signing.allowed_signers(key)
    return Bundle(version, target, str(path), digest, signers, changed)


def _python_files() -> dict[str, bytes]:
    """All modules that go to phones: ours, and the one pure-Python dependency that Termux does
    not package, with its licence."""
    files = {
        f"python/{path.relative_to(_ROOT)}": path.read_bytes()
        for package in _OWN_PACKAGES
        for path in (_ROOT / package).rglob("*.py")
        if not any(path.is_relative_to(_ROOT / folder) for folder in _NOT_FOR_PHONES)
    }
    for entry in metadata.files(_VENDORED) or ():
        if entry.suffix == ".py":
            files[f"python/{entry}"] = entry.read_binary()
        elif "licenses" in entry.parts:
            files[f"python/prometheus_client/{entry.name}"] = entry.read_binary()
    return files


def _version(files: Mapping[str, bytes], processor: str | None) -> str:
    digest = hashlib.sha256()
    recipe = (str(FORMAT), metadata.version("ziglang"), *native.recipe(), processor or "")
    for part in recipe:
        digest.update(part.encode() + b"\0")
    for name, content in sorted(files.items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return f"{__version__}+{digest.hexdigest()[:8]}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fleetctl.provision.release")
    parser.add_argument("--target", required=True, help=", ".join(TARGETS))
    parser.add_argument("--out", required=True, type=Path, help="folder of the bundles")
    parser.add_argument("--key", required=True, type=Path, help="the rack's release key")
    parser.add_argument("--version", default="", help="one that was built before")
    parser.add_argument("--check", action="store_true", help="only say what would be built")
    options = parser.parse_args()
    try:
        if options.version:
            bundle = former(options.version, options.target, options.out, options.key)
        else:
            bundle = build(options.target, options.out, options.key, check=options.check)
    except FleetError as problem:
        print(f"release: {problem}", file=sys.stderr)
        return problem.exit_code
    except OSError as problem:
        print(f"release: {problem.filename}: {problem.strerror}", file=sys.stderr)
        return ExitCode.FAILED
    print(json.dumps(asdict(bundle)))
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
