"""The operator's folders: apps of one signer, and the packages by which ssh comes to a phone."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.provision.apk import ApkError, java_hash, read_apk
from fleetctl.provision.enrol_files import Luggage, closure, depends, read_apps
from fleetctl.rack import InputError
from standin.android import apk


def write_apps(folder: Path, signers: dict[str, str], debuggable: bool = False) -> None:
    """The three apps, each signed by the signer that is named for it."""
    for name, content in apk.standin_apps(debuggable).items():
        if content.package in signers:
            signer = apk.load_signer(folder.parent / f"{signers[content.package]}.pem")
            (folder / name).write_bytes(apk.build(content, signer))


SAME = dict.fromkeys(("com.termux", "com.termux.api", "com.termux.boot"), "a")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "apks"
    made.mkdir()
    return made


def test_a_package_tells_its_name_version_build_and_signer(folder: Path) -> None:
    write_apps(folder, SAME, debuggable=True)
    found = read_apk(folder / "com.termux_debug.apk")
    assert (found.package, found.version_code, found.version_name) == (
        "com.termux",
        118,
        "0.118.0",
    )
    assert found.debuggable
    assert found.shared_user == "com.termux"
    signer = apk.load_signer(folder.parent / "a.pem")
    assert (found.signer, found.signature) == (signer.digest, signer.signature)


def test_a_signer_is_called_as_java_does() -> None:
    """Values of Arrays.hashCode(new byte[] {…}) by Integer.toHexString."""
    assert java_hash(b"") == "1"
    assert java_hash(b"\x01\x02") == "3e2"
    assert java_hash(b"\xff" * 2) == "3a1"
    assert java_hash(b"\x80" * 8) == "4edc2f01"


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("apksigner") is None, reason="needs apksigner (Debian)")
def test_androids_own_tools_agree(folder: Path) -> None:
    write_apps(folder, SAME)
    path = folder / "com.termux_release.apk"
    said = subprocess.run(
        ["apksigner", "verify", "--min-sdk-version", "28", "--print-certs", str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert f"SHA-256 digest: {read_apk(path).signer}" in said.stdout


def test_apps_of_one_signer_are_taken(folder: Path) -> None:
    write_apps(folder, SAME)
    assert {found.package for found in read_apps(folder)} == set(SAME)


def test_apps_of_several_signers_are_refused_naming_which(folder: Path) -> None:
    write_apps(folder, SAME | {"com.termux.api": "b"})
    with pytest.raises(InputError) as refusal:
        read_apps(folder)
    said = str(refusal.value)
    assert "signed by different keys" in said
    assert "com.termux.api_release.apk by" in said


def test_a_missing_app_is_named_with_the_folder(folder: Path) -> None:
    write_apps(folder, {"com.termux": "a"})
    with pytest.raises(InputError, match=r"com.termux.api, com.termux.boot: no package in .*apks"):
        read_apps(folder)


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", b"PK\3\4 half a package"])
def test_a_file_that_is_no_package_is_named(folder: Path, content: bytes) -> None:
    write_apps(folder, SAME)
    (folder / "broken.apk").write_bytes(content)
    with pytest.raises(InputError, match=r"broken.apk is no Android package"):
        read_apps(folder)


def test_a_package_that_was_cut_off_is_refused(folder: Path) -> None:
    write_apps(folder, SAME)
    path = folder / "com.termux_release.apk"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ApkError):
        read_apk(path)


@given(st.binary(max_size=400))
def test_damage_in_the_manifest_is_an_error_and_no_crash(
    tmp_path_factory: pytest.TempPathFactory, damage: bytes
) -> None:
    import io
    import zipfile

    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("AndroidManifest.xml", b"\3\0\x08\0\0\0\0\0" + damage)
    path = tmp_path_factory.mktemp("damage") / "x.apk"
    path.write_bytes(made.getvalue())
    with pytest.raises(ApkError):
        read_apk(path)


def test_of_several_builds_the_newest_that_fits_the_processor_is_taken(folder: Path) -> None:
    write_apps(folder, SAME)
    found = read_apps(folder)
    termux = next(item for item in found if item.package == "com.termux")
    newer = replace(termux, version_code=119, abis=frozenset({"arm64-v8a"}))
    foreign = replace(termux, version_code=120, abis=frozenset({"x86"}))
    luggage = Luggage((*found, newer, foreign), ())
    assert luggage.apps_for(["arm64-v8a"])["com.termux"].version_code == 119
    assert luggage.apps_for(["x86_64"])["com.termux"].version_code == 118
    only = Luggage((*(item for item in found if item is not termux), foreign), ())
    with pytest.raises(InputError, match=r"no package of com.termux for arm64-v8a"):
        only.apps_for(["arm64-v8a"])


def make_deb(folder: Path, name: str, version: str = "1", needs: str = "") -> Path:
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x\n"
    fields += f"Depends: {needs}\n" if needs else ""
    (tree / "DEBIAN/control").write_text(f"{fields}Description: x\n")
    path = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(path)], check=True, capture_output=True)
    shutil.rmtree(tree)
    return path


def names(files: tuple[Path, ...]) -> list[str]:
    return [path.name.split("_")[0] for path in files]


def test_a_package_brings_what_it_needs_as_far_as_the_folder_has_it(tmp_path: Path) -> None:
    make_deb(tmp_path, "openssh", needs="libedit (>= 1), openssl | libressl, termux-auth")
    make_deb(tmp_path, "termux-auth", needs="openssh")
    make_deb(tmp_path, "libedit")
    make_deb(tmp_path, "unrelated")
    assert names(closure(tmp_path, ["openssh"])) == ["libedit", "openssh", "termux-auth"]


def test_of_several_versions_the_newest_goes_along(tmp_path: Path) -> None:
    for version in ("9.9", "10.1", "10.0"):
        make_deb(tmp_path, "openssh", version)
    (only,) = closure(tmp_path, ["openssh"])
    assert "_10.1_" in only.name


def test_what_ssh_cannot_come_without_is_asked_for(tmp_path: Path) -> None:
    make_deb(tmp_path, "openssh")
    with pytest.raises(InputError, match="no package termux-services in"):
        closure(tmp_path, ["openssh", "termux-services"])


def test_a_broken_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "openssh_1_all.deb").write_bytes(b"no package")
    with pytest.raises(InputError, match=r"openssh_1_all.deb is no package"):
        closure(tmp_path, ["openssh"])


def test_alternatives_and_versions_are_left_aside() -> None:
    control = {"Depends": "a (>= 2), b | c", "Pre-Depends": "d"}
    assert depends(control) == ["d", "a", "b"]
