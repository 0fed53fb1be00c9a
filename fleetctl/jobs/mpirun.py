"""The mpirun command line of a run: a pure function of the Open MPI series and the world.

What the options cure was measured on racks of Linux stand-ins. The two series differ in spelling
only: ORTE (4.1) reads `--mca`, PRRTE and PMIx (5.0) have their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleetctl.jobs.onphone import run_of
from fleetctl.rack.model import OpenMpiSeries
from trainer.formats import MpiAlgorithm

SSH_CHILDREN = 16
"""Android 12 kills above 32 child processes over all apps; mpirun's default is 128."""


ALLREDUCE_ALGORITHMS: Mapping[MpiAlgorithm, int] = {
    "recursive_doubling": 3,
    "ring": 4,
    "segmented_ring": 5,
    "rabenseifner": 6,
}
"""As both series number them for coll_tuned_allreduce_algorithm (`ompi_info --all`)."""


@dataclass(frozen=True, slots=True)
class World:
    """What mpirun needs to know. `cidr` chooses the interface, since names differ by phone."""

    series: OpenMpiSeries
    run: str
    """The attempt's name; its processes bear the mark of the run."""
    ranks: int
    cidr: str
    folder: str
    """The run folder, at the same path on every phone; the host file lies in it."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Forwarded to every rank."""
    allreduce: MpiAlgorithm = "default"
    """How MPI_Allreduce is done, for whom it interests."""


def arguments(world: World, program: Sequence[str]) -> list[str]:
    """mpirun and its arguments that start `program` once on each phone of the host file.

    mpirun is named without a path: an absolute one would turn prefix mode on.
    """
    options = [
        ["--hostfile", f"{world.folder}/hostfile"],
        ["-n", str(world.ranks)],
        # Without it 4.1 puts all ranks on one phone that offers the slots.
        ["--map-by", "ppr:1:node"],
        ["--bind-to", "none"],
        ["--wdir", world.folder],
        *_series_options(world),
    ]
    forwarded = {"PHONERACK_RUN": run_of(world.run), **world.environment}
    options += [["-x", f"{name}={value}"] for name, value in forwarded.items()]
    options.append(["-x", "MASTER_PORT"])  # which start.sh has chosen
    return ["mpirun", *(word for option in options for word in option), *program]


def hostfile(addresses: Iterable[str]) -> str:
    """One rank a phone, by address: every phone's host name is `localhost`."""
    return "".join(f"{address} slots=1\n" for address in addresses)


def _series_options(world: World) -> list[list[str]]:
    launcher = {
        # A tree would start daemons from phones that hold no key; it hangs above 64 hosts.
        "no_tree_spawn": "1",
        "num_concurrent": str(SSH_CHILDREN),
        # A host that is down costs 4 s instead of 71; the mark lets a sweep find every process.
        "args": f"-o ConnectTimeout=5 -o BatchMode=yes -o SetEnv=PHONERACK_RUN={run_of(world.run)}",
    }
    # A pulled cable ends the run after about 19 s; by default it is not noticed at all.
    keepalive = {
        "oob_tcp_keepalive_time": "10",
        "oob_tcp_keepalive_intvl": "3",
        "oob_tcp_keepalive_probes": "3",
    }
    # A waiting rank would burn the core, and heat the phone, that compute needs.
    # Two connections to a neighbour: over one, sending and receiving at once reaches half the rate.
    ranks = {"btl_tcp_if_include": world.cidr, "btl_tcp_links": "2", "mpi_yield_when_idle": "1"}
    ranks |= allreduce_parameters(world.allreduce)
    if world.series == "4.1":
        daemons = {f"plm_rsh_{name}": value for name, value in launcher.items()} | keepalive
        daemons["oob_tcp_if_include"] = world.cidr
        return [["--tag-output"], *_parameters("--mca", daemons), *_parameters("--mca", ranks)]
    daemons = {f"plm_ssh_{name}": value for name, value in launcher.items()} | keepalive
    daemons["prte_if_include"] = world.cidr
    return [
        ["--output", "tag"],
        *_parameters("--prtemca", daemons),
        *_parameters("--pmixmca", {"ptl_base_if_include": world.cidr}),
        *_parameters("--mca", ranks),
    ]


def allreduce_parameters(algorithm: MpiAlgorithm) -> dict[str, str]:
    """The MCA parameters of the ranks that choose it, in both series."""
    if algorithm == "default":
        return {}
    return {
        # Without it the choice is read and ignored.
        "coll_tuned_use_dynamic_rules": "1",
        "coll_tuned_allreduce_algorithm": str(ALLREDUCE_ALGORITHMS[algorithm]),
    }


def _parameters(option: str, values: Mapping[str, str]) -> list[list[str]]:
    return [[option, name, value] for name, value in values.items()]
