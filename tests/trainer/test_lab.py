"""The trainer with torch and Open MPI, in the lab image: the tests of tests/trainer/lab."""

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from data_formats import pixels, write_images, write_mnist

from fleetctl.jobs.jobfile import read_job
from fleetctl.jobs.planning import build_plan
from fleetctl.provision import data, keys, release
from fleetctl.provision.sources import Options
from standin import images
from standin.engine import make_network, remove_network, runtime_options

pytestmark = [pytest.mark.lab, pytest.mark.timeout(2400)]

PROJECT = Path(__file__).resolve().parents[2]
PHONES = [f"phone{i:03d}" for i in range(1, 7)]


@pytest.fixture(scope="module")
def image() -> str:
    return images.ensure(print).lab


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the controller makes for the phones: data set, release, plan of the shipped job."""
    folder = tmp_path_factory.mktemp("lab")
    data.add(data.Wish("digits"), folder / "home/phonerack/data")
    make_sources(folder / "sources", folder / "home/phonerack/data")
    keys.fulfil(folder / "ssh", keys.Request("lab", {}))
    bundle = release.build("linux-x86_64", folder / "releases", folder / "ssh/release")
    with tarfile.open(bundle.bundle) as archive:
        archive.extractall(folder / "release", filter="data")
    for name in ("digits", "own_model"):
        job = read_job(PROJECT / f"examples/jobs/{name}.yml")
        assert job.train is not None
        build_plan(job.train, name, PHONES).write(folder / f"{name}.json")
    return folder


def make_sources(sources: Path, home: Path) -> None:
    """Files in published formats, for torchvision's own readers and for ours."""
    labels = np.arange(60) % 10
    write_mnist(
        sources / "mnist", (pixels(60, 28, 28), labels), (pixels(20, 28, 28), labels[:20]),
        packed=False,
    )  # fmt: skip
    classes = {name: [pixels(12, 12, 3) for _ in range(5)] for name in ("cat", "dog", "Emu")}
    write_images(sources / "images/train", classes)
    write_images(sources / "images/test", {"cat": [pixels(12, 12, 3)], "dog": [pixels(12, 12)]})
    data.add(data.Wish("mnist", sources / "mnist"), home)
    data.add(data.Wish("images", sources / "images", options=Options(12)), home)


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """A network of the tests' own, since podman's default one would outlive them."""
    try:
        make_network("lab-test", "lab-test")
        yield "lab-test"
    finally:
        remove_network("lab-test")


@pytest.mark.parametrize(
    ("series", "tests", "marked"),
    [
        pytest.param("5", ".", "not soak", id="openmpi-5"),
        pytest.param("4", "test_exchange.py", "not soak", id="openmpi-4"),
        pytest.param("5", ".", "soak", id="openmpi-5-soak", marks=pytest.mark.soak),
    ],
)
def test_in_the_lab_image(
    image: str, network: str, shared: Path, series: str, tests: str, marked: str
) -> None:
    done = subprocess.run(
        [
            *("podman", *runtime_options(), "run", "--rm"),
            f"--network={network}",
            *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
            *(f"--volume={PROJECT}:/src:ro", f"--volume={shared}:/shared:ro"),
            *("--env=HOME=/shared/home", "--env=PYTHONDONTWRITEBYTECODE=1"),
            *(image, "with-mpi", series, "python3", "-m", "pytest", "-p", "no:cacheprovider"),
            *("--quiet", "--durations=25", "-m", marked, f"/src/tests/trainer/lab/{tests}"),
        ],
        check=False,
    )
    assert done.returncode == 0
