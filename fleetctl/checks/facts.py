"""What phones say about themselves, by the program that is also Ansible's module `phone_facts`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.rack.variables import TERMUX_PREFIX

if TYPE_CHECKING:
    from fleetctl.remote import Fleet, Result

PROGRAM = Path(__file__).resolve().parents[2] / "plugins/modules/phone_facts.py"

LIMIT_SECONDS = 30.0
"""Python starts cold, and each of the phone's own programs may take its 5 s."""

type Facts = dict[str, Any]


async def gather(fleet: Fleet, names: Iterable[str]) -> tuple[dict[str, Facts], dict[str, str]]:
    """Facts of the phones that answered, and what the others said instead."""
    order = list(names)
    answers = await asyncio.gather(*(_ask(fleet, name) for name in order))
    said = list(zip(order, answers, strict=True))
    facts = {name: answer for name, answer in said if isinstance(answer, dict)}
    return facts, {name: answer for name, answer in said if isinstance(answer, str)}


async def _ask(fleet: Fleet, name: str) -> Facts | str:
    began = time.time()
    result = await fleet.run_on(
        name,
        f"{TERMUX_PREFIX}/bin/python - --plain {began}",
        stdin=PROGRAM.read_text(),
        timeout_seconds=LIMIT_SECONDS,
    )
    return read(name, result, (began, time.time()))


def read(name: str, result: Result, asked: tuple[float, float]) -> Facts | str:
    """The facts in an answer, or a sentence that says why there are none."""
    if not result.ok:
        return result.failure(name)
    try:
        facts = json.loads(result.stdout)
    except ValueError:
        facts = None
    if not isinstance(facts, dict):
        return f"{name}: its facts are no JSON object: {result.stdout[:40]!r}"
    return with_offset(facts, *asked)


def with_offset(facts: Mapping[str, Any], began: float, ended: float) -> Facts:
    """Facts with `clock.offset_seconds` as far as it can be told from when the phone was asked and
    had answered: 0 where its time fits in between, else how far it is outside."""
    clock = dict(facts.get("clock") or {})
    moment = clock.get("time")
    if isinstance(moment, int | float):
        clock["offset_seconds"] = min(moment - began, 0.0) or max(moment - ended, 0.0)
        clock["uncertainty_seconds"] = ended - began
    return {**facts, "clock": clock}
