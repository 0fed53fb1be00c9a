"""Links of a stand-in rack that carry less for a while, for measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from standin.commands import Command, run
from standin.fabric import FabricPlan, shaping


@contextmanager
def narrow_uplinks(plan: FabricPlan, rate: str) -> Iterator[None]:
    """While it lasts, all that crosses an uplink between plain bridges shares `rate`."""
    ends = [end for uplink in plan.uplinks for end, _ in uplink.ends]
    with _narrowed(("tc", "-n", plan.namespace, "qdisc"), ends, rate):
        yield


@contextmanager
def narrow_controller(plan: FabricPlan, rate: str) -> Iterator[None]:
    """While it lasts, all that the controller sends to the rack shares `rate`."""
    with _narrowed(("tc", "qdisc"), [plan.host_link], rate):
        yield


@contextmanager
def _narrowed(qdisc: Command, devices: Iterable[str], rate: str) -> Iterator[None]:
    made = []
    try:
        for device in devices:
            run((*qdisc, "replace", "dev", device, "root", *shaping(rate)))
            made.append(device)
        yield
    finally:
        for device in made:
            run((*qdisc, "delete", "dev", device, "root"))
