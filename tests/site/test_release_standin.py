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
PREFIX = "/data/data/com.termux/files/usr"
EXPORTER = f"{PREFIX}/var/service/phonerack-exporter"


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


@pytest.mark.soak
def test_going_back_and_forward_again(provisioned_rack):
    rack = provisioned_rack

    def releases() -> list[str]:
        configuration = str(rack.folder / "ssh_config")
        command = "readlink phonerack/current phonerack/previous; true"
        return rack.run("ssh", "-F", configuration, "phone001", command).stdout.split()

    def exporter() -> str:
        """The process that serves the phone's metrics."""
        said = rack.podman("phone001", PREFIX + "/bin/sv", "status", EXPORTER).stdout
        return said.split("(pid ")[1].split(")")[0]

    present, first = releases()[0], exporter()
    add_former(Path(present).name, rack.folder / "releases", rack.folder / "ssh/release")
    limited = ("-t", "release", "-l", "phone001")

    rack.playbook(*limited, "-e", f"release_version={FORMER}")
    assert releases() == [f"releases/{FORMER}", present]
    second = exporter()
    assert second != first, "it goes on with the release's code that was there before"

    rack.playbook(*limited)
    assert releases() == [present, f"releases/{FORMER}"]
    third = exporter()
    assert third not in (first, second)
    assert recap(rack.playbook(*limited).stdout)["phone001"]["changed"] == 0
    assert exporter() == third
