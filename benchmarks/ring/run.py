"""The ring on the phones of a rack, beside MPI_Allreduce, against what the links allow.

    fleetctl standin up --phones 8 --rate 200mbit && ansible-playbook site.yml
    python benchmarks/ring/run.py --ranks 4 8 [-o json]

The bound of an all-reduce is 2(p-1)/p S/B: what each phone must send, at the goodput B that iperf3
measures between two phones in the same run. Ranks stand in ring order. A method's time is the
median of its repeats on the slowest rank.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack

PROGRAM = Path(__file__).with_name("ring_bench.py")
FOLDER = "phonerack/ring-bench"
TARGET_RATIO = 1.10
IPERF_SECONDS = 3
TUNED_RING = (
    *("--mca", "coll_tuned_use_dynamic_rules", "1"),
    *("--mca", "coll_tuned_allreduce_algorithm", "4"),
)
METHODS: dict[str, tuple[tuple[str, ...], str]] = {
    "our ring": ((), "ring"),
    "MPI_Allreduce, default": ((), "allreduce"),
    "MPI_Allreduce, tuned ring": (TUNED_RING, "allreduce"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """One method on so many phones."""

    ranks: int
    method: str
    seconds: float
    cpu_seconds: float
    """Of an average rank."""
    bound_seconds: float
    ratio: float


class Phones:
    """Commands on phones of a rack, by the operator's key."""

    def __init__(self, rack: Rack) -> None:
        self.rack, self._paths = rack, RackPaths(rack.name)
        self.names = rack.ring(list(rack.phones))

    def run(self, name: str, command: str, text: str | None = None) -> str:
        """The output of a shell command on a phone; raises CalledProcessError."""
        done = subprocess.run(
            ["ssh", *self._options(name), self.rack.phones[name].address, command],
            input=text,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout

    def _options(self, name: str) -> list[str]:
        settings = {
            "Port": "8022",
            "User": "phone",
            "IdentityFile": self._paths.operator,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self._paths.known_hosts,
            "HostKeyAlias": name,
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def goodput_bytes_per_second(phones: Phones) -> float:
    """What iperf3 gets from the first phone to the second."""
    server, client = phones.names[1], phones.names[0]
    phones.run(server, "iperf3 --server --one-off --daemon")
    address = phones.rack.phones[server].address
    report = phones.run(client, f"iperf3 --client {address} --time {IPERF_SECONDS} --json")
    return float(json.loads(report)["end"]["sum_received"]["bits_per_second"]) / 8


def measure(
    phones: Phones, ranks: int, method: str, size_bytes: float, repeats: int, goodput: float
) -> Result:
    parameters, what = METHODS[method]
    head = phones.names[0]
    hosts = ",".join(phones.rack.phones[name].address for name in phones.names[:ranks])
    command = [
        *("mpirun", "--host", hosts, "-n", str(ranks), "--map-by", "ppr:1:node"),
        *("-x", "PYTHONPATH", *parameters, "python", f"{FOLDER}/ring_bench.py", what),
        *("--megabytes", str(size_bytes / 1e6), "--repeats", str(repeats)),
    ]
    path = "export PYTHONPATH=$HOME/phonerack/current/python"
    output = phones.run(head, f"{path}; {shlex.join(command)}")
    answer = json.loads(output.splitlines()[-1])
    seconds = statistics.median(answer["seconds"])
    bound = 2 * (ranks - 1) / ranks * size_bytes / goodput
    cpu_seconds = statistics.median(answer["cpu_seconds"])
    return Result(ranks, method, seconds, cpu_seconds, bound, seconds / bound)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rack", help="rack file, chosen like fleetctl's")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--megabytes", type=float, default=37.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()

    phones = Phones(load_rack(find_rack_file(options.rack)))
    if max(options.ranks) > len(phones.names):
        parser.error(f"--ranks {max(options.ranks)}: the rack has {len(phones.names)} phones")
    for name in phones.names[: max(options.ranks)]:
        command = f"mkdir -p {FOLDER} && cat > {FOLDER}/ring_bench.py"
        phones.run(name, command, PROGRAM.read_text())
    goodput = goodput_bytes_per_second(phones)
    size_bytes = options.megabytes * 1e6
    results = [
        measure(phones, ranks, method, size_bytes, options.repeats, goodput)
        for ranks in options.ranks
        for method in METHODS
    ]
    if options.output == "json":
        document = {"bytes": size_bytes, "goodput_bytes_per_second": goodput}
        print(json.dumps({**document, "results": [asdict(r) for r in results]}, indent=2))
    else:
        print_table(results, goodput)
    ours = [result for result in results if result.method == "our ring"]
    return 0 if all(result.ratio <= TARGET_RATIO for result in ours) else 1


def print_table(results: list[Result], goodput: float) -> None:
    print(f"goodput {goodput * 8e-6:.1f} Mb/s")
    for r in results:
        print(
            f"{r.ranks:3} phones  {r.method:26} {r.seconds:6.3f} s  {r.ratio:5.2f} x bound  "
            f"{r.cpu_seconds:5.2f} CPU s"
        )


if __name__ == "__main__":
    sys.exit(main())
