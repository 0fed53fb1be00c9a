"""phone_release: a bundle is verified before it is used, and the one before it stays."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from termux_prefix import ModuleFailure, load

from fleetctl.provision import release, signing
from fleetctl.provision.keys import Request, fulfil

TARGET = "linux-x86_64"
MACHINE = os.uname().machine
CPU = {"machine": MACHINE, "processor": "generic", "features": []}


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller's ssh folder, with the release key."""
    folder = tmp_path_factory.mktemp("ssh")
    fulfil(folder, Request("rack1", {}))
    return folder


def files_of(version: str) -> dict[str, bytes]:
    return {"python/app.py": f"print('{version}')\n".encode(), "lib/libx.so": version.encode()}


def bundle(folder: Path, key: Path, version: str, /, **about: Any) -> Path:
    """A good bundle of two files, as the controller makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"phonerack-{version}-{TARGET}.tar.gz"
    stated = {"version": version, "target": TARGET, "cpu": CPU, **about}
    path.write_bytes(release.pack(files_of(version), stated, key))
    return path


def repack(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Spoil a bundle, as somebody would who has no key."""
    with tarfile.open(path) as archive:
        content = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    change(content)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda content: (content.pop(name), None)[1]


def with_more(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda content: content.update({name: content.get(name, b"") + data})


def of_another_version(content: dict[str, bytes]) -> None:
    content["manifest.json"] = content["manifest.json"].replace(b"1.1", b"1.2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "phonerack"


@pytest.fixture
def run(run_module, root: Path, ssh: Path) -> Callable[..., dict[str, Any]]:
    """The module with what is equal for all tests."""

    def call(version: str, check: bool = False, **options: Any) -> dict[str, Any]:
        trust = {"signers": signing.allowed_signers(ssh / "release"), "signer": "release@rack1"}
        given = {"root": str(root), "version": version, "target": TARGET, **trust, **options}
        return run_module("phone_release", check=check, **given)

    return call


@pytest.fixture
def install(run, root: Path, ssh: Path) -> Callable[..., dict[str, Any]]:
    """Install a good bundle that was copied to the phone."""

    def call(version: str, check: bool = False) -> dict[str, Any]:
        archive = bundle(root / "releases", ssh / "release", version)
        return run(version, check=check, archive=str(archive))

    return call


def current(root: Path) -> str:
    return (root / "current").resolve().name


def refused(run: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Why the module failed."""
    with pytest.raises(ModuleFailure) as failure:
        run(*arguments, **options)
    said: str = failure.value.result["msg"]
    assert "the release before stays" in said
    return said


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


def test_going_back_to_the_version_before_needs_no_bundle(install, run, root):
    for version in ("1.0", "1.1"):
        install(version)

    run("1.0", archive="/nowhere.tar.gz")

    assert current(root) == "1.0"
    assert (root / "previous").resolve().name == "1.1"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (with_more("lib/libx.so", b"x"), "lib/libx.so is corrupt"),
        (with_more("python/stray.py", b"import os\n"), "python/stray.py"),
        (with_more("../../escaped", b""), "manifest and files differ: ../../escaped"),
        (without("lib/libx.so"), "manifest and files differ: lib/libx.so"),
        (without("manifest.json.sig"), "it is not signed"),
        (without("manifest.json"), "does not begin with manifest.json"),
        (with_more("manifest.json", b" "), "not signed by release@rack1"),
        (of_another_version, "not signed by release@rack1"),
        (dict.clear, "does not begin with manifest.json"),
    ],
)
def test_a_bundle_that_somebody_changed_changes_nothing(install, run, root, ssh, spoil, reason):
    install("1.0")
    archive = bundle(root / "releases", ssh / "release", "1.1")
    repack(archive, spoil)

    assert reason in refused(run, "1.1", archive=str(archive))

    assert current(root) == "1.0"
    assert not list((root / "releases").glob("*1.1"))
    assert not list((root / "releases").glob(".*"))


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"target": "linux-aarch64"}, "target linux-aarch64, this phone needs linux-x86_64"),
        ({"version": "0.9"}, "version 0.9, this phone needs 1.1"),
        ({"cpu": {**CPU, "machine": "riscv64"}}, f"for riscv64, this processor is {MACHINE}"),
        (
            {"cpu": {**CPU, "processor": "cortex_x9", "features": ["fp128", "warp"]}},
            "compiled for cortex_x9 and needs fp128, warp, which this processor lacks",
        ),
        ({"cpu": None}, "manifest.json cannot be read"),
    ],
)
def test_a_good_bundle_that_is_not_for_this_phone_changes_nothing(
    install, run, root, ssh, about, reason
):
    install("1.0")
    made = bundle(root / "releases", ssh / "release", "1.1", **about)

    assert reason in refused(run, "1.1", archive=str(made))

    assert current(root) == "1.0"


def test_a_bundle_that_another_key_signed_changes_nothing(install, run, root, tmp_path):
    install("1.0")
    fulfil(tmp_path / "theirs", Request("rack1", {}))
    archive = bundle(root / "releases", tmp_path / "theirs/release", "1.1")

    assert "not signed by release@rack1" in refused(run, "1.1", archive=str(archive))

    assert current(root) == "1.0"


def test_a_signature_for_another_purpose_is_none(install, run, root, ssh, monkeypatch):
    install("1.0")
    with monkeypatch.context() as patch:
        patch.setattr(signing, "NAMESPACE", "git")
        archive = bundle(root / "releases", ssh / "release", "1.1")

    assert "not signed by release@rack1" in refused(run, "1.1", archive=str(archive))


def test_a_new_key_is_asked_of_what_is_installed_too(install, run, root, ssh, tmp_path):
    install("1.0")
    new = tmp_path / "new"
    fulfil(new, Request("rack1", {}))
    trust = {"signers": signing.allowed_signers(new / "release")}
    old = root / "releases/phonerack-1.0-linux-x86_64.tar.gz"

    assert "not signed" in refused(run, "1.0", archive=str(old), **trust)
    again = bundle(root / "releases", new / "release", "1.0")

    assert run("1.0", archive=str(again), **trust)["changed"] is True
    assert run("1.0", archive=str(again), **trust)["changed"] is False


@pytest.mark.parametrize("kept_bytes", [0, 10, 120, -300])
def test_a_truncated_bundle_changes_nothing(install, run, root, ssh, kept_bytes):
    install("1.0")
    archive = bundle(root / "releases", ssh / "release", "1.1")
    archive.write_bytes(archive.read_bytes()[:kept_bytes])

    refused(run, "1.1", archive=str(archive))

    assert current(root) == "1.0"


def test_a_bundle_with_flipped_bits_is_refused_or_they_did_not_matter(install, run, root, ssh):
    archive = bundle(root / "releases", ssh / "release", "1.1")
    whole = archive.read_bytes()
    refusals = 0
    for place in range(12, len(whole), len(whole) // 40):
        install("1.0")
        archive.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            run("1.1", archive=str(archive))
        except ModuleFailure:
            refusals += 1
            assert current(root) == "1.0"
        else:  # in what no member holds
            found = {name: (root / "current" / name).read_bytes() for name in files_of("1.1")}
            assert found == files_of("1.1")
            run("1.0", archive="/nowhere")
            shutil.rmtree(root / "releases/1.1")
    assert refusals > 30


def test_a_link_in_a_bundle_is_never_followed(install, run, root, ssh):
    install("1.0")
    archive = bundle(root / "releases", ssh / "release", "1.1")
    plain = gzip.decompress(archive.read_bytes())
    with tarfile.open(archive, "w:gz") as evil, tarfile.open(fileobj=io.BytesIO(plain)) as good:
        for member in good:
            if member.name == "lib/libx.so":
                member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
            evil.addfile(member, good.extractfile(member) if member.isreg() else None)

    assert "lib/libx.so is no plain file" in refused(run, "1.1", archive=str(archive))


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


def test_check_mode_says_so_and_leaves_the_link(install, run, root, ssh):
    assert run("1.0", check=True, archive="/not/there/yet")["changed"] is True
    assert not root.exists()
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


def test_a_disk_that_fills_up_leaves_the_running_release(install, run, root, ssh, tmp_path):
    """On a real file system that is too small, in a mount namespace of its own."""
    install("1.0")
    files = {"python/big.bin": os.urandom(600_000)}
    packed = release.pack(files, {"version": "1.1", "target": TARGET, "cpu": CPU}, ssh / "release")
    (tmp_path / "1.1.tar.gz").write_bytes(packed)
    arguments = {
        "archive": str(tmp_path / "1.1.tar.gz"),
        **{"root": str(root), "version": "1.1", "target": TARGET},
        **{"signers": signing.allowed_signers(ssh / "release"), "signer": "release@rack1"},
    }
    (tmp_path / "arguments.json").write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
    script = """
        mv "$1" "$2/kept" && mkdir "$1" && mount -t tmpfs -o size=512k tmpfs "$1" &&
        cp -a "$2/kept/." "$1" && { "$3" "$4" "$2/arguments.json"; ls -A "$1/releases"; }
    """
    module = str(load("phone_release").__file__)
    places = (root, tmp_path, sys.executable, module)
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", *places],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "the release before stays: [Errno 28] No space left on device" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["1.0", "phonerack-1.0-linux-x86_64.tar.gz"]


class Services:
    """The services host's web server, with one folder."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "log_message", lambda *_: None)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # must not be asked
    made = Services(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_the_phone_gets_the_bundle_itself_and_only_when_it_needs_it(
    run, root, ssh, tmp_path, services
):
    made = bundle(tmp_path, ssh / "release", "1.0")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    source = {"url": f"{services.url}/{made.name}", "sha256": digest}

    assert run("1.0", **source)["changed"] is True
    made.unlink()
    assert run("1.0", **source)["changed"] is False

    assert [path.name for path in (root / "releases").iterdir()] == ["1.0"]


def test_a_download_that_fails_or_is_another_changes_nothing(
    install, run, root, ssh, tmp_path, services
):
    install("1.0")
    made = bundle(tmp_path, ssh / "release", "1.1")
    url = f"{services.url}/{made.name}"

    assert "404" in refused(run, "1.1", url=f"{services.url}/none", sha256="0")
    assert "another checksum" in refused(run, "1.1", url=url, sha256="0")
    services.server.shutdown()
    services.server.server_close()
    assert "refused" in refused(run, "1.1", url=url, sha256="0")

    assert current(root) == "1.0"
    assert not list((root / "releases").glob(".download*"))
