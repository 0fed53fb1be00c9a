"""What the phone exporter costs a phone, beside a bare prometheus_client and Debian's own exporter.

    fleetctl standin up && ansible-playbook -i inventory/standin.yml site.yml
    python benchmarks/monitoring/exporter.py --node-exporter /usr/bin/prometheus-node-exporter

Run as root beside the stand-in rack. All are scraped side by side, as Prometheus would do it; the
CPU time of programs that an exporter starts, such as the battery's, is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from fleetctl.rack import find_rack_file, load_rack

BARE_PORT, NODE_PORT = 9871, 9872
BARE = (
    "import prometheus_client, sys, time; "
    "prometheus_client.start_http_server(int(sys.argv[2]), sys.argv[1]); time.sleep(3600)"
)
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Measured:
    """One exporter: where it is asked, and what was seen of its process."""

    name: str
    pid: int
    url: str
    scrapes: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    series: int = 0
    cpu_at_start: float = 0.0
    cpu_at_end: float = 0.0

    def cpu_seconds(self) -> float:
        """Its own and that of programs that it started and that have ended."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / TICKS

    def scrape(self) -> None:
        began = time.perf_counter()
        with urllib.request.urlopen(self.url, timeout=30) as answer:  # noqa: S310
            text = answer.read().decode()
        self.scrapes.append(time.perf_counter() - began)
        self.series = sum(not line.startswith("#") for line in text.splitlines())
        status = Path(f"/proc/{self.pid}/status").read_text()
        kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        self.resident.append(int(kilobytes.split()[1]) * 1024)


def pid_in(container: str, words: str) -> int:
    """The process of the container, as this machine numbers it, whose command line holds words."""
    told = subprocess.check_output(["podman", "inspect", "-f", "{{.State.Pid}}", container])
    space = Path(f"/proc/{int(told)}/ns/pid").readlink()
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            inside = (folder / "ns/pid").readlink() == space
        except OSError:
            continue
        if inside and words in line and "sh -c" not in line and "runsv" not in line:
            return int(folder.name)
    raise SystemExit(f"{container}: no process `{words}`")


def await_answer(url: str) -> None:
    for _ in range(100):
        with suppress(OSError), urllib.request.urlopen(url, timeout=30):  # noqa: S310
            return
        time.sleep(0.3)
    raise SystemExit(f"{url} does not answer")


@contextmanager
def bare(container: str, address: str) -> Iterator[Measured]:
    python = "/data/data/com.termux/files/usr/bin/python"
    path = "PYTHONPATH=/data/data/com.termux/files/home/phonerack/current/python"
    words = [python, "-c", BARE, address, str(BARE_PORT)]
    command = ["podman", "exec", "--env", path, container, *words]
    process = subprocess.Popen(command)
    url = f"http://{address}:{BARE_PORT}/metrics"
    await_answer(url)
    pid = pid_in(container, f"time.sleep(3600) {address} {BARE_PORT}")
    try:
        yield Measured("bare prometheus_client", pid, url)
    finally:
        os.kill(pid, signal.SIGTERM)
        process.wait()


@contextmanager
def node_exporter(program: Path) -> Iterator[Measured]:
    command = [str(program), f"--web.listen-address=127.0.0.1:{NODE_PORT}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{NODE_PORT}/metrics"
    try:
        await_answer(url)
        yield Measured("Debian's node exporter", process.pid, url)
    finally:
        process.terminate()
        process.wait()


def measure(all_of_them: list[Measured], seconds: float, every: float) -> None:
    for each in all_of_them:
        each.scrape()  # the first one is not counted: it compiles and connects
        each.scrapes.clear()
        each.cpu_at_start = each.cpu_seconds()
    began = time.monotonic()
    for turn in range(1, int(seconds / every) + 1):
        time.sleep(max(0.0, began + turn * every - time.monotonic()))
        for each in all_of_them:
            each.scrape()
    for each in all_of_them:
        each.cpu_at_end = each.cpu_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--phone", default="phone001")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--every", type=float, default=15, help="seconds between scrapes")
    parser.add_argument("--node-exporter", type=Path)
    options = parser.parse_args()
    rack = load_rack(find_rack_file(None))
    address, container = rack.phones[options.phone].address, f"pr-{rack.name}-{options.phone}"
    with ExitStack() as stack:
        url = f"http://{address}:9865/metrics"
        found = [Measured("phone exporter", pid_in(container, "exporters.phone"), url)]
        found.append(stack.enter_context(bare(container, address)))
        if options.node_exporter:
            found.append(stack.enter_context(node_exporter(options.node_exporter)))
        measure(found, options.seconds, options.every)
    for each in found:
        share = (each.cpu_at_end - each.cpu_at_start) / options.seconds
        document = {
            "exporter": each.name,
            "resident_megabytes": round(max(each.resident) / 1e6, 1),
            "share_of_a_core": round(share, 5),
            "scrape_milliseconds": round(median(each.scrapes) * 1000, 1),
            "longest_scrape_milliseconds": round(max(each.scrapes) * 1000, 1),
            "series": each.series,
        }
        print(json.dumps(document))


if __name__ == "__main__":
    main()
