"""What the checks of level 2 and 3 look at, found out on phones that no job has."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetctl.bench.links import Pair, disjoint_pairs, ring_pairs
from fleetctl.bench.net import Network
from fleetctl.checks import burn_probe, look_probe
from fleetctl.checks.answer import DeepFacts, PhoneFacts
from fleetctl.checks.facts import gather as gather_facts
from fleetctl.rack.variables import TERMUX_HOME, TERMUX_PREFIX

if TYPE_CHECKING:
    from fleetctl.rack import Rack
    from fleetctl.remote import Fleet

PINGS = 200
GOODPUT_SECONDS = 5.0
MEMORY_RATIO = 0.5
"""So much of the free memory is filled: more might wake Android's killer."""
MOST_DISK_BYTES = 1 << 30

_LOOK_LIMIT_SECONDS = 30.0
_SPARE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class _Answer:
    """The JSON of one of our programs, empty where it did not say any; `lost`: how the phone that
    should have run it was lost."""

    said: Mapping[str, Any]
    lost: str | None = None


@dataclass
class DeepLook:
    """Looks at phones for longer than a launch would wait; `say` gets progress."""

    fleet: Fleet
    rack: Rack
    say: Callable[[str], None] = lambda _: None

    async def gather(self, facts: Mapping[str, PhoneFacts], level: int) -> dict[str, PhoneFacts]:
        """`facts` with what `level` adds, for the phones that answered the probe."""
        names = [name for name, each in facts.items() if not each.problem]
        found = dict.fromkeys(names, DeepFacts())
        if level >= 2 and names:
            self.say(f"asking {len(names)} phones what they are, and how packets reach them")
            await self._look(found)
        if level >= 3 and names:
            await self._goodput(found)
            await self._burn(found, facts)
        return {
            name: _with_deep(each, found[name]) if name in found else each
            for name, each in facts.items()
        }

    async def _look(self, found: dict[str, DeepFacts]) -> None:
        pairs = ring_pairs(self.rack, found)
        next_of = {pair.sender: self.rack.phones[pair.receiver].address for pair in pairs}
        # First what must not be disturbed by anything else.
        looks = await self._each(
            list(found), look_probe.__file__, lambda name: [next_of.get(name, ""), str(PINGS)]
        )
        lost = await Network(self.rack, self.fleet, self.say).mtu(pairs)
        problems = {pair.sender: problem for pair, problem in lost.items()}
        said, _ = await gather_facts(self.fleet, found)
        for name in found:
            found[name] = replace(
                found[name],
                said=said.get(name),
                mtu_problem=problems.get(name, "") if name in next_of else None,
                look_lost=looks[name].lost,
                **{key: looks[name].said.get(key) for key in ("loss_ratio", "wake_lock")},
            )

    async def _goodput(self, found: dict[str, DeepFacts]) -> None:
        """Twice with another partner each, so that a slow one is not taken for its partner."""
        network = Network(self.rack, self.fleet, self.say)
        best: dict[str, float] = {}
        problems: dict[str, str] = {}
        ring = [pair.sender for pair in ring_pairs(self.rack, found)]
        turned = [Pair(pair.receiver, pair.sender) for pair in disjoint_pairs(self.rack, found)]
        for pairs in (turned, [Pair(a, b) for a, b in zip(ring[::2], ring[1::2], strict=False)]):
            for flow in await network.together(pairs, GOODPUT_SECONDS):
                for name in (flow.pair.sender, flow.pair.receiver):
                    if flow.goodput_mbits is not None:
                        best[name] = max(best.get(name, 0.0), flow.goodput_mbits)
                    elif flow.problem:
                        problems[name] = flow.problem
        for name in (*best, *problems):
            found[name] = replace(
                found[name], goodput_mbits=best.get(name), goodput_problem=problems.get(name)
            )

    async def _burn(self, found: dict[str, DeepFacts], facts: Mapping[str, PhoneFacts]) -> None:
        limits = self.rack.thresholds
        seconds = limits.burn_in_seconds
        self.say(f"burn-in of {len(found)} phones for {seconds:g} s")

        def words(name: str) -> list[str]:
            memory = (facts[name].free_memory_bytes or 0) * MEMORY_RATIO
            spare = (facts[name].free_disk_bytes or 0) - limits.min_free_disk_bytes
            disk = min(max(spare, 1 << 20), MOST_DISK_BYTES)
            return [f"{seconds:g}", f"{memory:.0f}", f"{disk:.0f}", f"{TERMUX_HOME}/phonerack"]

        answers = await self._each(
            list(found), burn_probe.__file__, words, seconds + _SPARE_SECONDS
        )
        for name, answer in answers.items():
            found[name] = replace(
                found[name],
                sustained_ratio=answer.said.get("sustained_ratio"),
                burn_celsius=answer.said.get("celsius"),
                burn_problem=answer.said.get("problem"),
                burn_lost=answer.lost,
            )

    async def _each(
        self,
        names: Sequence[str],
        program: str,
        words: Callable[[str], Sequence[str]],
        limit_seconds: float = _LOOK_LIMIT_SECONDS,
    ) -> dict[str, _Answer]:
        """Run one of our programs on each phone."""
        code = Path(program).read_text()

        async def one(name: str) -> _Answer:
            line = [f"{TERMUX_PREFIX}/bin/python", "-", *words(name)]
            told = await self.fleet.run_on(
                name, shlex.join(line), stdin=code, timeout_seconds=limit_seconds
            )
            try:
                answer = json.loads(told.stdout) if told.ok else {}
            except ValueError:
                answer = {}
            if not told.ok:
                self.say(told.failure(name))
            gone = told.error is not None and told.error.reached is False
            lost = str(told.error) if gone else None
            return _Answer(answer if isinstance(answer, dict) else {}, lost)

        answers = await asyncio.gather(*(one(name) for name in names))
        return dict(zip(names, answers, strict=True))


def _with_deep(facts: PhoneFacts, deep: DeepFacts) -> PhoneFacts:
    """Of a phone that was lost meanwhile nobody shall say that it answers."""
    lost = deep.burn_lost or deep.look_lost
    return replace(facts, deep=deep, answered=False if lost else facts.answered)
