"""Who is upgraded when, what is proven afterwards, and what is said: the thinking of upgrade.yml.

The steps are in upgrade_steps.py; the playbook does all that changes a phone. While a phone is
upgraded it bears a drain of its own, so that no job is given to it; drains of people stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fleetctl.checks.packages import PackageFacts, differences
from fleetctl.checks.phone import PhoneFacts as ProbeFacts
from fleetctl.checks.phone import judge
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.state import PhoneFacts, derive

HOLDER = "upgrade"
"""Who sets the drains; `derive` and `undrain` know them as a check's."""

_PROOFS = ("reachable", "interpreter", "openmpi")
"""Checks of preflight that an upgrade can break; the others say nothing about packages."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Phones by what happens to them, in ring order."""

    canaries: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    standing: tuple[str, ...] = ()
    """They are on the target already, with all its versions."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Phone -> why nothing is done to it."""
    former: Mapping[str, str | None] = field(default_factory=dict)
    """Where those that move go back to."""
    reference: str | None = None
    """A ready phone of the rest, for the canaries to talk to."""
    proven: str | None = None
    """A phone on the target, for the others to talk to."""

    @property
    def untried(self) -> bool:
        """Phones would move, and none is there to try it on."""
        return bool(self.rest) and not self.canaries and self.proven is None

    @property
    def moving(self) -> tuple[str, ...]:
        return (*self.canaries, *self.rest)

    def document(self, lines: Sequence[str]) -> dict[str, object]:
        return {**asdict(self), "untried": self.untried, "lines": list(lines)}

    def lines(self) -> list[str]:
        """What a person reads before it begins."""
        rows = (
            ("canaries", self.canaries),
            ("then in waves", self.rest),
            ("there already", self.standing),
        )
        said = [f"{what}: {fold(names)}" for what, names in rows if names]
        return said + _together({name: f"left out: {why}" for name, why in self.left_out.items()})


def make_plan(
    rack: Rack,
    found: Mapping[str, PackageFacts],
    state: Mapping[str, PhoneFacts],
    now: float,
    *,
    target: str | None,
    former: str | None,
    canaries: Sequence[str] = (),
    unproven: Collection[str] = (),
) -> Plan:
    """Sort the phones that were asked. `target` is None for a snapshot that is yet to be taken,
    `former` the rack's snapshot, for phones that stand between two. `unproven`: what an earlier
    upgrade has moved and not let go; on the target or not, they have to show that they work."""
    left_out: dict[str, str] = {}
    standing, moving = [], []
    for name in rack.ring(found):
        why = _unfit(found[name], state.get(name, PhoneFacts()))
        if why:
            left_out[name] = why
        elif name not in unproven and _is_on(target, found[name], rack):
            standing.append(name)
        else:
            moving.append(name)
    ready = [name for name in found if derive(state.get(name, PhoneFacts()), now) == "ready"]
    if canaries:
        chosen = [name for name in moving if name in canaries]
    elif target == former and any(name in ready for name in standing):
        # The rack's own snapshot has been proven: these are strays that come back to it.
        chosen = []
    else:
        chosen = _firsts(rack, [name for name in moving if name in ready])
    rest = [name for name in moving if name not in chosen]
    return Plan(
        canaries=tuple(chosen),
        rest=tuple(rest),
        standing=tuple(standing),
        left_out=left_out,
        former={
            name: former if found[name].snapshot in (None, target) else found[name].snapshot
            for name in moving
        },
        reference=next((name for name in rest if name in ready), None),
        proven=next((name for name in (*chosen, *standing) if name in ready), None),
    )


def _is_on(target: str | None, facts: PackageFacts, rack: Rack) -> bool:
    return target is not None and facts.snapshot == target and not differences(facts, rack)


def _unfit(facts: PackageFacts, known: PhoneFacts) -> str | None:
    """Why a phone is left out."""
    if facts.problem:
        return facts.problem
    if known.run:
        return f"busy with run {known.run}; upgrade it when that has ended"
    if facts.half:
        # The upgrade mends it.
        return None
    if not any(name == "python" for name, _ in facts.versions):
        return "not provisioned yet: run site.yml for it"
    return None


def _firsts(rack: Rack, ready: Iterable[str]) -> list[str]:
    """The first of each model and target."""
    seen, chosen = set(), []
    for name in ready:
        phone = rack.phones[name]
        if (kind := (phone.model, phone.target)) not in seen:
            seen.add(kind)
            chosen.append(name)
    return chosen


def health(
    rack: Rack, probes: Mapping[str, ProbeFacts], packages: Mapping[str, PackageFacts]
) -> dict[str, str]:
    """Phone -> what is wrong with it after the upgrade; phones that are well are not in it."""
    wrong: dict[str, str] = {}
    for name, outcomes in judge(probes, rack).items():
        said = [
            outcome.result.message.removeprefix(f"{name}: ")
            for outcome in outcomes
            if outcome.check.name in _PROOFS and outcome.result.status == "CRITICAL"
        ]
        facts = packages[name]
        if facts.problem:
            # A phone that cannot be reached has said so already.
            said = said or [facts.problem.removeprefix(f"{name}: ")]
        else:
            said += [f"half-installed: {each}" for each in facts.half]
            said += [str(each) for each in differences(facts, rack)]
        if said:
            wrong[name] = "; ".join(said)
    return wrong


def series(version: str | None) -> str | None:
    """`5.0` of `5.0.11`."""
    return ".".join(version.split(".")[:2]) if version else None


def partners(probes: Mapping[str, ProbeFacts], well: Sequence[str], old: str | None) -> list[str]:
    """Who says hello together: phones of another series of Open MPI cannot talk to each other."""
    able = [name for name in well if probes[name].release is not None]
    if able and old is not None and old in probes:
        other = probes[old]
        if other.release and series(other.openmpi) == series(probes[able[0]].openmpi):
            return [*able, old]
    return able


@dataclass(frozen=True, slots=True)
class Wave:
    """What came of phones that were upgraded together: `moved`, `failed`, `lost`."""

    outcomes: Mapping[str, str]
    problems: Mapping[str, str]
    """Phone -> why; empty where a phone only goes back with its fellows."""
    stopped: str | None
    """Why the whole upgrade is to stop."""

    def document(self) -> dict[str, object]:
        return asdict(self)


def broken_off(said: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Phone -> why the upgrade itself did not end there, from what the module said of each."""
    found = {}
    for name, answer in said.items():
        if answer.get("unreachable"):
            found[name] = "no longer answers"
        elif answer.get("failed"):
            found[name] = str(answer.get("msg", "the upgrade failed"))
    return found


def judge_wave(
    said: Mapping[str, Mapping[str, Any]], wrong: Mapping[str, str], bearable_percentage: int
) -> Wave:
    """`wrong` are phones that were upgraded and do not work. Where nothing can be borne, as among
    canaries, one that fails takes its fellows along."""
    problems = {**wrong, **broken_off(said)}
    outcomes = {}
    for name, answer in said.items():
        gone = bool(answer.get("unreachable"))
        outcomes[name] = "lost" if gone else "failed" if name in problems else "moved"
    stopped = None
    if len(problems) * 100 > bearable_percentage * len(said):
        reasons = "; ".join(_together(dict(sorted(problems.items()))))
        stopped = f"{len(problems)} of {len(said)} phones failed ({reasons})"
        if not bearable_percentage:
            outcomes = {n: "failed" if each == "moved" else each for n, each in outcomes.items()}
    return Wave(outcomes, {name: problems.get(name, "") for name in said}, stopped)


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended for each phone: `moved`, `back`, `stuck`, `lost`, or `untouched`."""

    target: str
    outcomes: Mapping[str, str]
    reasons: Mapping[str, str]
    former: Mapping[str, str | None]
    left_out: Mapping[str, str]
    stopped: str | None = None
    """Why all went back."""

    @property
    def failed(self) -> bool:
        return bool(self.stopped or set(self.outcomes.values()) - {"moved"})

    @property
    def kept(self) -> dict[str, str]:
        """Phones that stay out of jobs, and why: they are not what the rack is now."""
        return {
            name: self.reasons.get(name) or each
            for name, each in self.outcomes.items()
            if each in ("stuck", "lost") or (each == "back" and not self.stopped)
        }

    def proven(self, standing: Sequence[str]) -> bool:
        """Whether the target may be the rack's. `standing`: phones that were on it before."""
        return not self.stopped and bool(standing or "moved" in self.outcomes.values())

    def lines(self) -> list[str]:
        """What a person reads, phones of one fate on one line."""
        said = [f"stopped: {self.stopped}"] if self.stopped else []
        moved = [name for name, each in self.outcomes.items() if each == "moved"]
        if moved:
            said.append(f"{fold(moved)}: stand on {self.target}")
        said += _together(
            {
                name: f"{self.reasons.get(name) or 'went well'}; "
                f"went back to {self.former.get(name)}"
                for name, each in self.outcomes.items()
                if each == "back"
            }
        )
        said += _together(
            {
                name: f"{self.reasons.get(name, '')}; it stands between two snapshots: mend that, "
                "then rerun this"
                for name, each in self.outcomes.items()
                if each == "stuck"
            }
        )
        said += _together(
            {
                name: "no longer answers: rerun this when it is back"
                for name, each in self.outcomes.items()
                if each == "lost"
            }
        )
        untouched = [name for name, each in self.outcomes.items() if each == "untouched"]
        if untouched:
            said.append(f"{fold(untouched)}: untouched")
        if self.kept:
            names = fold(self.kept)
            said.append(
                f"{names}: drained until this has been rerun and went well, or by hand: `fleetctl "
                f"undrain {names}`"
            )
        return said + _together({name: f"left out: {why}" for name, why in self.left_out.items()})


def _together(reasons: Mapping[str, str]) -> list[str]:
    phones: dict[str, list[str]] = {}
    for name, said in reasons.items():
        phones.setdefault(said, []).append(name)
    return [f"{fold(names)}: {said}" for said, names in phones.items()]
