"""What is installed: the release, and the Termux packages that training depends on."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator

from exporters.metrics import PACKAGE_INFO, RELEASE_INFO, TERMUX_INFO, Sample
from exporters.sources import Layout, Source, Unavailable, read_text

PACKAGES = (
    "openmpi",
    "openssh",
    "python",
    "python-numpy",
    "python-torch",
    "python-torchvision",
    "termux-api",
)


def sources(layout: Layout) -> list[Source]:
    return [
        Source("release", lambda: list(release(layout)), every_seconds=60.0),
        Source("packages", lambda: list(packages(layout)), every_seconds=300.0),
        Source("termux", lambda: list(termux(layout)), every_seconds=300.0),
    ]


def release(layout: Layout) -> Iterator[Sample]:
    manifest = json.loads(read_text(layout.folder / "current/manifest.json"))
    try:
        version, target = manifest["version"], manifest["target"]
    except (KeyError, TypeError):
        raise Unavailable("the manifest of the release names no version or target") from None
    yield RELEASE_INFO.sample(1, str(version), str(target))


def packages(layout: Layout) -> Iterator[Sample]:
    """From dpkg's own record, in which each package is a paragraph."""
    found = 0
    for paragraph in read_text(layout.prefix / "var/lib/dpkg/status").split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if line.startswith(("Package: ", "Version: ", "Status: "))
        )
        installed = fields.get("Status", "").endswith(" installed")
        if installed and fields.get("Package") in PACKAGES:
            found += 1
            yield PACKAGE_INFO.sample(1, fields["Package"], fields.get("Version", "unknown"))
    if not found:
        raise Unavailable("dpkg's status names none of the packages that training needs")


def termux(layout: Layout) -> Iterator[Sample]:
    """The app, by what it tells its programs, or keeps in a file for those that sshd starts. An old
    app tells nobody: then nothing is known, which is no fault of this source."""
    version = os.environ.get("TERMUX_VERSION", "")
    with contextlib.suppress(OSError):
        kept = read_text(layout.prefix / "etc/termux/termux.env")
        told = re.search(r"^export TERMUX_VERSION=[\"']?([^\"'\s]+)", kept, re.MULTILINE)
        version = told[1] if told else version
    if version:
        yield TERMUX_INFO.sample(1, version)
