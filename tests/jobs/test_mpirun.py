"""The mpirun line of both series, word by word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetctl.jobs.mpirun import World, arguments, hostfile

FOLDER = "/home/phonerack/runs/digits-1"
WORLD = World(
    series="5.0",
    run="digits-1",
    ranks=3,
    cidr="10.138.0.0/24",
    folder=FOLDER,
    environment={"PYTHONPATH": "/home/python"},
)
SSH = "-o ConnectTimeout=5 -o BatchMode=yes -o SetEnv=PHONERACK_RUN=digits-1"
COMMON = f"mpirun --hostfile {FOLDER}/hostfile -n 3 --map-by ppr:1:node --bind-to none"
FORWARDED = "-x PHONERACK_RUN=digits-1 -x PYTHONPATH=/home/python -x MASTER_PORT python -m trainer"

GOLDEN: dict[Any, list[str]] = {
    "5.0": [
        *f"{COMMON} --wdir {FOLDER} --output tag".split(),
        *["--prtemca", "plm_ssh_no_tree_spawn", "1", "--prtemca", "plm_ssh_num_concurrent", "16"],
        *["--prtemca", "plm_ssh_args", SSH],
        *["--prtemca", "oob_tcp_keepalive_time", "10", "--prtemca", "oob_tcp_keepalive_intvl", "3"],
        *["--prtemca", "oob_tcp_keepalive_probes", "3"],
        *["--prtemca", "prte_if_include", "10.138.0.0/24"],
        *["--pmixmca", "ptl_base_if_include", "10.138.0.0/24"],
        *["--mca", "btl_tcp_if_include", "10.138.0.0/24", "--mca", "btl_tcp_links", "2"],
        *["--mca", "mpi_yield_when_idle", "1"],
        *FORWARDED.split(),
    ],
    "4.1": [
        *f"{COMMON} --wdir {FOLDER} --tag-output".split(),
        *["--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "plm_rsh_num_concurrent", "16"],
        *["--mca", "plm_rsh_args", SSH],
        *["--mca", "oob_tcp_keepalive_time", "10", "--mca", "oob_tcp_keepalive_intvl", "3"],
        *["--mca", "oob_tcp_keepalive_probes", "3", "--mca", "oob_tcp_if_include", "10.138.0.0/24"],
        *["--mca", "btl_tcp_if_include", "10.138.0.0/24", "--mca", "btl_tcp_links", "2"],
        *["--mca", "mpi_yield_when_idle", "1"],
        *FORWARDED.split(),
    ],
}


@pytest.mark.parametrize("series", GOLDEN)
def test_golden_line(series: Any) -> None:
    assert arguments(replace(WORLD, series=series), ["python", "-m", "trainer"]) == GOLDEN[series]


@pytest.mark.parametrize("series", GOLDEN)
def test_the_algorithm_of_mpi_allreduce_is_chosen_with_the_rules_that_heed_it(series: Any) -> None:
    line = arguments(replace(WORLD, series=series, allreduce="ring"), ["true"])
    chosen = "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4"
    assert f" {chosen} " in " ".join(line)


def test_the_program_comes_last_and_unchanged() -> None:
    program = ["sh", "-c", "echo 'two words'; exit 3", "--hostfile"]
    assert arguments(WORLD, program)[-4:] == program


def test_one_rank_a_phone_by_address() -> None:
    assert hostfile(["10.0.0.2", "10.0.0.1"]) == "10.0.0.2 slots=1\n10.0.0.1 slots=1\n"
