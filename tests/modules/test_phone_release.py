"""phone_release: a bundle is verified before it is used, and the one before it stays."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from termux_prefix import ModuleFailure

TARGET = "linux-x86_64"


def bundle(
    folder: Path, version: str, target: str = TARGET, spoil: str = "", stray: bool = False
) -> Path:
    """A bundle of two files; `spoil` names one whose content does not fit the manifest."""
    files = {"python/app.py": f"print('{version}')\n", "lib/libx.so": version}
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    manifest = {"version": version, "target": target, "files": digests}
    members = {**files, "manifest.json": json.dumps(manifest)}
    if spoil:
        members[spoil] += "x"
    if stray:
        members["python/stray.py"] = "import os\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"phonerack-{version}-{target}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "phonerack"


@pytest.fixture
def install(run_module, root: Path) -> Callable[..., dict[str, Any]]:
    def run(version: str, check: bool = False, **spoiled: Any) -> dict[str, Any]:
        archive = bundle(root / "releases", version, **spoiled)
        options = {"archive": str(archive), "root": str(root), "version": version}
        return run_module("phone_release", check=check, target=TARGET, **options)

    return run


def current(root: Path) -> str:
    return (root / "current").resolve().name


def test_installs_and_then_changes_nothing(install, root):
    assert install("1.0")["changed"] is True
    assert (root / "current/python/app.py").read_text() == "print('1.0')\n"
    assert install("1.0")["changed"] is False


def test_keeps_the_one_before_and_removes_older_ones(install, root):
    for version in ("1.0", "1.1", "1.2"):
        result = install(version)

    assert current(root) == "1.2"
    assert (root / "previous").resolve().name == "1.1"
    assert result["removed"] == ["1.0"]
    assert sorted(path.name for path in (root / "releases").iterdir()) == [
        "1.1",
        "1.2",
        "phonerack-1.2-linux-x86_64.tar.gz",
    ]


def test_going_back_to_the_version_before(install, root):
    for version in ("1.0", "1.1", "1.0"):
        install(version)

    assert current(root) == "1.0"
    assert (root / "previous").resolve().name == "1.1"


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        ({"spoil": "lib/libx.so"}, "lib/libx.so is corrupt"),
        ({"stray": True}, "python/stray.py"),
        ({"target": "linux-aarch64"}, "target linux-aarch64, this phone needs linux-x86_64"),
        ({"spoil": "manifest.json"}, "manifest.json cannot be read"),
    ],
)
def test_a_bad_bundle_changes_nothing(install, root, spoiled, reason):
    install("1.0")

    with pytest.raises(ModuleFailure) as failure:
        install("1.1", **spoiled)

    assert reason in failure.value.result["msg"]
    assert current(root) == "1.0"
    assert not (root / "releases/1.1").exists()


def test_a_truncated_bundle_changes_nothing(install, root, run_module):
    install("1.0")
    archive = bundle(root / "releases", "1.1")
    archive.write_bytes(archive.read_bytes()[:120])

    with pytest.raises(ModuleFailure) as failure:
        run_module(
            "phone_release", archive=str(archive), root=str(root), version="1.1", target=TARGET
        )

    assert "the release before stays" in failure.value.result["msg"]
    assert current(root) == "1.0"


def test_a_bundle_cannot_write_outside_its_folder(install, root, run_module, tmp_path):
    archive = root / "releases/evil.tar.gz"
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as evil:
        evil.addfile(tarfile.TarInfo("../../escaped"))

    with pytest.raises(ModuleFailure):
        run_module(
            "phone_release", archive=str(archive), root=str(root), version="1.1", target=TARGET
        )

    assert not (tmp_path / "escaped").exists()
    assert not (root / "escaped").exists()


def test_a_damaged_release_is_replaced(install, root):
    install("1.0")
    (root / "current/python/app.py").write_text("damaged\n")

    assert install("1.0")["changed"] is True
    assert (root / "current/python/app.py").read_text() == "print('1.0')\n"


def test_bytecode_of_a_running_release_is_no_damage(install, root):
    install("1.0")
    cache = root / "current/python/__pycache__"
    cache.mkdir()
    (cache / "app.pyc").write_bytes(b"")

    assert install("1.0")["changed"] is False


def test_check_mode_says_so_and_leaves_the_link(install, root):
    install("1.0")

    result = install("1.1", check=True)

    assert result["changed"] is True
    assert result["diff"] == {"before": "current: 1.0\n", "after": "current: 1.1\n"}
    assert current(root) == "1.0"


def test_an_unpacking_that_was_cut_off_is_completed(install, root):
    partial = root / "releases/.1.0.partial"
    partial.mkdir(parents=True)
    (partial / "half").touch()

    assert install("1.0")["changed"] is True
    assert current(root) == "1.0"
    assert not partial.exists()
