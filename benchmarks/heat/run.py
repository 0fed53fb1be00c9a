"""A long run in the heat: the time of an iteration against that of the cool rack.

A provisioned rack of stand-in phones is there, with `fans:` as in README.md, and `fleetctl data add
digits` was done. Each measurement is one job: half a minute cool, while heat stands still, then the
phones' heat of forty minutes in three. The rack's last two phones do not train: their part of the
processors is left to whatever else runs here. Its result is added to a file, of which
`--svg` draws all.

    python benchmarks/heat/run.py one-fan shares --results FILE.jsonl
    python benchmarks/heat/run.py --results FILE.jsonl --svg docs/figures/heat.svg
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from fleetctl.bench.plotting import Line, colours_of, figure, name_lines, render, styled
from fleetctl.rack import Rack, RackPaths, find_rack_file, load_rack
from standin.daemon.control import ask
from standin.record import open_rig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
PACE = 12.5
"""Seconds of the phones' heat in one of the clock's."""

COLD_SECONDS, HOT_SECONDS, WARM_UP_SECONDS = 30.0, 192.0, 8.0
BIN_SECONDS = 8.0
IDLE_PHONES = 2
SAMPLES_PER_PHONE = 96

JOB = """\
train:
  model: {{name: digits-cnn, args: {{channels: 96, hidden: 64}}}}
  data: digits
  epochs: 100000
  evaluate_every_epochs: 100000
  global_batch: {batch}
  optimizer: {{name: sgd, lr: 0.05, momentum: 0.9}}
  heat: {heat}
  checkpoint: {{every_iterations: 0}}
"""

SCENES = {
    "one-fan": "the fan of one phone has failed",
    "no-fans": "no fan runs",
}
WAYS = {
    "nothing": "nothing is done",
    "shares": "shares follow heat",
    "fans": "guard's fans follow heat",
}
AMBIENT_CELSIUS = 28
WITHOUT_FAN = 2
"""Of the phones that train, the one whose fan has failed: it stands between two others."""


@dataclass(frozen=True, slots=True)
class Point:
    """A part of a run: the median of its iterations, from the beginning of one to that of the
    next; `minutes` are the phones'. `skin_celsius` is that of the warmest phone."""

    minutes: float
    seconds: float
    skin_celsius: float


@dataclass(frozen=True, slots=True)
class Run:
    scene: str
    way: str
    phones: int
    pace: float
    cold_seconds: float
    points: tuple[Point, ...]
    changes: tuple[dict[str, Any], ...]
    """What the run's events say of its shares."""
    samples: dict[str, int]
    """At the end."""

    @property
    def growth(self) -> float:
        """0.15: the second half of the hot time takes 15 % longer than the cool iterations."""
        late = self.points[len(self.points) // 2 :]
        return median(point.seconds for point in late) / self.cold_seconds - 1

    @property
    def worst(self) -> float:
        """Of any part."""
        return max(point.seconds for point in self.points) / self.cold_seconds - 1

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Run:
        points = tuple(Point(**point) for point in document.pop("points"))
        return cls(points=points, **document)


def call(*arguments: str) -> str:
    done = subprocess.run(
        [FLEETCTL, *arguments], check=True, text=True, stdout=subprocess.PIPE, timeout=300
    )
    return done.stdout


def look(rack: Rack) -> list[dict[str, Any]]:
    """All phones' hardware, without a new process that would disturb them."""
    folder = open_rig(rack).folders.root
    found: list[dict[str, Any]] = ask(folder, "hardware", phones=list(rack.phones))["phones"]
    return found


def hardware(*settings: str) -> None:
    call("standin", "hardware", *settings)


def reset() -> None:
    """All phones cool, in still time."""
    cool = f"temperature={AMBIENT_CELSIUS + 2}"
    hardware("@phones", f"ambient={AMBIENT_CELSIUS}", "fan=on", cool, "--pace", "0")
    time.sleep(16)  # until the exporters have seen it


@contextmanager
def going_on(heat: bool, phones: Sequence[str]) -> Iterator[Path]:
    """A launched job that trains; its progress, as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "heat.yml"
        batch = SAMPLES_PER_PHONE * len(phones)
        job.write_text(JOB.format(heat=str(heat).lower(), batch=batch))
        launch = subprocess.Popen(
            [FLEETCTL, "launch", "--phones", ",".join(phones), str(job)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert launch.stdout is not None  # noqa: S101
        said = []
        for line in launch.stdout:
            said.append(line)
            if " runs on " in line:
                break
        else:
            raise SystemExit("the launch ended before its run started:\n" + "".join(said))
        name = said[-1].split()[0]
        try:
            run = RackPaths(load_rack(find_rack_file(None)).name).runs / name
            while not iterations(run / "progress.jsonl"):
                time.sleep(0.5)
            yield run
        finally:
            call("stop", name)
            launch.communicate()


@contextmanager
def guarded(wanted: bool) -> Iterator[None]:
    """With guard, which switches the fans that stand in the rack file."""
    if not wanted:
        yield
        return
    with subprocess.Popen([FLEETCTL, "guard"], stderr=subprocess.DEVNULL) as guard:
        try:
            yield
        finally:
            guard.terminate()


def iterations(progress: Path) -> list[dict[str, Any]]:
    if not progress.exists():
        return []
    lines = progress.read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == "iteration"]


def durations(events: Sequence[dict[str, Any]], whole: int) -> list[tuple[float, float]]:
    """When each iteration of a whole batch after another such ended, and what it took."""
    return [
        (after["time"], after["time"] - before["time"])
        for before, after in pairwise(events)
        if before["images"] == after["images"] == whole
    ]


def measure(rack: Rack, scene: str, way: str) -> Run:
    phones = rack.enrolled[:-IDLE_PHONES]
    whole = SAMPLES_PER_PHONE * len(phones)
    reset()
    with going_on(way != "nothing", phones) as folder:
        time.sleep(WARM_UP_SECONDS)
        began = time.time()
        time.sleep(COLD_SECONDS)
        cold = time.time()
        with guarded(way == "fans"):
            without = phones[WITHOUT_FAN] if scene == "one-fan" else "@phones"
            hardware(without, "fan=off", "--pace", str(PACE))
            hot = time.time()
            warmest = []
            while time.time() < hot + HOT_SECONDS:
                warmest.append(max(phone["skin_celsius"] for phone in look(rack)))
                time.sleep(max(0.0, hot + len(warmest) * BIN_SECONDS - time.time()))
        taken = durations(iterations(folder / "progress.jsonl"), whole)
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        plan = json.loads((folder / "plan.json").read_text())
    hardware("--pace", "1")
    changes = tuple(event for event in events if event["kind"] == "shares")
    first = dict(zip(plan["phones"], plan["samples_per_rank"], strict=True))
    return Run(
        scene,
        way,
        len(phones),
        PACE,
        median(seconds for at, seconds in taken if began <= at < cold),
        tuple(points(taken, hot, warmest)),
        changes,
        changes[-1]["samples"] if changes else first,
    )


def points(
    taken: Sequence[tuple[float, float]], hot: float, warmest: Sequence[float]
) -> Iterator[Point]:
    for part, celsius in enumerate(warmest):
        start = hot + part * BIN_SECONDS
        inside = [seconds for at, seconds in taken if start <= at < start + BIN_SECONDS]
        if inside:
            minutes = (part + 0.5) * BIN_SECONDS * PACE / 60
            yield Point(minutes, median(inside), celsius)


@styled
def draw(runs: Sequence[Run]) -> Figure:
    scenes = [scene for scene in SCENES if any(run.scene == scene for run in runs)]
    colours = colours_of(WAYS.values())
    drawn, panels = figure(len(scenes), 1, 2.9 * len(scenes), sharex=True)
    for axes, scene in zip(panels, scenes, strict=True):
        shown = [
            Line(
                WAYS[run.way],
                tuple(point.minutes for point in run.points),
                tuple(100 * (point.seconds / run.cold_seconds - 1) for point in run.points),
            )
            for run in runs
            if run.scene == scene
        ]
        axes.axhspan(-5, 5, color="#eeeeee")
        for line in shown:
            axes.plot(line.x, line.y, color=colours[line.name], linewidth=1.6)
        phones = next(run.phones for run in runs if run.scene == scene)
        axes.set_title(f"{phones} phones, {SCENES[scene]}")
        axes.set_ylabel("longer than cool, %")
        name_lines(axes, shown, colours)
    panels[-1].set_xlabel("minutes of the phones'")
    return drawn


def read(path: Path) -> list[Run]:
    """The newest of each kind."""
    lines = path.read_text().splitlines() if path.exists() else []
    newest = {(run.scene, run.way): run for run in map(Run.from_json, map(json.loads, lines))}
    return [newest[scene, way] for scene in SCENES for way in WAYS if (scene, way) in newest]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scene", nargs="?", choices=SCENES)
    parser.add_argument("way", nargs="?", choices=WAYS)
    parser.add_argument("--results", type=Path, required=True, help="a line a measurement")
    parser.add_argument("--svg", type=Path, help="draw what has been measured")
    options = parser.parse_args()
    if options.scene and options.way:
        run = measure(load_rack(find_rack_file(None)), options.scene, options.way)
        with options.results.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")
    found = read(options.results)
    for run in found:
        print(
            f"{run.scene:8} {run.way:8} cool {run.cold_seconds * 1000:.0f} ms, second half "
            f"{run.growth:+.1%}, worst {run.worst:+.1%}, {len(run.changes)} changes, "
            f"warmest skin {max(point.skin_celsius for point in run.points):.1f} °C"
        )
    if options.svg:
        options.svg.write_bytes(render(draw(found), "svg"))


if __name__ == "__main__":
    main()
