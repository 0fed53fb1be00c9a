"""Prometheus of a whole rack: how many series, how much memory, whether all are scraped in time.

    podman cp pr-RACK-services:/etc/prometheus ETC
    curl http://PHONE:9865/metrics >PAGE          # of a phone that trains
    python benchmarks/monitoring/prometheus.py --etc ETC --page PAGE [--phones 138]

Takes the configuration and the rules that role `monitoring` wrote, and has a Prometheus of this
machine scrape the page from as many addresses of 127.0.0.0/8, its numbers changed a little each
time. Prints what Prometheus says of itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

PHONE_PORT = 9865
PORT = 9190
INTERVAL_SECONDS = 15

QUESTIONS = {
    "phones scraped": 'count(up{job="phone"} == 1)',
    "least scrapes of a phone in the last minute": 'min(count_over_time(up{job="phone"}[1m]))',
    "slowest scrape, s": 'max(max_over_time(scrape_duration_seconds{job="phone"}[1m]))',
    "series of a page, with Prometheus's own five": (
        'max(scrape_samples_post_metric_relabeling{job="phone"}) + 5'
    ),
    "series in all": "prometheus_tsdb_head_series",
    "series that rules compute": 'count({__name__=~".+:.+:.+"})',
    "all rules computed in, s": "sum(prometheus_rule_group_last_duration_seconds)",
    "resident, MB": 'process_resident_memory_bytes{job="prometheus"} / 1e6',
    "of a core": 'rate(process_cpu_seconds_total{job="prometheus"}[1m])',
    "rules that failed": "sum(prometheus_rule_evaluation_failures_total)",
}


def address(number: int) -> str:
    return f"127.31.{number // 250}.{number % 250 + 1}"


class Pages:
    """The page again and again, each time with values a little different."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def page(self) -> bytes:
        shift = 1 + random.random() / 1000  # noqa: S311
        return ("\n".join(self._moved(line, shift) for line in self._lines) + "\n").encode()

    @staticmethod
    def _moved(line: str, shift: float) -> str:
        name, _, value = line.rpartition(" ")
        if line.startswith("#") or value in ("0.0", "1.0"):
            return line
        if name.startswith("phonerack_clock"):
            return f"{name} {time.time()}"
        return f"{name} {float(value) * shift}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept as long as Prometheus keeps it."""
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                body = self.page()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
                    b"Content-Length: %d\r\n\r\n" % len(body) + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def configure(etc: Path, folder: Path, phones: int) -> Path:
    """The role's configuration, with other targets and a longer interval."""
    rules = folder / "rules.yml"
    rules.write_text((etc / "phonerack/rules.yml").read_text())
    targets = [
        {
            "targets": [f"{address(number)}:{PHONE_PORT}"],
            "labels": {
                "phone": f"phone{number + 1:03}",
                "rack": "bench",
                "switch": f"sw{number // 46 + 1}",
                "port": str(number % 46 + 1),
            },
        }
        for number in range(phones)
    ]
    (folder / "phones.json").write_text(json.dumps(targets))
    configuration = yaml.safe_load((etc / "prometheus.yml").read_text())
    for key in ("scrape_interval", "evaluation_interval"):
        configuration["global"][key] = f"{INTERVAL_SECONDS}s"
    configuration["global"]["scrape_timeout"] = "10s"
    configuration["rule_files"] = [str(rules)]
    configuration.pop("alerting", None)
    jobs = {job["job_name"]: job for job in configuration["scrape_configs"]}
    jobs["phone"]["file_sd_configs"] = [{"files": [str(folder / "phones.json")]}]
    jobs["prometheus"]["static_configs"][0]["targets"] = [f"127.0.0.1:{PORT}"]
    configuration["scrape_configs"] = [jobs["phone"], jobs["prometheus"]]
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    return file


def ask(expression: str) -> float | None:
    query = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/v1/query?{query}") as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else None


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, float | None]:
    pages = Pages(options.page.read_text())
    hosts = [address(number) for number in range(options.phones)]
    server = await asyncio.start_server(pages.answer, hosts, PHONE_PORT)
    prometheus = subprocess.Popen(
        [
            options.prometheus,
            f"--config.file={configure(options.etc, folder, options.phones)}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{PORT}",
            "--log.level=error",
        ]
    )
    try:
        await asyncio.sleep(options.seconds)
        return {
            what: await asyncio.to_thread(ask, expression) for what, expression in QUESTIONS.items()
        }
    finally:
        prometheus.terminate()
        await asyncio.to_thread(prometheus.wait)
        await asyncio.sleep(0.2)  # the connections end
        server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--etc", type=Path, required=True, help="/etc/prometheus of the role")
    parser.add_argument("--page", type=Path, required=True, help="a phone's page")
    parser.add_argument("--phones", type=int, default=138)
    parser.add_argument("--seconds", type=float, default=150, help="for which it scrapes")
    parser.add_argument("--prometheus", default="prometheus", help="the program")
    options = parser.parse_args()
    version = subprocess.run([options.prometheus, "--version"], capture_output=True, text=True)
    said: dict[str, Any] = {"version": re.findall(r"version (\S+)", version.stdout)[0]}
    with tempfile.TemporaryDirectory() as folder:
        said |= asyncio.run(measure(options, Path(folder)))
    for what, value in said.items():
        print(f"{what:48} {value if isinstance(value, str | None) else round(value, 3)}")


if __name__ == "__main__":
    main()
