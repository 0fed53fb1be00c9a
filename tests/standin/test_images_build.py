"""A build that fails or is cut off leaves nothing behind; run against a small recipe."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from standin import images
from standin.commands import run
from standin.errors import StandinError

pytestmark = pytest.mark.standin

CONTAINERFILE = """\
ARG BASE
FROM ${BASE} AS base
LABEL phonerack.standin=image
FROM base AS phone
RUN echo one >/one
RUN COMMAND
FROM base AS services
FROM base AS lab
FROM base AS packages
"""


def leavings() -> set[str]:
    """Every image and working container of a build that could be ours; racks come and go."""
    all_images = json.loads(run(("podman", "images", "--all", "--format=json")))
    containers = json.loads(run(("podman", "ps", "--all", "--external", "--format=json")))
    ours = {
        image["Id"]
        for image in all_images
        if (image.get("Labels") or {}).get("phonerack.standin") == "image"
    }
    working = [item for item in containers if item["State"] == "storage"]
    return ours | {item["Id"] for item in working if item["ImageID"] in ours}


@pytest.fixture
def small_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a recipe whose phone stage runs a command, in the place of the real one."""

    def write(command: str) -> Path:
        recipe = tmp_path / "recipe"
        recipe.mkdir()
        (recipe / "Containerfile").write_text(CONTAINERFILE.replace("COMMAND", command))
        monkeypatch.setattr(images, "RECIPE", recipe)
        monkeypatch.setattr(
            images, "_fill_context", lambda context, _: shutil.copytree(recipe, context)
        )
        return recipe

    return write


@pytest.fixture(autouse=True)
def real_images_first() -> None:
    """The base must be there, else making it would be part of what a test leaves."""
    images.ensure(print)


def test_a_failing_step_is_named_and_leaves_nothing(
    small_recipe: Callable[[str], Path],
) -> None:
    small_recipe("echo the disk is full && exit 9")
    before = leavings()
    with pytest.raises(StandinError, match=r"(?s)step `phone` failed.*the disk is full"):
        images.ensure(print)
    assert leavings() == before


def test_an_interrupted_build_leaves_nothing(small_recipe: Callable[[str], Path]) -> None:
    recipe = small_recipe("sleep 600")
    before = leavings()

    def interrupt(line: str) -> None:
        if "sleep 600" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        images.ensure(interrupt)
    assert leavings() == before
    assert images.names(recipe).phone not in run(("podman", "images", "--format={{.Repository}}"))


def test_images_that_are_there_are_not_built_again() -> None:
    said: list[str] = []
    assert images.ensure(said.append) == images.names(images.RECIPE)
    assert said == []


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Another prefix and label than the real images', on the same base."""
    prefix = "localhost/phonerack-recipe-test-"
    run(("podman", "tag", f"{images.IMAGE_PREFIX}base:{images.SUITE}", f"{prefix}base:trixie"))
    monkeypatch.setattr(images, "IMAGE_PREFIX", prefix)
    monkeypatch.setattr(images, "LABEL", ("phonerack.standin", "test"))
    yield prefix
    images.remove_all()


def tagged(prefix: str) -> set[str]:
    listing = run(("podman", "images", "--format={{.Repository}}:{{.Tag}}")).split()
    return {name for name in listing if name.startswith(prefix)}


@pytest.mark.soak
def test_a_new_recipe_replaces_one_of_yesterday_and_removal_removes_all(
    small_recipe: Callable[[str], Path], own_names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = small_recipe("true")
    containerfile = recipe / "Containerfile"
    containerfile.write_text(containerfile.read_text().replace("=image", "=test"))
    old = images.ensure(print)
    containerfile.write_text(containerfile.read_text().replace("echo one", "echo two"))
    new = images.ensure(print)
    assert old != new
    assert tagged(own_names) == {*astuple(old), *astuple(new), f"{own_names}base:trixie"}

    monkeypatch.setattr(images, "KEPT_SECONDS", -1)
    containerfile.write_text(containerfile.read_text().replace("echo two", "echo three"))
    newest = images.ensure(print)
    assert tagged(own_names) == {*astuple(newest), f"{own_names}base:trixie"}

    container = run(("podman", "create", newest.phone, "none")).strip()
    try:
        assert newest.phone in images.remove_all()
        assert newest.phone in tagged(own_names)
    finally:
        run(("podman", "rm", container))
    assert images.remove_all() == []
    assert tagged(own_names) == set()
    assert run(("podman", "images", "-aq", "--filter=label=phonerack.standin=test")) == ""
