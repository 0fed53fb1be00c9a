"""What is installed: the release, and the Termux packages that training depends on."""

from __future__ import annotations

import json
from collections.abc import Iterator

from exporters.metrics import PACKAGE_INFO, RELEASE_INFO, Sample
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
