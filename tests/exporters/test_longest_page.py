"""The longest page that a phone can give: all is told at once, and more of each than is shown."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from exporters.collector import registry
from exporters.metrics import CATALOGUE, TEXTFILE_REFUSED
from exporters.sampler import Sampler
from exporters.sources import Layout, all_sources
from exporters.sources.software import PACKAGES
from exporters.sources.textfile import MOST_FILES, MOST_VALUES
from exporters.sources.thermal import MOST_ZONES
from trainer.formats import Progress, progress_name

SERIES = 150
"""A phone has fewer."""

BATTERY = {
    "health": "GOOD",
    "plugged": "PLUGGED_AC",
    "status": "CHARGING",
    "temperature": 31.4,
    "voltage": 4000,
    "current": 500000,
    "percentage": 85,
}
SENSORS = "\n".join(
    f"  Temperature{{mValue=4{n % 10}.5, mType={0 if n < 40 else n % 6}, mName=S{n}, mStatus=0}}"
    for n in range(60)
)
HEAT = f"Thermal Status: 1\nHAL Ready: true\nCurrent temperatures from HAL:\n{SENSORS}\n"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def program(path: Path, prints: str) -> None:
    put(path, f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\n").chmod(0o755)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A phone with a rank of a run, whose Android tells its heat."""
    monkeypatch.setenv("TERMUX_VERSION", "0.118.1")
    layout = Layout(
        tmp_path / "usr", tmp_path / "home", sys=tmp_path / "sys", dumpsys=tmp_path / "dumpsys"
    )
    program(layout.prefix / "bin/termux-battery-status", json.dumps(BATTERY))
    program(layout.dumpsys, HEAT)
    for number in range(8):
        policy = layout.sys / f"devices/system/cpu/cpufreq/policy{number}"
        for name, kilohertz in (("scaling_cur", 1), ("scaling_max", 1), ("cpuinfo_max", 2)):
            put(policy / f"{name}_freq", f"{kilohertz}000000")
    put(layout.sys / "devices/system/cpu/possible", "0-7")
    put(layout.folder / "current/manifest.json", '{"version": "1", "target": "termux-aarch64"}')
    paragraphs = [f"Package: {n}\nStatus: install ok installed\nVersion: 1" for n in PACKAGES]
    put(layout.prefix / "var/lib/dpkg/status", "\n\n".join(paragraphs))
    values = {"iteration": 40, "iterations": 100, "epoch": 2, "loss": 0.5, "accuracy": 0.9}
    seconds = {"compute_seconds": 0.2, "exchange_seconds": 0.1, "wait_seconds": 0.05}
    record = layout.folder / "runs/digits-1" / progress_name(3)
    record.parent.mkdir(parents=True)
    Progress(
        run="digits-1", rank=3, phone="phone004", time=time.time(), images=640, **values, **seconds
    ).write(record)  # fmt: skip
    for file in range(MOST_FILES + 2):
        count = 1 if file else MOST_VALUES - (MOST_FILES - 1)
        own = "".join(f"own_{file}_{n} 1\n" for n in range(count))
        put(layout.folder / f"textfile/{file:02}.prom", own)
    return layout


def page(layout: Layout) -> list[str]:
    """Its series."""
    sampler = Sampler(all_sources(layout))
    sampler.tick()
    text = generate_latest(registry(lambda: sampler.snapshot)).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_the_longest_page_has_less_than_150_series(layout: Layout) -> None:
    series = page(layout)
    assert len(series) < SERIES
    names = {line.partition("{")[0].partition(" ")[0] for line in series}
    told = {metric.name for metric in CATALOGUE}
    assert told - names == set(), "nothing is missing that a phone may tell"
    assert TEXTFILE_REFUSED.name in names
    assert sum(name.startswith("own_") for name in names) == MOST_VALUES
    zones = [line for line in series if line.startswith("phonerack_thermal_zone")]
    assert len(zones) == MOST_ZONES
    for kind in ("battery", "skin"):
        assert any(f'type="{kind}"' in zone for zone in zones), "what burns comes first"
