"""Bundles for the phones: complete, repeatable, and a native library that loads anywhere."""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import elf
import pytest

from fleetctl.provision import native, release, signing
from fleetctl.provision.keys import Request, fulfil

PROJECT = Path(__file__).resolve().parents[2]
X86_64, AARCH64 = 62, 183  # ELF's numbers of the processors
MACHINES = {"termux-aarch64": AARCH64, "linux-aarch64": AARCH64, "linux-x86_64": X86_64}


def new_key(folder: Path) -> Path:
    fulfil(folder, Request("rack1", {}))
    return folder / signing.KEY


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Path:
    return new_key(tmp_path_factory.mktemp("ssh"))


@pytest.fixture(scope="module")
def bundles(tmp_path_factory, key) -> dict[str, release.Bundle]:
    folder = tmp_path_factory.mktemp("releases")
    return {target: release.build(target, folder, key) for target in native.TARGETS}


def content(bundle: release.Bundle) -> dict[str, bytes]:
    with tarfile.open(bundle.bundle) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]


def test_the_manifest_has_the_checksum_of_every_file(bundles) -> None:
    bundle = bundles["linux-x86_64"]
    files = content(bundle)
    files.pop("manifest.json.sig")
    manifest = json.loads(files.pop("manifest.json"))
    assert (manifest["version"], manifest["target"]) == (bundle.version, "linux-x86_64")
    assert manifest["files"] == {n: hashlib.sha256(d).hexdigest() for n, d in files.items()}
    assert bundle.sha256 == hashlib.sha256(Path(bundle.bundle).read_bytes()).hexdigest()


def test_it_holds_what_a_phone_runs_and_nothing_else(bundles) -> None:
    files = content(bundles["linux-x86_64"])
    assert {
        "python/trainer/__main__.py",
        "python/trainer/exchange/engine.py",
        "python/exporters/phone.py",
        "python/prometheus_client/exposition.py",
        "python/prometheus_client/LICENSE",
        f"lib/{native.HOSTNAME_LIBRARY}",
        f"lib/{native.KERNEL_LIBRARY}",
    } <= files.keys()
    assert {name.split("/")[1] for name in files if name.startswith("python/")} == {
        "trainer",
        "exporters",
        "prometheus_client",
    }
    others = ("python/exporters/switches/", "python/exporters/dashboards/")
    assert not [name for name in files if name.startswith(others)]


def test_the_packages_import_without_the_controller(bundles, tmp_path) -> None:
    with tarfile.open(bundles["linux-x86_64"].bundle) as archive:
        archive.extractall(tmp_path, filter="data")
    program = "import trainer.formats, prometheus_client as p; print(p.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-B", "-c", program],
        env={"PYTHONPATH": str(tmp_path / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(tmp_path))


def test_all_targets_have_one_version(bundles) -> None:
    assert len({bundle.version for bundle in bundles.values()}) == 1
    assert re.fullmatch(r"\d+\.\d+\.\d+\+[0-9a-f]{8}", bundles["linux-x86_64"].version)


def test_the_manifest_stands_first_and_is_signed(bundles, key) -> None:
    files = content(bundles["termux-aarch64"])
    assert list(files)[:2] == ["manifest.json", "manifest.json.sig"]
    assert signing.is_signed(key, files["manifest.json"], files["manifest.json.sig"])


def test_the_same_sources_and_key_give_the_same_bytes(bundles, key, tmp_path) -> None:
    again = release.build("termux-aarch64", tmp_path, key)
    assert again.changed
    assert (again.version, again.sha256) == (
        bundles["termux-aarch64"].version,
        bundles["termux-aarch64"].sha256,
    )


def test_a_bundle_that_is_there_is_used_again_and_a_damaged_one_replaced(bundles, key) -> None:
    good = bundles["linux-aarch64"]
    path = Path(good.bundle)
    assert not release.build("linux-aarch64", path.parent, key).changed
    path.write_bytes(path.read_bytes()[:-500])
    repaired = release.build("linux-aarch64", path.parent, key)
    assert repaired.changed
    assert repaired.sha256 == good.sha256


def test_another_key_signs_it_anew(key, tmp_path) -> None:
    old = release.build("linux-x86_64", tmp_path, key)
    new = release.build("linux-x86_64", tmp_path, new_key(tmp_path / "ssh"))
    assert new.changed
    assert new.version == old.version
    assert new.sha256 != old.sha256


def test_to_go_back_a_former_bundle_is_looked_up_and_never_made(bundles, key, tmp_path) -> None:
    good = bundles["linux-x86_64"]
    folder = Path(good.bundle).parent
    found = release.former(good.version, "linux-x86_64", folder, key)
    assert (found.sha256, found.changed) == (good.sha256, False)
    with pytest.raises(release.UnknownVersionError, match=re.escape(f"there are: {good.version}")):
        release.former("0.0.1", "linux-x86_64", folder, key)
    with pytest.raises(release.ReleaseError, match=r"not signed by .*check that version"):
        release.former(good.version, "linux-x86_64", folder, new_key(tmp_path))


def test_what_would_be_built_is_said_and_not_written(bundles, key, tmp_path) -> None:
    said = release.build("linux-x86_64", tmp_path, key, check=True)
    assert (said.version, said.changed) == (bundles["linux-x86_64"].version, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("target", "needed"),
    [("termux-aarch64", {"fp", "asimd"}), ("linux-x86_64", {"sse", "sse2"})],
)
def test_what_the_processor_must_have_is_what_every_phone_has(bundles, target, needed) -> None:
    cpu = json.loads(content(bundles[target])["manifest.json"])["cpu"]
    assert cpu["machine"] == native.TARGETS[target].machine
    assert needed <= set(cpu["features"]) <= {*needed, "cmov", "cx8", "fxsr", "mmx"}


def test_a_library_for_a_newer_processor_says_what_that_must_have(bundles, key, tmp_path) -> None:
    newer = release.build("linux-aarch64", tmp_path, key, processor="cortex_a76")
    assert newer.version != bundles["linux-aarch64"].version
    features = set(json.loads(content(newer)["manifest.json"])["cpu"]["features"])
    assert {"asimddp", "fphp", "asimdhp", "atomics", "crc32", "lrcpc"} <= features


def test_the_command_prints_one_json_line(tmp_path, key) -> None:
    program = [sys.executable, "-m", "fleetctl.provision.release"]
    command = [*program, f"--out={tmp_path}", f"--key={key}"]
    done = subprocess.run(
        [*command, "--target=linux-x86_64"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    assert set(json.loads(done.stdout)) == {
        *("version", "target", "bundle", "sha256", "signers", "changed")
    }
    wrong = subprocess.run(
        [*command, "--target=windows"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert "windows: no such target; known: termux-aarch64" in wrong.stderr


SYMBOLS = {
    native.HOSTNAME_LIBRARY: {"gethostname": True, "uname": True},
    native.KERNEL_LIBRARY: {"phonerack_depthwise": True, "phonerack_best_variant": True},
}


@pytest.mark.parametrize("name", native.LIBRARIES)
@pytest.mark.parametrize("target", native.TARGETS)
def test_a_library_asks_nothing_of_its_loader(bundles, target, name) -> None:
    library = elf.read(content(bundles[target])[f"lib/{name}"])
    assert library.machine == MACHINES[target]
    assert library.symbols == SYMBOLS[name]
    assert elf.complaints(library) == []


@pytest.mark.parametrize("name", native.LIBRARIES)
def test_what_runs_under_emulation_is_the_phones_library_to_the_bit(bundles, name) -> None:
    phones, emulated = bundles["termux-aarch64"], bundles["linux-aarch64"]
    assert content(phones)[f"lib/{name}"] == content(emulated)[f"lib/{name}"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-Wl,-z,max-page-size=4096",), "do not fit pages of 16 KiB"),
        (("-Wl,-z,max-page-size=16384", "-Wl,-soname,a.so"), "do not fit pages of 64 KiB"),
        (("-Wl,-z,max-page-size=65536",), "no name of its own"),
    ],
)
def test_a_library_that_bionic_would_refuse_is_noticed(tmp_path, options, complaint) -> None:
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text("int answer(void) { return 42; }\n")
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-android"]
    subprocess.run([*compiler, "-shared", "-nostdlib", *options, "-o", library, source], check=True)
    assert any(complaint in each for each in elf.complaints(elf.read(library.read_bytes())))
