"""What is cross-compiled for phones, run by emulated arm64 processors on an arm64 Debian.

The image is made once (20 s and a download of 60 MB); see standin/arm64.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible
import pytest
from emulation import emulation

from fleetctl.provision import native, release
from fleetctl.provision.keys import Request, fulfil
from standin import arm64, images
from standin.commands import CommandError, run
from standin.engine import runtime_options

pytestmark = [pytest.mark.standin, pytest.mark.timeout(2400)]

PROJECT = Path(__file__).resolve().parents[2]
HERE = "/src/tests/arm64"
PHONE = f"pr-arm64-test-{os.getpid()}"
NAME_FOLDER = "/data/data/com.termux/files/usr/etc/phonerack"
BYTECODE = "PYTHONPYCACHEPREFIX=/shared/bytecode"
TARGET = "linux-aarch64"
OLD, NEW = "cortex-a53", "cortex-a76"
"""The processors of a phone of 2014, and of one of 2019 as the S10+ is."""


@dataclass(frozen=True)
class Phone:
    """The emulated phone; `shared` is the folder that it has as /shared."""

    shared: Path

    def run(self, *command: str, processor: str = NEW) -> str:
        return run(("podman", "exec", f"--env=QEMU_CPU={processor}", PHONE, *command))

    def install(self, made: release.Bundle, processor: str) -> dict[str, Any]:
        """Run the module phone_release as Ansible does, from the release folder of this bundle."""
        arguments = {
            "archive": f"/shared/{Path(made.bundle).name}",
            "root": f"/shared/{processor}/phonerack",
            **{"version": made.version, "target": TARGET},
            **{"signers": made.signers, "signer": "release@rack1"},
        }
        (self.shared / "arguments.json").write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        module = "/src/plugins/modules/phone_release.py"
        command = ("env", BYTECODE, "python3", module, "/shared/arguments.json")
        try:
            said = self.run(*command, processor=processor)
        except CommandError as failure:
            said = failure.output
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    shared = tmp_path_factory.mktemp("arm64")
    (shared / "etc").mkdir()
    (shared / "etc/name").write_text("phone007\n")
    mounts = {
        "/src": PROJECT,
        NAME_FOLDER: shared / "etc",
        "/ansible/ansible": Path(ansible.__file__).parent,
    }
    options = (
        *("--rm", "--init", "--pull=never", "--network=none", "--ipc=none", "--hostname=localhost"),
        *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
        *("--env=PYTHONPATH=/ansible:/shared/current/python", f"--volume={shared}:/shared"),
        *(f"--volume={outside}:{inside}:ro" for inside, outside in mounts.items()),
    )
    start = ("podman", *runtime_options(), "run", *options)
    # Bytecode is the same for all processors; the emulated one would take half a minute for it.
    lab, program = images.ensure(print).lab, "import ansible.module_utils.basic"
    run((*start, f"--env={BYTECODE}", lab, "python3", "-c", program))
    image = arm64.ensure(print)
    with emulation():
        run((*start, "--detach", "--arch=arm64", f"--name={PHONE}", image, "sleep", "3600"))
        try:
            yield Phone(shared)
        finally:
            run(("podman", "rm", "--force", "--time=0", PHONE))


@pytest.fixture(scope="module")
def build(phone: Phone) -> Callable[..., release.Bundle]:
    fulfil(phone.shared / "ssh", Request("rack1", {}))

    def make(processor: str | None = None) -> release.Bundle:
        return release.build(
            TARGET, phone.shared, phone.shared / "ssh/release", processor=processor
        )

    return make


@pytest.fixture(scope="module")
def library(phone: Phone, build: Callable[..., release.Bundle]) -> str:
    """The native library of the release that an old phone has verified and installed."""
    answer = phone.install(build(), OLD)
    assert answer["changed"] is True, answer
    (phone.shared / "current").symlink_to(f"{OLD}/phonerack/current")
    return f"/shared/current/lib/{native.HOSTNAME_LIBRARY}"


@pytest.mark.parametrize("processor", [OLD, NEW])
def test_the_library_loads_and_answers(phone, library, processor) -> None:
    said = phone.run("python3", f"{HERE}/load.py", library, processor=processor)
    assert said.split() == ["aarch64", "phone007", "phone007", "aarch64"]


@pytest.mark.parametrize("processor", [OLD, NEW])
def test_the_kernels_equal_float64(phone, library, processor) -> None:
    kernels = Path(library).with_name(native.KERNEL_LIBRARY)
    program = "/src/tests/trainer/depthwise_reference.py"
    said = phone.run("python3", program, str(kernels), "30", processor=processor)
    assert said.split() == ["equal:", "plain,", "vectors"]


def test_preloaded_it_names_the_phone(phone, library) -> None:
    program = "import os, socket; print(socket.gethostname(), os.uname().nodename)"
    said = phone.run("env", f"LD_PRELOAD={library}", "python3", "-c", program)
    assert said.split() == ["phone007", "phone007"]
    assert phone.run("python3", "-c", program).split() == ["localhost", "localhost"]


def test_two_ranks_sum_over_mpi_under_the_phones_name(phone, library) -> None:
    said = phone.run(
        *("env", f"LD_PRELOAD={library}", "mpirun", "--allow-run-as-root", "-n", "2"),
        *("--map-by", ":OVERSUBSCRIBE", "python3", f"{HERE}/ranks.py"),
    )
    assert sorted(said.splitlines()) == [f"rank {rank} of 2 on phone007: True" for rank in range(2)]


def test_a_processor_that_is_too_old_is_refused_and_says_what_it_lacks(
    phone, build, library
) -> None:
    newer = build("cortex_a76")

    refused = phone.install(newer, OLD)

    assert refused["failed"] is True
    assert (
        "compiled for cortex_a76 and needs asimddp, asimdhp, asimdrdm, atomics, fphp, lrcpc, "
        "which this processor lacks" in refused["msg"]
    )
    assert (phone.shared / OLD / "phonerack/current").readlink().name == build().version
    assert phone.install(newer, NEW)["changed"] is True


def test_the_hardware_checklists_first_step_works(phone, build, library) -> None:
    page = (PROJECT / "docs/hardware-checklist.md").read_text()
    (step,) = re.findall(r"```sh\n(# the library on a phone\n.*?)```", page, re.DOTALL)
    home = phone.shared / "home"
    home.mkdir()
    made = build()
    shutil.copy(made.bundle, home)
    (home / "signers").write_text(f"{made.signers}\n")

    said = phone.run(
        "env", "HOME=/shared/home", "sh", "-c", step.replace("release@try", "release@rack1")
    )

    assert 'Good "phonerack-release" signature for release@rack1' in said
    assert "page 4096 hwcap 0x" in said
    assert said.splitlines()[-2:] == ["library 0 phone007", "preloaded phone007"]


def test_nothing_of_the_emulation_is_left(phone) -> None:
    done = subprocess.run(["findmnt", "--types", "binfmt_misc"], capture_output=True, check=False)
    assert b"/mnt" not in done.stdout
