"""A provisioned stand-in switch, and the exporter's view of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import COMMUNITY

from exporters.metrics import Sample
from exporters.switches.__main__ import Watch
from exporters.switches.settings import Settings, parse_settings
from fleetctl.provision.switch_exporter import settings
from standin.switches.plane import End

type Values = dict[tuple[str, ...], float]

READER = "127.0.0.1"
"""Where the exporter asks from here."""


class Watched:
    """One provisioned stand-in switch, and the exporter's view of it."""

    def __init__(self, rig: Any, folder: Path) -> None:
        self.rig = rig
        rig.settle()
        rig.look(
            lambda device: device.running.access_lists.update(
                {"phonerack-snmp": (f"permit {READER}",)}
            )
        )
        self.snmp_port = rig.server.serve_snmp(rig.devices["sw1"], "127.0.0.1")
        self.file = folder / "community"
        self.file.write_text(COMMUNITY)
        document = settings(rig.rack, str(self.file))
        assert document
        for switch in document["switches"]:
            switch["address"] = "127.0.0.1"
        self.document = document | {"snmp_port": self.snmp_port, "address": "127.0.0.1"}
        self.watch = self.watching()

    def watching(self, **changes: Any) -> Watch:
        told: Settings = replace(parse_settings(self.document), **changes)
        return Watch(told.switches[0], told)

    def read(self) -> dict[str, Values]:
        """Samples by metric, then by the values of its labels."""
        self.watch.read()
        return by_metric(self.watch.samples())

    def act(self, act: Callable[[Any], Any]) -> None:
        self.rig.look(act)

    def interface(self, port: int) -> str:
        name: str = self.rig.job("sw1").intent.ports[port - 1].interface
        return name

    def end(self, port: int) -> End:
        return End("sw1", self.interface(port))


def by_metric(samples: tuple[Sample, ...]) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for sample in samples:
        found.setdefault(sample.metric.name.removeprefix("phonerack_switch_"), {})[
            sample.labels
        ] = sample.value
    return found
