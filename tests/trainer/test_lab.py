"""The trainer with torch and Open MPI, in the lab image: the tests of tests/trainer/lab."""

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.jobs.jobfile import read_job
from fleetctl.jobs.planning import build_plan
from fleetctl.provision import data, keys, release
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
    keys.fulfil(folder / "ssh", keys.Request("lab", {}))
    bundle = release.build("linux-x86_64", folder / "releases", folder / "ssh/release")
    with tarfile.open(bundle.bundle) as archive:
        archive.extractall(folder / "release", filter="data")
    for name in ("digits", "own_model"):
        job = read_job(PROJECT / f"examples/jobs/{name}.yml")
        assert job.train is not None
        build_plan(job.train, name, PHONES).write(folder / f"{name}.json")
    return folder


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """A network of the tests' own, since podman's default one would outlive them."""
    try:
        make_network("lab-test", "lab-test")
        yield "lab-test"
    finally:
        remove_network("lab-test")


@pytest.mark.parametrize(
    ("series", "tests"), [("5", "."), ("4", "test_exchange.py")], ids=["openmpi-5", "openmpi-4"]
)
def test_in_the_lab_image(image: str, network: str, shared: Path, series: str, tests: str) -> None:
    done = subprocess.run(
        [
            *("podman", *runtime_options(), "run", "--rm"),
            f"--network={network}",
            *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
            *(f"--volume={PROJECT}:/src:ro", f"--volume={shared}:/shared:ro"),
            *("--env=HOME=/shared/home", "--env=PYTHONDONTWRITEBYTECODE=1"),
            *(image, "with-mpi", series, "python3", "-m", "pytest", "-p", "no:cacheprovider"),
            *("--quiet", f"/src/tests/trainer/lab/{tests}"),
        ],
        check=False,
    )
    assert done.returncode == 0
