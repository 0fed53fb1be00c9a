"""`python -m exporters.dashboards` writes the dashboards' JSON files beside their sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from exporters.dashboards import network, phone, power, rack, training
from exporters.dashboards.grafana import Json

SOURCES: dict[str, Callable[[], Json]] = {
    "rack": rack.build,
    "phone": phone.build,
    "training": training.build,
    "network": network.build,
    "power": power.build,
}


def text(name: str) -> str:
    """The file of one dashboard as it should be."""
    return json.dumps(SOURCES[name](), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    for name in SOURCES:
        Path(__file__).with_name(f"{name}.json").write_text(text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
