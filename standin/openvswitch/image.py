"""The image of a switch, built when a rack first wants Open vSwitch."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from standin import images
from standin.commands import run
from standin.engine import IMAGE_PREFIX
from standin.images import Progress

RECIPE = Path(__file__).parent / "image"
STAGE = "switch"


def name() -> str:
    """What the image of this recipe is called, built or not."""
    return f"{IMAGE_PREFIX}{STAGE}:{images.recipe_hash(RECIPE)}"


def ensure(progress: Progress) -> str:
    """The image; builds it first when it is missing. Raises StandinError."""
    image = name()
    if not _exists(image):
        with images.only_builder(progress):
            if not _exists(image):
                _build(image, progress)
    return image


def _exists(image: str) -> bool:
    return image in run(("podman", "images", "--format={{.Repository}}:{{.Tag}}")).split()


def _build(image: str, progress: Progress) -> None:
    mirror = images.host_mirror()
    base = images.debian_base(mirror, progress)
    with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
        context = Path(folder) / "context"
        shutil.copytree(RECIPE, context)
        run(("podman", "tag", images.build_stage(STAGE, base, mirror, context, progress), image))
