"""site.yml on a rack of stand-in phones, as its operator meets it."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import pytest
from which_rack import SUBNET

pytestmark = pytest.mark.standin

PHONES = [f"phone{number:03}" for number in range(1, 7)]
PREFIX = "/data/data/com.termux/files/usr"
HOME = "/data/data/com.termux/files/home"
# A program that ends within milliseconds on the head phone makes mpirun 5.0.11 hang now and then,
# as it misses the end of its own child; programs that speak MPI live longer.
NAMES = (
    "timeout 60 mpirun --hostfile ~/phonerack/hostfile"
    f" sh -c 'cat {PREFIX}/etc/phonerack/name; sleep 1'"
)


def recap(output: str) -> dict[str, dict[str, int]]:
    """ansible-playbook's last table: counts by host."""
    table = output.split("PLAY RECAP")[1]
    rows = re.findall(r"^(\S+)\s+: (ok=.*)$", table, re.MULTILINE)
    return {
        host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
        for host, counts in rows
    }


def failure_of(output: str, host: str) -> str:
    """What a task said about the host that it failed on, on one line."""
    found = re.search(rf"^fatal: \[{host}\].*?\n(?=\S|\Z)", output, re.MULTILINE | re.DOTALL)
    assert found, f"nothing failed on {host}:\n{output[-3000:]}"
    return " ".join(found[0].split())


@pytest.fixture
def rack(provisioned_rack):
    return provisioned_rack


@pytest.fixture
def ssh(rack):
    """Run a shell command on a host of the rack by the ssh configuration that site.yml wrote."""

    def run(host: str, command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return rack.run("ssh", "-F", str(rack.folder / "ssh_config"), host, command, check=check)

    return run


@pytest.fixture
def dead_phone(rack) -> Iterator[str]:
    rack.fleetctl("standin", "fault", "phone003", "kill")
    yield "phone003"
    rack.fleetctl("standin", "heal", "phone003")


def test_a_virgin_phone_has_neither_python_nor_mpirun(rack):
    assert rack.evidence["python"].returncode != 0
    assert rack.evidence["mpirun"].returncode != 0


# The case of the matrix that `make test` draws runs a second time, too.
@pytest.mark.soak
def test_a_second_run_changes_nothing(rack):
    hosts = recap(rack.playbook().stdout)

    assert {host: counts["changed"] for host, counts in hosts.items()} == dict.fromkeys(
        [*PHONES, "controller", "services"], 0
    )
    # First contact, packages, release, files, services, facts; the first phone stands for all.
    assert {hosts[phone]["ok"] for phone in PHONES[1:]} == {6}


def test_a_drained_phone_is_provisioned_and_stays_drained(rack, ssh):
    states = rack.evidence["states"]
    assert [name for name, state in states.items() if state == "drained"] == ["phone006"]
    assert recap(rack.evidence["converge"].stdout)["phone006"]["changed"] > 0
    assert ssh("phone006", "command -v mpirun python").stdout.split() == [
        f"{PREFIX}/bin/mpirun",
        f"{PREFIX}/bin/python",
    ]


@pytest.mark.parametrize("phone", PHONES)
def test_a_plain_mpirun_works_from_any_phone(ssh, phone):
    assert sorted(ssh(phone, NAMES).stdout.split()) == PHONES


@pytest.mark.soak
def test_torch_runs_with_the_racks_only_mpi(ssh):
    said = ssh("phone001", "python -c 'import torch, ctypes; ctypes.CDLL(\"libmpi.so.40\")'")

    assert said.returncode == 0


@pytest.mark.soak
def test_a_dead_phone_is_named_and_stops_nobody(rack, dead_phone):
    run = rack.playbook("-t", "phones", check=False)

    hosts = recap(run.stdout)
    assert run.returncode == 4
    assert hosts[dead_phone]["unreachable"] == 1
    alive = [phone for phone in PHONES if phone != dead_phone]
    assert [hosts[phone]["unreachable"] + hosts[phone]["failed"] for phone in alive] == [0] * 5
    last = "phone : Run the services"
    assert all(f"ok: [{phone}]" in run.stdout.split(last)[1] for phone in alive)
    # Once, at the end, with what to do; and the state knows it.
    assert run.stdout.count("check its power") == 1
    told = run.stdout.split("NOT REACHED")[1].strip().splitlines()[1:]
    assert [line for line in told if dead_phone in line] == told[:1]
    assert "check its power" in told[0]
    states = {one["name"]: one["state"] for one in rack.fleetctl_json("status")["phones"]}
    assert states[dead_phone] == "lost"


@pytest.mark.soak
def test_a_dead_phone_is_nothing_to_a_run_that_is_limited_to_another(rack, dead_phone):
    run = rack.playbook("-t", "phones,verify", "-l", "phone002")

    assert list(recap(run.stdout)) == ["phone002"]


@pytest.mark.soak
def test_a_python_that_lacks_a_module_is_named_after_a_try_to_mend_it(rack, ssh):
    folder = "~/.local/lib/python3.13/site-packages"
    code = "import sys; sys.modules['_multiprocessing'] = None"
    ssh("phone002", f'mkdir -p {folder}; echo "{code}" >{folder}/usercustomize.py')
    try:
        run = rack.playbook("-t", "phones", "-l", "phone001,phone002", check=False)
    finally:
        ssh("phone002", "rm -r ~/.local/lib/python3.13")

    said = failure_of(run.stdout, "phone002")
    assert run.returncode == 2
    assert "phone002: Python is broken: ModuleNotFoundError" in said
    assert "_multiprocessing" in said
    assert "packages were installed anew and did not help" in said
    assert recap(run.stdout)["phone001"]["failed"] == 0


@pytest.mark.soak
def test_an_ssh_configuration_with_a_mistake_never_takes_effect(rack, ssh):
    mistake = ("-e", "ssh_max_startups=0")

    run = rack.playbook("-t", "phones", "-l", "phone001", *mistake, check=False)

    said = failure_of(run.stdout, "phone001")
    assert "sshd_config.d/phonerack.conf is refused and nothing was written" in said
    assert ssh("phone001", "true").returncode == 0
    again = rack.playbook("-t", "phones", "-l", "phone001")
    assert recap(again.stdout)["phone001"]["changed"] == 0


@pytest.mark.soak
def test_a_package_cut_on_the_mirror_fails_with_the_reason_and_a_rerun_mends_it(rack, ssh):
    ssh("phone001", "apt-get remove -y iperf3")
    before = ssh("phone001", "dpkg-query -W").stdout
    ssh("services", "truncate -s 1000 /srv/phonerack/mirror/public/*/pool/main/i/iperf3/*.deb")

    run = rack.playbook("-t", "phones", "-l", "phone001", check=False)

    said = failure_of(run.stdout, "phone001")
    assert run.returncode == 2
    assert "nothing was installed" in said
    assert "iperf3" in said
    assert ssh("phone001", "dpkg-query -W").stdout == before
    assert ssh("phone001", "dpkg --audit").stdout == ""
    rack.playbook("-t", "controller,phones", "-l", "controller,services,phone001")
    assert ssh("phone001", "iperf3 --version").stdout.startswith("iperf 3")


@pytest.mark.soak
def test_a_package_that_is_corrupt_on_the_controller_reaches_no_index(rack):
    packages = rack.folder / "packages"
    (deb,) = packages.glob("rsync_*.deb")
    whole = deb.read_bytes()
    deb.write_bytes(whole[:5000])
    try:
        run = rack.playbook("-t", "controller", check=False)
    finally:
        deb.write_bytes(whole)
        rack.playbook("-t", "controller")

    assert run.returncode == 2
    assert f"{deb.name} is corrupt" in failure_of(run.stdout, "services")


@pytest.mark.soak
def test_dpkg_that_was_cut_off_is_finished(rack, ssh):
    status = f"{PREFIX}/var/lib/dpkg/status"
    half = r"/^Package: rsync$/,/^$/s/^Status: .*/Status: install ok half-configured/"
    ssh("phone001", f"sed -i '{half}' {status}")
    assert "rsync" in ssh("phone001", "dpkg --audit").stdout

    rack.playbook("-t", "phones", "-l", "phone001")

    assert ssh("phone001", "dpkg --audit").stdout == ""


@pytest.mark.soak
def test_a_release_that_was_damaged_on_a_phone_is_replaced(rack, ssh):
    ssh("phone001", "echo damage >>~/phonerack/current/python/trainer/schedule.py")

    rack.playbook("-t", "release", "-l", "phone001")

    code = "import trainer.formats"
    python = f"PYTHONPATH={HOME}/phonerack/current/python python -c '{code}'"
    assert ssh("phone001", python).returncode == 0


@pytest.mark.soak
def test_a_phone_that_was_reinstalled_is_provisioned_like_a_new_one(rack, ssh):
    rack.run("podman", "rm", "--force", "--time", "0", f"pr-{rack.folder.name}-phone005")
    rack.fleetctl("standin", "up")

    rack.playbook("-l", "phone005")

    assert sorted(ssh("phone005", NAMES).stdout.split()) == PHONES


def test_a_phone_that_was_rebooted_comes_back_by_itself_with_sshd_and_exporter(rack, ssh):
    url = f"http://{SUBNET}.12:9865/metrics"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return b"phonerack_" in answer.read()
        except OSError:
            return False

    rack.fleetctl("standin", "fault", "phone002", "reboot")

    deadline = time.monotonic() + 120
    while not (answers() and ssh("phone002", "true", check=False).returncode == 0):
        assert time.monotonic() < deadline, "it does not come back"
        time.sleep(0.5)
    again = rack.playbook("-t", "phones", "-l", "phone002")
    assert recap(again.stdout)["phone002"]["changed"] == 0


def test_no_private_key_is_said_or_leaves_its_place(rack, ssh):
    # The last whole line: the first ones are equal in all keys of this kind.
    secret = (rack.folder / "ssh/ca").read_text().splitlines()[-3]

    for host in (*PHONES, "services"):
        found = ssh(host, f"grep -rlF {secret} ~ {PREFIX}/etc /etc 2>/dev/null", check=False)
        assert found.stdout == ""
    assert secret not in rack.evidence["converge"].stdout
