"""Training steps on the phones of a rack: ours beside DistributedDataParallel over gloo.

    fleetctl standin up --phones 4 --rate 100mbit && ansible-playbook site.yml
    fleetctl data add digits && fleetctl launch examples/jobs/digits.yml     # brings the data
    python benchmarks/exchange/steps.py --ranks 4

An iteration's time is the median of the rounds, in which all take turns. DDP's is that of the
faster of two: as it comes (buckets of 1 and 25 MB), and with buckets like ours. What is hidden is
what compute and exchange take one after the other, less what they take together; against the
smaller of backward and exchange, behind which no more can be hidden.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from phones import Phones

from fleetctl.rack import find_rack_file, load_rack

PROGRAM = Path(__file__).with_name("steps_on_phone.py")
CASES = {
    "digits-cnn": ["--batch", "16", "--iterations", "20"],
    "mobilenet_v2": ["--batch", "8", "--iterations", "1"],
    "resnet18": ["--batch", "8", "--iterations", "1"],
}


def medians(answer: dict[str, Any]) -> dict[str, float]:
    return {
        name: statistics.median(value) for name, value in answer.items() if isinstance(value, list)
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rack", help="rack file, chosen like fleetctl's")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--bucket-bytes", type=int, default=4 << 20)
    parser.add_argument("--accuracy", type=float, help="time digits-cnn until it is reached")
    parser.add_argument("--json", type=Path, help="the numbers")
    options = parser.parse_args()
    phones = Phones(load_rack(find_rack_file(options.rack)))
    names = phones.names[: options.ranks]
    phones.put(names, PROGRAM)
    rounds = ["--rounds", str(options.rounds), "--bucket-bytes", str(options.bucket_bytes)]
    found: dict[str, Any] = {}
    for model in options.models:
        answer = phones.mpirun(names, [PROGRAM.name, model, *CASES[model], *rounds])
        found[model] = answer
        m = medians(answer)
        ddp = min(("ddp", "ddp-tuned"), key=lambda name: m[name])
        hidden = m["compute"] + m["exchange"] - m["ours"]
        share = hidden / min(m["backward"], m["exchange"])
        best = min(answer["ours"]) / min(answer["ddp"] + answer["ddp-tuned"])
        print(
            f"{model:14} {options.ranks} phones  ours {m['ours']:.3f} s  {ddp} {m[ddp]:.3f} s  "
            f"ratio {m['ours'] / m[ddp]:.3f} (of the best {best:.3f})  compute "
            f"{m['compute']:.3f}  backward {m['backward']:.3f}  exchange {m['exchange']:.3f}  "
            f"hidden {share:.0%}",
            flush=True,
        )
    if options.accuracy:
        program = [PROGRAM.name, "digits-cnn", "--accuracy", str(options.accuracy)]
        answer = phones.mpirun(names, [*program, "--batch", "16", *rounds])
        found["accuracy"] = answer
        m = medians(answer)
        print(
            f"digits to {options.accuracy:.0%}: ours {m['ours']:.2f} s  DDP {m['ddp']:.2f} s  "
            f"ratio {m['ours'] / m['ddp']:.3f}  epochs {answer['epochs']}"
        )
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
