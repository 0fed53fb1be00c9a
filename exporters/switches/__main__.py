"""The switch exporter: `python3 switch-exporter.pyz SETTINGS`, a service on the services host.

Each switch is read in the background by itself, and a scrape gets what was read last. One that
is slow or dead costs the others nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import start_http_server

from exporters.collector import registry
from exporters.metrics import Sample
from exporters.switches import metrics
from exporters.switches.reading import Memory, ports_without_interface, samples
from exporters.switches.settings import Settings, Switch, read_settings
from exporters.switches.snmp import NoAnswerError, read_tables

_LOOK_SECONDS = 2.0


@dataclass
class Watch:
    """One switch, read again and again in a thread of its own."""

    switch: Switch
    settings: Settings
    memory: Memory = field(default_factory=Memory)
    _said: tuple[Sample, ...] = ()
    _told: str | None = ""
    _last_success: float | None = None

    def start(self) -> None:
        name = f"switch {self.switch.name}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def samples(self) -> tuple[Sample, ...]:
        """What was read last; nothing before the first reading has ended."""
        return self._said

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self.read()
            time.sleep(max(1.0, began + self.settings.every_seconds - time.monotonic()))

    def read(self) -> None:
        """Read once; whatever goes wrong is this switch's own affair."""
        began = time.monotonic()
        found: tuple[Sample, ...] = ()
        trouble: str | None = None
        try:
            found = self._ask()
            self._last_success = time.time()
        except TimeoutError:
            trouble = f"not read to the end within {self.settings.limit_seconds:g} s: it is slow"
        except (NoAnswerError, OSError, ValueError) as problem:
            trouble = str(problem)
        except Exception as problem:  # a library's; its message might hold a packet
            trouble = f"cannot be read: {type(problem).__name__}"
        self._log(trouble)
        name = self.switch.name
        state = [
            metrics.UP.sample(trouble is None, name),
            metrics.DURATION.sample(time.monotonic() - began, name),
        ]
        if self._last_success is not None:
            state.append(metrics.LAST_SUCCESS.sample(self._last_success, name))
        self._said = (*found, *state)

    def _ask(self) -> tuple[Sample, ...]:
        # Read each time, so that a new community counts without a restart.
        community = self.settings.community_file.read_text().strip()

        async def within_limit() -> tuple[Sample, ...]:
            async with asyncio.timeout(self.settings.limit_seconds):
                tables = await read_tables(self.switch, community, self.settings.snmp_port)
            if lacking := [p.interface for p in ports_without_interface(self.switch, tables)]:
                raise NoAnswerError(
                    f"it has no interface {', '.join(lacking[:3])}: correct `interfaces:` of "
                    f"{self.switch.name} in the rack file"
                )
            return tuple(samples(self.switch, tables, self.memory))

        return asyncio.run(within_limit())

    def _log(self, trouble: str | None) -> None:
        if trouble != self._told:
            self._told = trouble
            print(f"{self.switch.name}: {trouble or 'is read'}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Page:
    """All watches, as the collector wants them."""

    watches: tuple[Watch, ...]

    def samples(self) -> Iterator[Sample]:
        for watch in self.watches:
            yield from watch.samples()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="switch-exporter", description="SNMP to Prometheus.")
    parser.add_argument("settings", type=Path, help="what provisioning wrote")
    arguments = parser.parse_args(argv)
    began_as = _told(arguments.settings)
    try:
        settings = read_settings(arguments.settings)
    except (OSError, ValueError) as problem:
        sys.exit(f"switch-exporter: {arguments.settings}: {problem}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    page = Page(tuple(Watch(switch, settings) for switch in settings.switches))
    for watch in page.watches:
        watch.start()
    start_http_server(settings.port, settings.address, registry(lambda: page, metrics.CATALOGUE))
    print(f"listening on {settings.address}:{settings.port}", file=sys.stderr, flush=True)
    while _told(arguments.settings) == began_as:
        time.sleep(_LOOK_SECONDS)
    print("other settings or another program are in place: ending", file=sys.stderr, flush=True)


def _told(settings: Path) -> tuple[object, ...]:
    """What changes when provisioning brings something new."""
    found: list[object] = []
    for path in (settings, Path(sys.argv[0])):
        with contextlib.suppress(OSError):
            state = path.stat()
            found += [state.st_ino, state.st_mtime_ns, state.st_size]
    return tuple(found)


if __name__ == "__main__":
    main()
