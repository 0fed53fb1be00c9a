"""The exchanges on the phones of a rack, beside MPI and gloo, against what the links allow.

    fleetctl standin up --phones 8 --switches 3 --rate 100mbit && ansible-playbook site.yml
    python benchmarks/exchange/run.py ring --ranks 4 8
    python benchmarks/exchange/run.py order --rate 100mbit     # six phones on three plain bridges
    python benchmarks/exchange/run.py tensors

The bound of an all-reduce is 2(p-1)/p S/B: what each phone must send, at the goodput B that iperf3
measures between two phones in the same run. Methods take turns, once a round; a method's time is
the median of its rounds on the slowest rank, and its best round stands beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from phones import Phones

from fleetctl.rack import find_rack_file, load_rack
from standin.fabric import plan_fabric
from standin.narrowing import narrow_uplinks

HERE = Path(__file__).parent
TARGET_RATIO = 1.08
MODELS = ("resnet50", "inception_v3")
METHODS: Mapping[str, Mapping[str, Any]] = {
    "our ring": {"reduce": "ring"},
    "our ring, half": {"reduce": "ring", "codec": "half"},
    "hierarchical": {"reduce": "hierarchical"},
    "MPI_Allreduce, default": {"reduce": "mpi"},
    "MPI_Allreduce, tuned ring": {"reduce": "mpi", "algorithm": "ring"},
    "gloo": {"reduce": "gloo"},
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is exchanged, how, by whom."""

    label: str
    method: str
    phones: Sequence[str]
    file: str
    """Of the tensors' lengths, on the phones."""
    bytes: int
    """Of all tensors."""


@dataclass(frozen=True, slots=True)
class Result:
    label: str
    method: str
    ranks: int
    seconds: float
    best_seconds: float
    cpu_seconds: float
    """Of an average rank."""
    bound_seconds: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.bound_seconds


def measure(phones: Phones, cases: Sequence[Case], rounds: int, goodput: float) -> list[Result]:
    """All cases, taking turns."""
    answers: dict[int, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for number, case in enumerate(cases):
            exchange = METHODS[case.method]
            switches = ",".join(phones.rack.phones[name].switch or "" for name in case.phones)
            program = ["on_phone.py", json.dumps(exchange), case.file, "--switches", switches]
            algorithm = exchange.get("algorithm", "default")
            answer = phones.mpirun(case.phones, program, algorithm)
            print(f"{case.label:24} {case.method:26} {answer['seconds'][0]:.3f} s", file=sys.stderr)
            answers.setdefault(number, []).append(answer)
    return [_result(case, answers[number], goodput) for number, case in enumerate(cases)]


def _result(case: Case, answers: Sequence[dict[str, Any]], goodput: float) -> Result:
    seconds = [answer["seconds"][0] for answer in answers]
    cpu_seconds = statistics.median(answer["cpu_seconds"][0] for answer in answers)
    ranks = len(case.phones)
    bound = 2 * (ranks - 1) / ranks * case.bytes / goodput
    median = statistics.median(seconds)
    return Result(case.label, case.method, ranks, median, min(seconds), cpu_seconds, bound)


def ring_cases(
    phones: Phones, ranks: Sequence[int], megabytes: float, methods: Sequence[str]
) -> list[Case]:
    """One buffer of so many megabytes, by every method, on so many phones."""
    length = int(megabytes * 1e6) // 4
    phones.put(phones.names[: max(ranks)], one_json=json.dumps([length]))
    return [
        Case(f"{count} phones", method, phones.names[:count], "one.json", 4 * length)
        for count in ranks
        for method in methods
    ]


def order_cases(phones: Phones, megabytes: float) -> list[Case]:
    """Two phones of each switch, side by side in the ring or spread over it."""
    members: dict[str, list[str]] = {}
    for name in phones.names:
        members.setdefault(phones.rack.phones[name].switch or "", []).append(name)
    contiguous = [name for names in members.values() for name in names[:2]]
    interleaved = [names[turn] for turn in range(2) for names in members.values()]
    length = int(megabytes * 1e6) // 4
    phones.put(contiguous, one_json=json.dumps([length]))
    return [
        Case("contiguous", "our ring", contiguous, "one.json", 4 * length),
        Case("interleaved", "our ring", interleaved, "one.json", 4 * length),
    ]


def tensor_cases(
    phones: Phones, ranks: int, models: Sequence[str], methods: Sequence[str]
) -> list[Case]:
    """The gradients of models: all in one message, or a message a tensor."""
    names = phones.names[:ranks]
    tensors: dict[str, list[int]] = json.loads((HERE / "tensors.json").read_text())
    cases = []
    for model in models:
        lengths = tensors[model]
        phones.put(names, **{f"{model.replace('_', '-')}_json": json.dumps(lengths)})
        phones.put(names, **{f"{model.replace('_', '-')}-packed_json": json.dumps([sum(lengths)])})
        for way, suffix in (("packed", "-packed"), ("chunk-wise", "")):
            file = f"{model.replace('_', '-')}{suffix}.json"
            size = 4 * sum(lengths)
            cases += [Case(f"{model} {way}", method, names, file, size) for method in methods]
    return cases


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("ring", "order", "tensors"))
    parser.add_argument("--rack", help="rack file, chosen like fleetctl's")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--megabytes", type=float, default=37.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", default="100mbit", help="of a phone's link (for order)")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    options = parser.parse_args()

    rack = load_rack(find_rack_file(options.rack))
    phones = Phones(rack)
    if max(options.ranks) > len(phones.names):
        parser.error(f"--ranks {max(options.ranks)}: the rack has {len(phones.names)} phones")
    phones.put(phones.names, HERE / "on_phone.py")
    if options.what == "ring":
        cases = ring_cases(phones, options.ranks, options.megabytes, options.methods)
    elif options.what == "order":
        cases = order_cases(phones, options.megabytes)
    else:
        cases = tensor_cases(phones, max(options.ranks), options.models, options.methods)
    with (
        narrow_uplinks(plan_fabric(rack), options.rate)
        if options.what == "order"
        else nullcontext()
    ):
        goodput = phones.goodput_bytes_per_second()
        results = measure(phones, cases, options.rounds, goodput)
    if options.output == "json":
        document = {"goodput_bytes_per_second": goodput, "rounds": options.rounds}
        lines = [{**asdict(result), "ratio": result.ratio} for result in results]
        print(json.dumps({**document, "results": lines}, indent=2))
    else:
        print_table(results, goodput)
    if options.what != "ring":
        return 0
    ours = [result for result in results if result.method == "our ring"]
    return 0 if all(result.ratio <= TARGET_RATIO for result in ours) else 1


def print_table(results: Sequence[Result], goodput: float) -> None:
    print(f"goodput {goodput * 8e-6:.1f} Mb/s")
    for r in results:
        print(
            f"{r.label:24} {r.method:26} {r.seconds:7.3f} s (best {r.best_seconds:7.3f})  "
            f"{r.ratio:5.2f} x bound  {r.cpu_seconds:5.2f} CPU s"
        )


if __name__ == "__main__":
    sys.exit(main())
