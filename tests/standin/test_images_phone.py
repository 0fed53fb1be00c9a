"""One stand-in phone by plain podman: bare it can do nothing, with its packages it computes."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from standin import images
from standin.commands import run
from standin.engine import Spec, make_network, remove, remove_network, start_new

pytestmark = pytest.mark.standin

PREFIX = "/data/data/com.termux/files/usr"
HOME = "/data/data/com.termux/files/home"
APP_UID = 10007
REPOSITORY = "/repository"
NETWORK = "image-test"
HARDWARE = {
    "props.txt": "[ro.product.model]: [SM-G975F]\n[ro.serialno]: [R58M0001]\n",
    "boot.txt": f"app_uid={APP_UID}\nboot_app=yes\nunlocked=always\n",
    "battery_status.json": '{"percentage": 80}\n',
}


@dataclass(frozen=True)
class Phone:
    container: str
    address: str
    folder: Path

    def ssh(self, command: str, user: str = "phone") -> subprocess.CompletedProcess[str]:
        options = (
            *("-q", "-p", "8022", "-i", str(self.folder / "operator"), "-o", "IdentitiesOnly=yes"),
            *("-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=yes"),
            *(
                "-o",
                f"UserKnownHostsFile={self.folder / 'known_hosts'}",
                "-o",
                "HostKeyAlias=phone",
            ),
        )
        words = ("ssh", *options, f"{user}@{self.address}", command)
        return subprocess.run(words, capture_output=True, text=True, timeout=120)

    def output(self, command: str) -> str:
        done = self.ssh(command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def become(self, command: str, wanted: str) -> None:
        """Wait until the command says what is wanted: sshd restarts behind our back."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if (said := self.ssh(command).stdout.strip()) == wanted:
                return
            time.sleep(0.1)
        raise AssertionError(f"`{command}` on {self.container} says {said!r}, not {wanted!r}")

    def python(self, program: str) -> str:
        return self.output(f"python -c '{program}'")


def address_of(container: str) -> str:
    field = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    return run(("podman", "inspect", f"--format={field}", container)).strip()


def boot(name: str, folder: Path, packages: Path) -> Phone:
    """Start a phone on a network of podman's, where no DHCP server answers, and await its sshd."""
    enrol, hardware = folder / "enrol", folder / "hw"
    enrol.mkdir()
    hardware.mkdir()
    for key in (folder / "operator", enrol / "ssh_host_ed25519_key"):
        run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)))
    (enrol / "authorized_keys").write_text((folder / "operator.pub").read_text())
    (folder / "known_hosts").write_text("phone " + (enrol / "ssh_host_ed25519_key.pub").read_text())
    for file, text in HARDWARE.items():
        (hardware / file).write_text(text)
    (folder / "denied").touch(mode=0o000)
    start_new(
        Spec(
            name=name,
            image=images.ensure(print).phone,
            rack="image-test",
            host="phone",
            folder=str(folder),
            hostname="localhost",
            options=(
                "--init",
                "--ipc=none",
                "--cap-add=NET_ADMIN,NET_RAW",
                f"--network={NETWORK}",
            ),
            mounts={
                "/standin/hw": str(hardware),
                "/standin/enrol": str(enrol),
                "/proc/stat": str(folder / "denied"),
                REPOSITORY: str(packages),
            },
        )
    )
    phone = Phone(name, address_of(name), folder)
    phone.become("echo up", "up")
    return phone


@pytest.fixture(scope="module", autouse=True)
def network() -> Iterator[None]:
    try:
        make_network("image-test", NETWORK)
        yield
    finally:
        remove_network(NETWORK)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flat repository of all Termux packages."""
    folder = tmp_path_factory.mktemp("packages")
    folder.chmod(0o755)  # the app reads it
    images.ensure(print)
    images.export_packages(folder)
    index = ""
    for deb in sorted(folder.glob("*.deb")):
        control = run(("dpkg-deb", "--field", str(deb))).strip()
        digest = run(("sha256sum", str(deb))).split()[0]
        index += (
            f"{control}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n\n"
        )
    (folder / "Packages").write_text(index)
    return folder


@pytest.fixture(scope="module")
def bare(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    try:
        yield boot("image-test-bare", tmp_path_factory.mktemp("bare"), packages)
    finally:
        remove(["image-test-bare"])


@pytest.fixture(scope="module")
def equipped(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    """A phone with Python, PyTorch and Open MPI, installed by its own apt."""
    try:
        phone = boot("image-test-equipped", tmp_path_factory.mktemp("equipped"), packages)
        source = f"deb [trusted=yes] file:{REPOSITORY} ./"
        phone.output(f"echo '{source}' >$PREFIX/etc/apt/sources.list && apt-get update")
        phone.output("apt-get install -y python-torch python-torchvision termux-api")
        yield phone
    finally:
        remove(["image-test-equipped"])


class TestBarePhone:
    @pytest.mark.parametrize("program", ["python", "python3", "python3.13", "mpirun", "iperf3"])
    def test_has_none_of_what_provisioning_brings(self, bare: Phone, program: str) -> None:
        assert bare.ssh(f"{program} --version").returncode == 127
        assert (
            bare.output(f"find / -xdev -name {program} -type f -perm -111 2>/dev/null; true") == ""
        )

    def test_is_an_ordinary_app_user_without_a_home_in_passwd(self, bare: Phone) -> None:
        assert bare.output("id -u; id -un").split() == [str(APP_UID), f"u0_a{APP_UID - 10000}"]
        assert bare.output("grep u0_a /etc/passwd").split(":")[5:] == ["/data", "/system/bin/sh"]
        assert bare.ssh("touch /data/x").returncode != 0
        assert bare.output("grep CapEff /proc/self/status").split()[1].strip("0") == ""

    def test_accepts_any_user_name(self, bare: Phone) -> None:
        assert bare.ssh("pwd", user="whoever").stdout.strip() == HOME

    @pytest.mark.parametrize("path", ["/tmp", "/dev/shm", "/usr/bin", "/home"])  # noqa: S108
    def test_has_no_debian_folders(self, bare: Phone, path: str) -> None:
        assert "No such file" in bare.ssh(f"ls -d {path}").stderr

    def test_writes_nowhere_but_in_termux(self, bare: Phone) -> None:
        find = "find / -xdev ! -type l -writable ! -path '/proc/*' ! -path '/data/data/com.termux*'"
        assert bare.output(f"{find} 2>/dev/null; true") == ""

    def test_has_no_way_to_become_root(self, bare: Phone) -> None:
        assert bare.output("find / -xdev -perm /6000 2>/dev/null; true") == ""
        assert bare.ssh("command -v su sudo").stdout == ""

    @pytest.mark.parametrize(
        "path", ["/proc/stat", "/proc/net/dev", "/proc/self/net/route", "/sys/class/net/eth0/mtu"]
    )
    def test_hides_what_android_hides(self, bare: Phone, path: str) -> None:
        for cat in ("cat", "/system/bin/cat"):
            assert "Permission denied" in bare.ssh(f"{cat} {path}").stderr

    def test_is_called_localhost(self, bare: Phone) -> None:
        assert bare.output("/system/bin/hostname; uname -n").split() == ["localhost"] * 2

    def test_session_has_termuxs_environment(self, bare: Phone) -> None:
        environment = dict(line.split("=", 1) for line in bare.output("env").splitlines())
        assert environment["PATH"] == f"{PREFIX}/bin:/system/bin"
        assert environment["PREFIX"] == environment["OPAL_PREFIX"] == PREFIX
        assert environment["TMPDIR"] == f"{PREFIX}/tmp"  # noqa: S108
        assert environment["HOME"] == HOME
        assert "LD_LIBRARY_PATH" not in environment
        assert "SVDIR" not in environment

    def test_operators_preload_wins(self, bare: Phone) -> None:
        preload = f"{PREFIX}/lib/libtermux-exec.so:{PREFIX}/lib/libtermux-exec.so"
        setting = f"{PREFIX}/etc/ssh/sshd_config.d/preload.conf"
        service = f"{PREFIX}/var/service/sshd"
        bare.output(f"echo SetEnv LD_PRELOAD={preload} >{setting} && sv hup {service}")
        bare.become("echo $LD_PRELOAD", preload)
        bare.output(f"rm {setting} && sv hup {service}")
        bare.become("echo $LD_PRELOAD", f"{PREFIX}/lib/libtermux-exec.so")

    def test_nothing_starts_that_preloads_a_missing_file(self, bare: Phone) -> None:
        said = bare.ssh("LD_PRELOAD=/nowhere.so ls")

        assert said.returncode == 1
        refusal = f'CANNOT LINK EXECUTABLE "{PREFIX}/bin/ls": library "/nowhere.so" not found'
        assert refusal in said.stderr

    def test_scripts_find_their_interpreters_in_the_prefix(self, bare: Phone) -> None:
        script = r"printf '#!/usr/bin/env bash\necho $BASH $1\n' >x && chmod +x x && ./x y"
        assert bare.output(script) == f"{PREFIX}/bin/bash y"

    def test_knows_its_packages(self, bare: Phone) -> None:
        installed = bare.output("dpkg-query -W -f '${Package} '").split()
        assert {"apt", "bash", "dpkg", "openssh", "termux-services"} <= set(installed)
        assert not {"python", "openmpi"} & set(installed)

    def test_tools_answer_from_the_hardware_files(self, bare: Phone) -> None:
        assert bare.output("getprop ro.product.model") == "SM-G975F"
        assert bare.output("getprop ro.nothing") == ""

    @pytest.mark.parametrize("tool", ["settings", "pm", "dumpsys", "cmd", "am"])
    def test_services_are_somebody_elses(self, bare: Phone, tool: str) -> None:
        assert f"Can't find service: {tool}" in bare.ssh(tool).stderr

    def test_lives_on_without_its_supervisor_until_it_reboots(self, bare: Phone) -> None:
        bare.ssh("pkill -HUP runsvdir")
        running = run(("podman", "inspect", "--format={{.State.Running}}", bare.container))
        assert running.strip() == "true"
        run(("podman", "restart", "--time=0", bare.container))
        again = replace(bare, address=address_of(bare.container))
        again.become("echo up", "up")
        assert again.output(f"sv status {PREFIX}/var/service/sshd").startswith("run:")


class TestEquippedPhone:
    def test_python_is_the_prefixs_and_says_android(self, equipped: Phone) -> None:
        program = "import sys, platform; print(sys.prefix, sys.executable, platform.system())"
        assert equipped.python(program).split() == [PREFIX, f"{PREFIX}/bin/python", "Android"]

    def test_python_has_the_modules_that_ansible_needs(self, equipped: Phone) -> None:
        equipped.python("import grp, pwd, fcntl, ssl, _multiprocessing, ctypes")

    def test_torch_computes(self, equipped: Phone) -> None:
        program = "import torch; print((torch.ones(9, 9) @ torch.ones(9, 9)).sum().item())"
        assert equipped.python(program) == "729.0"
        equipped.python("import torchvision; torchvision.models.squeezenet1_1()")

    def test_only_the_packages_open_mpi_can_be_loaded(self, equipped: Phone) -> None:
        program = (
            'import torch, ctypes; ctypes.CDLL("libmpi.so.40"); '
            'print({l.split()[-1] for l in open("/proc/self/maps") if "libmpi" in l})'
        )
        assert equipped.python(program) == str({f"{PREFIX}/lib/libmpi.so.40"})

    def test_battery_status_is_the_hardwares(self, equipped: Phone) -> None:
        assert equipped.output("termux-battery-status") == '{"percentage": 80}'

    @pytest.mark.parametrize(
        ("when", "over_ssh", "elsewhere"),
        [("always", True, True), ("ssh", True, False), ("1in1", True, True)],
    )
    def test_the_battery_call_hangs_when_it_is_told_to(
        self, equipped: Phone, when: str, over_ssh: bool, elsewhere: bool
    ) -> None:
        (equipped.folder / "hw/battery_hang").write_text(f"{when}\n")
        try:
            call = "timeout 2 termux-battery-status >/dev/null; echo $?"
            assert equipped.output(call) == ("124" if over_ssh else "0")
            assert equipped.output(f"unset SSH_CONNECTION; {call}") == ("124" if elsewhere else "0")
        finally:
            (equipped.folder / "hw/battery_hang").unlink()

    @pytest.mark.parametrize("version", ["4.1.8", "5.0.11"])
    def test_mpi_sums_torch_tensors(self, equipped: Phone, version: str) -> None:
        equipped.output(f"apt-get install -y --allow-downgrades openmpi={version}-0")
        assert f" {version}" in equipped.output("mpirun --version").splitlines()[0]
        program = Path(__file__).with_name("allreduce.py").read_text()
        write = subprocess.run(
            ("podman", "exec", "-i", equipped.container, "/system/bin/tee", f"{HOME}/allreduce.py"),
            input=program,
            text=True,
            capture_output=True,
        )
        assert write.returncode == 0
        done = equipped.ssh("mpirun --oversubscribe -n 2 python allreduce.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == ["3.0", "3.0"]
        assert "UCX" not in done.stderr
