"""The mirror's upstream: a signed repository, served over loopback, that says what was asked."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from mirror_rig import Mirror, versions
from termux_packages import Upstream
from termux_prefix import ModuleFailure

pytestmark = pytest.mark.skipif(
    shutil.which("aptly") is None, reason="needs aptly: tools/setup dev installs it"
)


@pytest.fixture
def upstream(tmp_path: Path, mirror: Mirror) -> Iterator[Upstream]:
    """A Termux of five packages, which the mirror takes from."""
    made = Upstream(tmp_path / "upstream")
    made.add("bash", "5.3", architecture="aarch64", essential="yes")
    made.add("python", "3.14.6", architecture="aarch64", depends="libssl (>= 3)")
    made.add("libssl", "3.6", architecture="aarch64")
    made.add("vim", "9.1", architecture="aarch64")
    made.publish("aarch64")
    with made.served() as url:
        mirror.upstream = {
            "url": url,
            "distribution": "stable",
            "component": "main",
            "key": base64.b64encode(made.key).decode(),
        }
        yield made


def test_upstream_gives_what_phones_need_each_file_once(mirror, upstream):
    first = mirror.run(wanted=["python"])
    again = mirror.run(wanted=["python"])

    assert versions(first) == {"bash": "5.3", "python": "3.14.6", "libssl": "3.6"}
    assert again["changed"] is False
    assert sorted(upstream.fetched) == [
        "bash_5.3_aarch64.deb",
        "libssl_3.6_aarch64.deb",
        "python_3.14.6_aarch64.deb",
    ]


@pytest.mark.soak
def test_upstream_is_asked_again_for_a_new_snapshot_only_and_for_what_is_new(mirror, upstream):
    mirror.run(wanted=["python"])
    asked = len(upstream.asked)
    mirror.run(wanted=["python"])
    assert len(upstream.asked) == asked
    upstream.add("python", "3.14.7", architecture="aarch64", depends="libssl (>= 3)")
    (upstream.pool / "python_3.14.6_aarch64.deb").unlink()
    upstream.publish("aarch64")

    check = mirror.call(check=True, wanted=["python"], take="new")
    new = mirror.run(wanted=["python"], take="new")

    changed = [{"name": "python", "before": "3.14.6", "after": "3.14.7"}]
    assert check["changes"] == changed
    assert new["changes"] == changed
    assert upstream.fetched[3:] == ["python_3.14.7_aarch64.deb"]


def test_the_folder_takes_the_place_of_upstream(mirror, upstream):
    mirror.add("libssl", "3.5", architecture="aarch64")

    assert versions(mirror.run(wanted=["python"]))["libssl"] == "3.5"


def test_an_upstream_signed_by_another_key_is_refused(mirror, upstream, tmp_path):
    assert mirror.upstream is not None
    other = Upstream(tmp_path / "other")
    mirror.upstream["key"] = base64.b64encode(other.key).decode()

    with pytest.raises(ModuleFailure) as failure:
        mirror.run(wanted=["python"])

    assert "not signed by the key" in failure.value.result["msg"]
    assert upstream.fetched == []


def test_an_upstream_that_goes_away_in_the_middle_is_named_and_the_rerun_completes(
    mirror, upstream
):
    upstream.add("big", "1.0", architecture="aarch64")
    upstream.publish("aarch64")
    gone = upstream.pool / "libssl_3.6_aarch64.deb"
    gone.rename(gone.with_suffix(".away"))

    with pytest.raises(ModuleFailure) as failure:
        mirror.run(wanted=["python", "big"])
    gone.with_suffix(".away").rename(gone)
    after = mirror.run(wanted=["python", "big"])

    assert "libssl" in failure.value.result["msg"]
    assert versions(after)["libssl"] == "3.6"
    assert len(after["snapshots"]) == 1


@pytest.mark.soak
def test_a_package_that_was_cut_and_comes_from_upstream_is_fetched_anew(mirror, upstream):
    snapshot = mirror.run(wanted=["python"])["snapshot"]
    (served,) = (mirror.root / "public" / snapshot).rglob("python_*.deb")
    with served.open("r+b") as file:
        file.truncate(100)

    after = mirror.run(wanted=["python"])

    assert after["snapshot"] == snapshot
    (again,) = (mirror.root / "public" / snapshot).rglob("python_*.deb")
    assert again.stat().st_size > 10_000
    assert upstream.fetched.count("python_3.14.6_aarch64.deb") == 2
