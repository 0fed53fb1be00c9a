"""The phone exporter: `python -m exporters.phone`, run by runit on every phone.

Serves /metrics on the phone's rack address, and keeps the same values in
$HOME/phonerack/exporter/snapshot.json for whoever asks over ssh. Ends by itself, to be started
anew by runit, when another release or address is put in place.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server

from exporters.collector import registry
from exporters.command import end_all
from exporters.sampler import Sampler, Snapshot
from exporters.sources import Layout, all_sources

PORT = 9865
TICK_SECONDS = 5.0


class Log:
    """Lines for svlogd; a state that lasts is told once."""

    def __init__(self) -> None:
        self._told: dict[str, str | None] = {}

    def state(self, subject: str, trouble: str | None) -> None:
        if self._told.get(subject) != trouble:
            self._told[subject] = trouble
            print(f"{subject}: {trouble or 'works again'}", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Page:
    """/metrics on one address, which the phone may not have yet while it boots."""

    registry: CollectorRegistry
    port: int
    log: Log
    _server: Any = field(default=None)

    def listen(self, address: str | None) -> None:
        """Listen, unless it does already; failing is logged, for another try later."""
        if self._server is not None:
            return
        if address is None:
            self.log.state("page", "the phone has no address yet: not provisioned")
            return
        try:
            self._server = start_http_server(self.port, address, self.registry)
        except OSError as error:
            self.log.state("page", f"cannot listen on {address}:{self.port} yet: {error.strerror}")
        else:
            self.log.state("page", f"listening on {address}:{self.port}")


def run(layout: Layout, address: Callable[[], str | None], port: int) -> None:
    """Sample and serve until another release or address is in place. Raises SystemExit on TERM."""
    log = Log()
    sampler = Sampler(all_sources(layout))
    page = Page(registry(lambda: sampler.snapshot), port, log)
    began_as = _installed(layout), address()
    while (_installed(layout), address()) == began_as:
        started = time.monotonic()
        page.listen(began_as[1])
        sampler.tick()
        for reading in sampler.snapshot.readings:
            log.state(f"source {reading.source}", reading.error)
        _keep(sampler.snapshot, layout.folder / "exporter/snapshot.json", log)
        time.sleep(max(0.0, started + TICK_SECONDS - time.monotonic()))
    log.state("exporter", "another release or address is in place: ending")


def _installed(layout: Layout) -> str:
    """The release that the link points at now."""
    return os.path.realpath(layout.folder / "current")


def provisioned_address(layout: Layout) -> str | None:
    """The rack address from phone.json; None while there is none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        phone = json.loads((layout.prefix / "etc/phonerack/phone.json").read_bytes())
        return str(phone["address"])
    return None


def _keep(snapshot: Snapshot, path: Path, log: Log) -> None:
    """Replace the file at one moment. It is not worth an fsync, and a full disk is no reason
    to stop."""
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(snapshot.document()) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        log.state("snapshot", f"cannot write {path}: {error.strerror}")
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    else:
        log.state("snapshot", None)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="exporters.phone", description="The phone exporter.")
    parser.add_argument("--address", help="listen here; by default on the phone's rack address")
    parser.add_argument("--port", type=int, default=PORT)
    arguments = parser.parse_args(argv)
    layout = Layout.of_environment()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.suppress(KeyboardInterrupt):
        try:
            run(
                layout,
                lambda: arguments.address or provisioned_address(layout),
                arguments.port,
            )
        finally:
            end_all()


if __name__ == "__main__":
    main()
