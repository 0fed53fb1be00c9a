"""What enrolment brings along: the three apps, and the packages by which ssh comes to a phone.

While a phone's port carries adb it has no network, so all of it comes from the operator's folders.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cmp_to_key
from pathlib import Path

from fleetctl.provision.android import TERMUX_APPS
from fleetctl.provision.apk import Apk, ApkError, read_apk
from fleetctl.rack import InputError

FIRST_PACKAGES = ("openssh", "termux-services")
"""With these a phone answers ssh, and goes on doing so after a reboot."""

_SOURCES = "F-Droid or Termux's GitHub releases, all three from the same"


@dataclass(frozen=True, slots=True)
class Luggage:
    """All that enrolment brings to a phone."""

    apks: tuple[Apk, ...]
    debs: tuple[Path, ...]

    def apps_for(self, abis: Iterable[str]) -> dict[str, Apk]:
        """The newest of each app that such a phone can run, by package. Raises InputError."""
        wanted = set(abis)
        fitting = [apk for apk in self.apks if not apk.abis or apk.abis & wanted]
        best: dict[str, Apk] = {}
        for apk in sorted(fitting, key=lambda apk: (apk.version_code, -len(apk.abis))):
            best[apk.package] = apk
        if missing := [name for name in TERMUX_APPS if name not in best]:
            raise InputError(
                f"no package of {', '.join(missing)} for {', '.join(sorted(wanted))} in the apks "
                f"folder: get the universal or the arm64-v8a one"
            )
        return {name: best[name] for name in TERMUX_APPS}


def gather(apks: Path, packages: Path) -> Luggage:
    """What lies in the operator's folders. Raises InputError: missing, or wrong."""
    return Luggage(read_apps(apks), closure(packages, FIRST_PACKAGES))


def read_apps(folder: Path) -> tuple[Apk, ...]:
    """The packages of Termux and its add-ons. Raises InputError: missing, or of several signers."""
    found = []
    for path in sorted(folder.glob("*.apk")):
        try:
            found.append(read_apk(path))
        except ApkError as problem:
            raise InputError(str(problem)) from None
    ours = [apk for apk in found if apk.package in TERMUX_APPS]
    if missing := [name for name in TERMUX_APPS if name not in {apk.package for apk in ours}]:
        raise InputError(
            f"{', '.join(missing)}: no package in {folder}; put the .apk files of Termux, "
            f"Termux:API and Termux:Boot there, from {_SOURCES}"
        )
    by_signer: dict[str, list[str]] = {}
    for apk in ours:
        by_signer.setdefault(apk.signer, []).append(apk.path.name)
    if len(by_signer) > 1:
        groups = "; ".join(
            f"{', '.join(names)} by {signer[:16]}…" for signer, names in by_signer.items()
        )
        raise InputError(
            f"the apps in {folder} are signed by different keys, and Android lets only apps of one "
            f"key share their data: {groups}; take all three from {_SOURCES}"
        )
    return tuple(ours)


def closure(folder: Path, wanted: Iterable[str]) -> tuple[Path, ...]:
    """Files of these packages and of what they need, as far as the folder has it.

    What is not there is taken to be part of Termux itself; the phone's dpkg has the last word.
    Raises InputError when one of `wanted` is missing.
    """
    todo, files = list(wanted), dict[str, Path]()
    missing = []
    while todo:
        name = todo.pop(0)
        if name in files:
            continue
        candidates = list(folder.glob(f"{name}_*.deb"))
        if not candidates:
            if name in wanted:
                missing.append(name)
            continue
        files[name] = max(candidates, key=cmp_to_key(_compare_files))
        todo += depends(_control(files[name]))
    if missing:
        raise InputError(
            f"no package {', '.join(missing)} in {folder}: put Termux's .deb files of "
            f"{', '.join(wanted)} and of what they need there"
        )
    return tuple(sorted(files.values()))


def depends(control: Mapping[str, str]) -> list[str]:
    """Names of what a package needs, the first of each choice."""
    fields = ", ".join(control.get(field, "") for field in ("Pre-Depends", "Depends"))
    names = (part.split("|")[0] for part in fields.split(","))
    return [
        found[0] for name in names if (found := re.match(r"[a-z0-9][a-z0-9+.-]*", name.strip()))
    ]


def _control(deb: Path) -> dict[str, str]:
    """Raises InputError for what is no package."""
    said = _run("dpkg-deb", "--field", str(deb))
    if said.returncode:
        raise InputError(f"{deb} is no package: {said.stderr.strip()}; put a good one there")
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", said.stdout, re.MULTILINE))


def _compare_files(one: Path, other: Path) -> int:
    """By version, which stands between the first two underscores of a file's name."""
    versions = [path.name.split("_")[1].replace("%3a", ":") for path in (one, other)]
    if versions[0] == versions[1]:
        return 0
    newer = _run("dpkg", "--compare-versions", versions[0], "gt", versions[1])
    return 1 if newer.returncode == 0 else -1


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError(
            f"`{command[0]}` is not installed: the controller must be Debian"
        ) from None
