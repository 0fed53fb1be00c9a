"""Releases on a rack: going back to a former one, and forward again."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from test_site import recap

from fleetctl.provision import release

pytestmark = pytest.mark.standin

FORMER = "0.0.9+former00"


def add_former(present: str, releases: Path, key: Path) -> None:
    """A release before the present one: the same files under another version."""
    (bundle,) = releases.glob(f"phonerack-{present}-*.tar.gz")
    with tarfile.open(bundle) as archive:
        content = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    manifest = json.loads(content.pop(release.MANIFEST))
    content.pop(release.SIGNATURE)
    del manifest["files"]
    about = {**manifest, "version": FORMER}
    path = releases / f"phonerack-{FORMER}-{manifest['target']}.tar.gz"
    path.write_bytes(release.pack(content, about, key))


def test_going_back_and_forward_again(provisioned_rack):
    rack = provisioned_rack

    def releases() -> list[str]:
        configuration = str(rack.folder / "ssh_config")
        command = "readlink phonerack/current phonerack/previous; true"
        return rack.run("ssh", "-F", configuration, "phone001", command).stdout.split()

    present = releases()[0]
    add_former(Path(present).name, rack.folder / "releases", rack.folder / "ssh/release")
    limited = ("-t", "release", "-l", "phone001")

    rack.playbook(*limited, "-e", f"release_version={FORMER}")
    assert releases() == [f"releases/{FORMER}", present]

    rack.playbook(*limited)
    assert releases() == [present, f"releases/{FORMER}"]
    assert recap(rack.playbook(*limited).stdout)["phone001"]["changed"] == 0
