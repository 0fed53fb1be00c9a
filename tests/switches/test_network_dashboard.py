"""The queries of the network dashboard on what the exporter says of a switch in trouble."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from watched import Watched

from exporters.dashboards import network, phone
from exporters.metrics import Sample
from standin.switches.plane import Counters

pytestmark = [
    pytest.mark.tools,
    pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool"),
]

CHOICES = {"$__rate_interval": "2m", "$rack": "lab", "$switch": ".+", "$phone": "phone001"}
QUERIES = [
    query.expression
    for panels in (*network.SECTIONS.values(), phone.SECTIONS["Link"])
    for panel in panels
    for query in panel.queries
]


def series(sample: Sample) -> str:
    labels = zip(sample.metric.labels, sample.labels, strict=True)
    inside = ", ".join(f'{name}="{text}"' for name, text in labels if text)
    return f'{sample.metric.name}{{rack="lab", {inside}}}'


def seen(watched: Watched) -> dict[str, float]:
    watched.watch.read()
    return {series(sample): sample.value for sample in watched.watch.samples()}


def trouble(watched: Watched) -> None:
    """A slow link, lost and damaged frames, a carrier that goes, power, a line by hand."""
    plane = watched.rig.network
    plane.speeds[watched.end(2)] = 100
    plane.traffic[watched.end(1)] = Counters(
        octets_in=1 << 40, octets_out=700, errors_in=3, errors_out=4, discards_in=5, discards_out=6
    )
    watched.rig.type(f"interface {watched.interface(3)}\ndescription mine")
    watched.act(lambda device: device.loads.update({watched.interface(1): 12.5}))
    watched.act(lambda device: device.changed())
    place = plane.hosts.pop("phone004")
    time.sleep(0.5)
    plane.hosts["phone004"] = place
    time.sleep(0.5)


def test_every_query_shows_something_of_a_switch_in_trouble(poe: Watched, tmp_path: Path) -> None:
    before = seen(poe)
    trouble(poe)
    after = seen(poe)
    held = [
        {"series": name, "values": f"{before.get(name, '_')}x9 {after.get(name, '_')}x9"}
        for name in before | after
    ]
    asked = []
    for expression in QUERIES:
        for name, value in CHOICES.items():
            expression = expression.replace(name, value)
        some = {"labels": "{}", "value": 1}
        expression = f"count({expression}) > bool 0"
        asked.append({"expr": expression, "eval_time": "5m30s", "exp_samples": [some]})
    case = {"interval": "30s", "input_series": held, "promql_expr_test": asked}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"tests": [case]}))
    done = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
