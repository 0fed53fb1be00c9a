"""The images' recipe: its hash, where its parts come from, and how a step fails."""

import platform
import shutil
import tomllib
from pathlib import Path

import pytest

from standin import images
from standin.errors import StandinError


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    folder = tmp_path / "recipe"
    (folder / "scripts").mkdir(parents=True)
    (folder / "Containerfile").write_text("FROM base\n")
    (folder / "scripts/install").write_text("#!/bin/sh\n")
    return folder


class TestHash:
    def test_equal_folders_have_equal_hashes(self, recipe: Path, tmp_path: Path) -> None:
        copy = tmp_path / "elsewhere"
        shutil.copytree(recipe, copy)
        assert images.recipe_hash(copy) == images.recipe_hash(recipe)

    def test_every_change_of_a_file_changes_it(self, recipe: Path) -> None:
        seen = {images.recipe_hash(recipe)}
        script = recipe / "scripts/install"
        for change in (
            lambda: script.write_text("#!/bin/sh\ntrue\n"),
            lambda: script.chmod(0o755),
            lambda: script.rename(recipe / "scripts/setup"),
            lambda: (recipe / "link").symlink_to("Containerfile"),
            lambda: (recipe / "Containerfile").unlink(),
        ):
            change()
            seen.add(images.recipe_hash(recipe))
        assert len(seen) == 6

    def test_text_that_moves_between_files_changes_it(self, recipe: Path) -> None:
        (recipe / "a").write_text("12")
        (recipe / "b").write_text("3")
        before = images.recipe_hash(recipe)
        (recipe / "a").write_text("1")
        (recipe / "b").write_text("23")
        assert images.recipe_hash(recipe) != before

    def test_images_are_named_by_it(self, recipe: Path) -> None:
        tag = images.recipe_hash(recipe)
        assert images.names(recipe).phone == f"localhost/phonerack-standin-phone:{tag}"


class TestMirror:
    def test_is_the_one_of_the_hosts_main_archive(self) -> None:
        targets = (
            "Debian-Security http://security.example/debian-security/\n"
            "Google Chrome https://chrome.example/deb/\n"
            "Debian http://mirror.example/debian/\n"
        )
        assert images.debian_mirror(targets) == "http://mirror.example/debian"

    @pytest.mark.parametrize(
        "targets",
        [
            "",
            "Ubuntu http://archive.example/ubuntu/\n",
            "Debian cdrom://disc/\n",
            "Debian https://mirror.example/debian\n",
        ],
    )
    def test_is_debians_own_where_the_host_has_none_to_use(self, targets: str) -> None:
        assert images.debian_mirror(targets) == images.DEFAULT_MIRROR


class TestParts:
    def test_both_series_of_open_mpi_are_pinned_by_hash(self) -> None:
        wheels = images.requirements((images.RECIPE / "wheels.txt").read_text())
        assert sorted(version[:3] for version in wheels) == ["4.1", "5.0"]
        assert all("--hash=sha256:" in requirement for requirement in wheels.values())

    def test_every_overlay_belongs_to_a_package(self) -> None:
        packages = tomllib.loads((images.RECIPE / "termux/packages.toml").read_text())
        overlays = {folder.name for folder in (images.RECIPE / "termux/files").iterdir()}
        assert overlays <= set(packages)

    def test_nothing_that_provisioning_brings_is_in_the_bootstrap(self) -> None:
        packages = tomllib.loads((images.RECIPE / "termux/packages.toml").read_text())
        bootstrap = {name for name, fields in packages.items() if fields.get("bootstrap")}
        assert {"apt", "bash", "dpkg"} <= bootstrap
        assert not {"openssh", "runit", "termux-services"} & bootstrap
        assert not any(name.startswith(("python", "libopenblas")) for name in bootstrap)

    def test_what_is_compiled_compiles_without_a_warning(self, tmp_path: Path) -> None:
        for source in ("termux-exec.c", "binder.c"):
            shutil.copy(images.RECIPE / source, tmp_path)
        for command in images.compile_commands(tmp_path):
            images.run_step("compile", command, print)
        machine = {"x86_64": 62, "aarch64": 183}[platform.machine()]
        for output in ("libtermux-exec.so", "binder"):
            header = (tmp_path / output).read_bytes()[:20]
            assert header[:4] == b"\x7fELF"
            assert int.from_bytes(header[18:20], "little") == machine


class TestStep:
    def test_failure_names_the_step_and_shows_its_last_lines(self) -> None:
        noisy = ("sh", "-c", "seq 1 100; echo no space left >&2; exit 3")
        with pytest.raises(StandinError) as failure:
            images.run_step("base system", noisy, print)
        message = str(failure.value)
        assert "step `base system` failed with status 3" in message
        assert "  no space left\n" in message
        assert "  100\n" in message
        assert "  50\n" not in message

    def test_a_missing_program_is_named(self) -> None:
        with pytest.raises(StandinError, match="`no-such-builder` is not installed"):
            images.run_step("phone", ("no-such-builder",), print)

    def test_what_the_build_runs_is_progress(self) -> None:
        said: list[str] = []
        lines = r"[2/6] STEP 3/3: RUN /build/install\n[2/6] STEP 2/3: COPY a b\nnoise\n"
        images.run_step("lab", ("printf", lines), said.append)
        assert said == ["images: lab: RUN /build/install"]


def test_what_python_compiles_beside_a_recipe_does_not_change_its_name(tmp_path: Path) -> None:
    (tmp_path / "build.py").write_text("")
    before = images.recipe_hash(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/build.cpython-312.pyc").write_bytes(b"1")
    assert images.recipe_hash(tmp_path) == before
