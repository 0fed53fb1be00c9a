"""The fault matrix: every kind of fault at random moments of a training, and what became of it.

A provisioned rack of 8 stand-in phones is there, and `fleetctl data add digits` was done. Each cell
is one job, launched, hurt at a moment that the seed chooses, and left alone. Its result is one line
of a file; a cell that is in there is not run again, so a matrix that was broken off goes on.

    python benchmarks/recovery/matrix.py [KIND ...] --results FILE.jsonl
    python benchmarks/recovery/matrix.py --results FILE.jsonl --table docs/figures.md
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from table import write_table

from fleetctl.jobs import past
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
SEED = 2024
MOMENTS = 10
EVERY = 20
"""Iterations between two checkpoints."""

JOB = f"""\
phones: 6
minimum: 3
spares: 1
train:
  model: digits-cnn
  data: digits
  epochs: {{epochs}}
  global_batch: 48
  optimizer: {{{{name: sgd, lr: 0.05, momentum: 0.9}}}}
  deterministic: true
  checkpoint: {{{{every_iterations: {EVERY}}}}}
"""
EPOCHS = {"slow": 60}
"""Others have 20. Naming a slow phone takes a while, in which the training goes on."""

ITERATIONS = 600
END_LIMIT_SECONDS = 420.0

COMPARED = 50
"""Iterations after each recovery whose losses are held against those of an undisturbed run:
rounding of sums in another order grows with the iterations."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of one fault. Seconds are by the machine's clock, which the stand-ins share."""

    kind: str
    moment: int
    run: str
    hurt: tuple[str, ...]
    iteration: int
    """Where the training was when the fault came."""
    named: tuple[str, ...]
    attempts: int
    cold_seconds: float
    """From the command to the first iteration, without any fault."""
    noticed_seconds: float | None
    """From the fault to the moment when the supervision knew that something was wrong."""
    recovered_seconds: float | None
    """From there to the next iteration."""
    lost_iterations: int | None
    deviation: float | None
    """How far losses after a recovery were from those of an undisturbed run, at most, as a part of
    the first loss of all; None where nothing had to begin again."""
    finished: bool
    left_over: tuple[str, ...]
    """Phones on which a process of the run was found afterwards."""
    time: float = field(default_factory=time.time)

    @property
    def right(self) -> bool:
        """Whether the phones that were hurt were named, and no other."""
        return sorted(self.named) == sorted(self.hurt)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "right": self.right}


@dataclass(frozen=True, slots=True)
class Scene:
    """A job in training, about to be hurt."""

    rack: Rack
    run: RunFolder
    process: subprocess.Popen[str]
    chance: random.Random

    @property
    def phones(self) -> tuple[str, ...]:
        return self.run.summary().phones

    def other(self) -> str:
        """A phone that is not the head phone."""
        return self.chance.choice(self.phones[1:])

    def fault(self, phone: str, what: str) -> None:
        call("standin", "fault", phone, what)


type Hurt = Callable[[Scene], tuple[str, ...]]
"""Does it, and returns the phones that must be named."""


def to_another(what: str) -> Hurt:
    def hurt(scene: Scene) -> tuple[str, ...]:
        phone = scene.other()
        scene.fault(phone, what)
        return (phone,)

    return hurt


def freeze_rank(scene: Scene) -> tuple[str, ...]:
    """The program on a phone stands still, while the phone answers whatever it is asked."""
    phone = scene.other()
    prefix = "/data/data/com.termux/files/usr/bin"
    done = inside(scene.rack, phone, f"{prefix}/pkill", "-STOP", "-f", "trainer plan.json")
    if done.returncode:
        sys.exit(f"matrix: {phone} has no rank to be frozen: {done.stderr}")
    return (phone,)


def lose_head(scene: Scene) -> tuple[str, ...]:
    scene.fault(scene.phones[0], scene.chance.choice(["kill", "unplug", "hang"]))
    return (scene.phones[0],)


def kill_controller(scene: Scene) -> tuple[str, ...]:
    """The supervisor is killed; every other time a phone with it."""
    scene.process.send_signal(signal.SIGKILL)
    scene.process.wait()
    return to_another("kill")(scene) if scene.chance.random() < 0.5 else ()


def corrupt_checkpoint(scene: Scene) -> tuple[str, ...]:
    """A phone dies, and the newest checkpoint is damaged wherever it lies."""
    hurt = to_another("kill")(scene)
    time.sleep(0.5)  # what was being written is there
    runs = "/data/data/com.termux/files/home/phonerack/runs"
    folder = f"{runs}/{scene.run.attempt_name}/checkpoints"
    damage = f'cd {folder} && f=$(ls | tail -n 1) && truncate -s -100 "$f" && echo "$f"'
    shell = "/data/data/com.termux/files/usr/bin/sh"
    for phone in scene.phones[:2]:
        if phone not in hurt:
            said = inside(scene.rack, phone, shell, "-c", damage).stdout.strip()
            copy = scene.run.checkpoints / said
            if said and copy.exists():
                copy.write_bytes(copy.read_bytes()[:-100])
    return hurt


def lose_two(scene: Scene) -> tuple[str, ...]:
    first, second = scene.chance.sample(scene.phones[1:], 2)
    scene.fault(first, "kill")
    scene.fault(second, "unplug")
    return (first, second)


KINDS: dict[str, Hurt] = {
    "kill": to_another("kill"),
    "hang": to_another("hang"),
    "frozen": freeze_rank,
    "unplug": to_another("unplug"),
    "reboot": to_another("reboot"),
    "slow": to_another("slow=0.3"),
    "disk-full": to_another("disk-full"),
    "head-lost": lose_head,
    "controller-killed": kill_controller,
    "checkpoint-corrupted": corrupt_checkpoint,
    "two-phones": lose_two,
}


def call(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([FLEETCTL, *arguments], text=True, capture_output=True)
    if check and done.returncode:
        sys.exit(f"matrix: fleetctl {' '.join(arguments)}: {done.stderr}")
    return done


def inside(rack: Rack, phone: str, *command: str) -> subprocess.CompletedProcess[str]:
    """A command inside a phone's container, past ssh."""
    line = ["podman", "exec", f"pr-{rack.name}-{phone}", *command]
    return subprocess.run(line, text=True, capture_output=True, timeout=30)


def mend(rack: Rack) -> None:
    """All phones whole, ready and free again."""
    call("standin", "heal")
    for _ in range(30):
        call("undrain", "@phones", check=False)
        call("check", check=False)
        phones = json.loads(call("status", "-o", "json", check=False).stdout)["phones"]
        if all(phone["state"] == "ready" for phone in phones):
            return
        time.sleep(2)
    sys.exit(f"matrix: the phones of {rack.name} do not become ready: {phones}")


def lines(file: Path) -> list[dict[str, Any]]:
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def iterations(folder: Path) -> list[dict[str, Any]]:
    return [e for e in lines(folder / "progress.jsonl") if e["kind"] == "iteration"]


@contextmanager
def launched(
    rack: Rack, paths: RackPaths, epochs: int
) -> Iterator[tuple[RunFolder, subprocess.Popen[str]]]:
    before = {*paths.runs.glob("*")}
    with tempfile.TemporaryDirectory() as folder:
        job, log = Path(folder) / "matrix.yml", Path(folder) / "log"
        job.write_text(JOB.format(epochs=epochs))
        with log.open("w") as output:
            process = subprocess.Popen(
                [FLEETCTL, "launch", str(job)], stdout=output, stderr=subprocess.STDOUT, text=True
            )
        try:
            while not (new := {*paths.runs.glob("matrix-*")} - before):
                if process.poll() is not None:
                    sys.exit(f"matrix: the launch on {rack.name} failed:\n{log.read_text()}")
                time.sleep(0.1)
            yield RunFolder(new.pop()), process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def undisturbed(rack: Rack, paths: RackPaths) -> dict[int, float]:
    """The loss of each iteration of the same job to which nothing happens."""
    mend(rack)
    with launched(rack, paths, EPOCHS["slow"]) as (run, process):
        process.wait(timeout=3 * END_LIMIT_SECONDS)
    if run.summary().attempts != 1 or run.summary().state != "done":
        sys.exit(f"matrix: {run.name} was to be left alone, and was not: {run.summary()}")
    return {event["iteration"]: event["loss"] for event in iterations(run.path)}


def deviation(
    run: RunFolder, known: Sequence[past.Attempt], calm: Mapping[int, float]
) -> float | None:
    """See Cell.deviation."""
    after = [
        event
        for attempt in known[1:]
        for event in iterations(run.path / f"attempts/{attempt.number}")[:COMPARED]
    ]
    scale = calm[min(calm)]
    return max((abs(e["loss"] - calm[e["iteration"]]) / scale for e in after), default=None)


def play(rack: Rack, paths: RackPaths, kind: str, moment: int, calm: Mapping[int, float]) -> Cell:
    """One cell of the matrix; `calm` are the losses of the undisturbed run."""
    chance = random.Random(f"{SEED} {kind} {moment}")  # noqa: S311  to be repeated, not to be secret
    mend(rack)
    began = time.time()
    with launched(rack, paths, EPOCHS.get(kind, 20)) as (run, process):
        target = chance.randint(2 * EVERY, ITERATIONS // 2)
        while len(done := iterations(run.path)) < target:
            if process.poll() is not None:
                sys.exit(f"matrix: {run.name} ended before its fault")
            time.sleep(0.1)
        scene = Scene(rack, run, process, chance)
        hit = time.time()
        hurt = KINDS[kind](scene)
        if process.poll() is not None:
            time.sleep(3)
            process = subprocess.Popen(
                [FLEETCTL, "logs", "-f", run.name],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        try:
            process.wait(timeout=END_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            call("stop", run.name, check=False)
    return judge(rack, run, kind, moment, hurt, done[0]["time"] - began, hit, calm)


def judge(
    rack: Rack,
    run: RunFolder,
    kind: str,
    moment: int,
    hurt: tuple[str, ...],
    cold: float,
    hit: float,
    calm: Mapping[int, float],
) -> Cell:
    """What the run's folder and its phones say afterwards."""
    events, summary = run.events(), run.summary()
    known = past.attempts(events)
    named = {*past.blamed(known)}
    noticed = [e["time"] for e in events if e["kind"] == "noticed" and e["time"] > hit]
    if kind == "slow":
        # Beside it, phones may be named that a busy machine slows down: the slowest counts.
        slow = [e for e in events if e["kind"] == "straggler" and e["time"] > hit]
        named |= {max(slow, key=lambda e: e["of_fastest"])["phone"]} if slow else set()
        noticed = [e["time"] for e in slow if e["phone"] in hurt]
    reached = [e for e in iterations(run.path) if e["time"] < (noticed or [time.time()])[0]]
    recovered = lost = None
    if len(known) > 1 and noticed:
        later = [e for n in known[1:] for e in iterations(run.path / f"attempts/{n.number}")]
        recovered = round(later[0]["time"] - noticed[0], 1) if later else None
        lost = max(e["iteration"] for e in reached) - known[1].iteration
    find = ["/data/data/com.termux/files/usr/bin/grep", "-lszxF", f"PHONERACK_RUN={run.name}"]
    shell = [
        "/data/data/com.termux/files/usr/bin/sh",
        "-c",
        f"{' '.join(find)} /proc/[0-9]*/environ",
    ]
    left = [phone for phone in rack.phones if inside(rack, phone, *shell).stdout.strip()]
    return Cell(
        kind=kind,
        moment=moment,
        run=run.name,
        hurt=hurt,
        iteration=max((e["iteration"] for e in iterations(run.path) if e["time"] < hit), default=0),
        named=tuple(sorted(named)),
        attempts=summary.attempts,
        cold_seconds=round(cold, 1),
        noticed_seconds=round(noticed[0] - hit, 1) if noticed else None,
        recovered_seconds=recovered,
        lost_iterations=lost,
        deviation=deviation(run, known, calm),
        finished=summary.state == "done",
        left_over=tuple(left),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--moments", type=int, default=MOMENTS)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--table", type=Path, help="write the table into this page, run nothing")
    options = parser.parse_args(arguments)
    if unknown := [*{*options.kinds} - {*KINDS}]:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if options.table:
        write_table(lines(options.results), list(KINDS), options.table)
        return
    rack = load_rack(find_rack_file(None))
    paths = RackPaths(rack.name)
    done = {(row["kind"], row["moment"]) for row in lines(options.results)}
    wanted = [
        (kind, moment) for moment in range(options.moments) for kind in options.kinds or KINDS
    ]
    left = [cell for cell in wanted if cell not in done]
    calm = undisturbed(rack, paths) if left else {}
    for kind, moment in left:
        cell = play(rack, paths, kind, moment, calm)
        with options.results.open("a") as file:
            file.write(json.dumps(cell.as_json()) + "\n")
        print(f"{kind} {moment}: {cell}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
