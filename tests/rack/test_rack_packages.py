"""Where a rack's packages come from: the operator's folder, or a repository that its file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.rack import RackError, RackPaths, load_rack
from fleetctl.rack.variables import rack_variables

HOME = """\
rack: home
network: {cidr: 192.168.1.0/24, medium: wifi}
phones: [192.168.1.20]
"""


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))


def write(tmp_path: Path, packages: str = "") -> Path:
    path = tmp_path / "rack.yml"
    path.write_text(HOME + packages)
    return path


def mistake(tmp_path: Path, packages: str) -> str:
    with pytest.raises(RackError) as caught:
        load_rack(write(tmp_path, packages))
    (found,) = caught.value.mistakes
    return str(found).removeprefix(f"{tmp_path}/")


def test_without_a_word_about_packages_they_come_from_the_operators_folder(tmp_path: Path) -> None:
    rack = load_rack(write(tmp_path))

    assert rack.packages.upstream is None
    variables = rack_variables(rack, RackPaths("home"))
    assert variables["rack_upstream"] is None
    assert "openmpi=5.0*" in variables["rack_phone_packages"]
    assert variables["rack_architectures"] == ["aarch64"]


def test_further_packages_are_named_beside_those_that_phones_need(tmp_path: Path) -> None:
    rack = load_rack(write(tmp_path, "packages: {also: [vim, python, libc++]}\n"))

    names = rack_variables(rack, RackPaths("home"))["rack_phone_packages"]
    assert names[-2:] == ["vim", "libc++"]
    assert names.count("python") == 1


def test_an_upstream_needs_its_address_and_its_key(tmp_path: Path) -> None:
    (tmp_path / "termux.asc").touch()
    text = "packages: {upstream: https://termux.example/main/, key: termux.asc}\n"

    rack = load_rack(write(tmp_path, text))

    assert rack_variables(rack, RackPaths("home"))["rack_upstream"] == {
        "url": "https://termux.example/main",
        "key": f"{tmp_path}/termux.asc",
        "distribution": "stable",
        "component": "main",
    }


@pytest.mark.parametrize(
    ("packages", "expected"),
    [
        ("upstream: https://a.example/x", "rack.yml:5: an upstream whose packages nobody can"),
        ("key: here.asc", "rack.yml:5: a key without an `upstream`"),
        ("also: [vim, 'rm -rf']", "rack.yml:5: `rm -rf` is no name of a package"),
        (
            "upstream: https://a.example/x\n  key: nowhere.asc",
            "rack.yml:6: no file {folder}/nowhere.asc with the repository's public key",
        ),
        (
            "upstream: ftp://a.example\n  key: here.asc",
            "rack.yml:5: `ftp://a.example` is no address of a repository",
        ),
        (
            "upstream: https://me:secret@a.example\n  key: here.asc",
            "rack.yml:5: this is no address of a repository",
        ),
        (
            "upstream: 'http://{{ x }}'\n  key: here.asc",
            "rack.yml:5: `http://{{{{ x }}}}` is no address of a repository",
        ),
        (
            "upstream: http://a.example\n  key: here.asc\n  component: main stable",
            "rack.yml:7: `main stable` is no name in a repository",
        ),
        (
            "upstream: http://a.example\n  key: here.asc\n  distribtion: stable",
            "rack.yml:7: unknown key `distribtion`; did you mean `distribution`?",
        ),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, packages: str, expected: str) -> None:
    (tmp_path / "here.asc").touch()
    text = f"packages:\n  {packages}\n"

    assert mistake(tmp_path, text).startswith(expected.format(folder=tmp_path))
