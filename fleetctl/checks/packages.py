"""Drift: whose packages differ from the rack's snapshot, and in what. One command a phone."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.checks.registry import Check, Outcome, Result, check, run_checks
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.variables import TERMUX_PREFIX, phone_packages

if TYPE_CHECKING:
    from fleetctl.remote import Fleet
    from fleetctl.remote import Result as Answer
    from fleetctl.state import State

PROBE = (
    f"cat {TERMUX_PREFIX}/etc/phonerack/snapshot 2>/dev/null || echo; "
    f"{TERMUX_PREFIX}/bin/dpkg-query -W -f "
    r"'${Package}\t${Version}\t${Architecture}\t${db:Status-Eflag}\t${db:Status-Status}\n'"
)
"""Prints the snapshot that the phone stands on, then its packages."""

PROBE_LIMIT_SECONDS = 20.0

type Versions = Mapping[tuple[str, str], str]
"""Version by name and architecture; packages for all architectures have `all`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rack's snapshot as the mirror described it. Without a name, what most phones have."""

    name: str | None
    versions: Versions


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """What a phone answered. `problem` says why it did not."""

    name: str
    problem: str | None = None
    reached: bool = True
    """Whether it could be asked."""
    answered: bool | None = True
    """Whether it answered at all, be it only to refuse; None if nobody can tell."""
    snapshot: str | None = None
    """The one that the phone stands on; None: on none, or between two."""
    versions: Versions = field(default_factory=dict)
    half: tuple[str, ...] = ()
    """Packages that an interrupted dpkg has left half-way."""
    wanted: Snapshot = Snapshot(None, {})


@dataclass(frozen=True, slots=True)
class Difference:
    """A package that is not what it should be; `have` is None where it is missing."""

    package: str
    have: str | None
    want: str

    def __str__(self) -> str:
        return f"{self.package} {self.have or 'missing'} instead of {self.want}"


def read_snapshot(file: Path) -> Snapshot | None:
    """What the mirror's last run noted; None before there was one, or if the note is damaged."""
    try:
        document = json.loads(file.read_text())
        versions = {(name, arch): version for name, version, arch in document["packages"]}
        return Snapshot(str(document["snapshot"]), versions)
    except (OSError, ValueError, KeyError, TypeError):
        return None


async def gather(
    fleet: Fleet, names: Iterable[str], snapshot: Snapshot | None
) -> dict[str, PackageFacts]:
    """Ask all phones at once; without a snapshot they are held against what most of them have."""
    order = list(names)
    answers = await asyncio.gather(
        *(fleet.run_on(name, PROBE, timeout_seconds=PROBE_LIMIT_SECONDS) for name in order)
    )
    found = [read(name, answer) for name, answer in zip(order, answers, strict=True)]
    wanted = snapshot or most_common(found)
    return {facts.name: replace(facts, wanted=wanted) for facts in found}


def read(name: str, answer: Answer) -> PackageFacts:
    """Facts from the probe's answer."""
    if answer.error is not None:
        error = answer.error
        return PackageFacts(name, problem=str(error), reached=False, answered=error.reached)
    snapshot, _, listing = answer.stdout.partition("\n")
    versions: dict[tuple[str, str], str] = {}
    half = []
    for line in listing.splitlines():
        fields = line.split("\t")
        if len(fields) != 5 or fields[4] in ("not-installed", "config-files"):
            continue
        package, version, arch, flag, status = fields
        versions[package, arch] = version
        if flag != "ok" or status != "installed":
            half.append(package)
    if not answer.ok or not versions:
        return PackageFacts(name, problem=f"{answer.failure(name)}: its dpkg does not answer")
    return PackageFacts(
        name, snapshot=snapshot.strip() or None, versions=versions, half=tuple(sorted(half))
    )


def keep_contact(state: State, found: Mapping[str, PackageFacts]) -> None:
    """Note who answered. Raises StateError."""
    answered = {name: facts.answered for name, facts in found.items()}
    state.record_contact(
        {name: yes for name, yes in answered.items() if yes is not None},
        why={name: facts.problem for name, facts in found.items()},
    )


def most_common(found: Iterable[PackageFacts]) -> Snapshot:
    """What most of the phones that have a package have of it."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for facts in found:
        for key, version in facts.versions.items():
            counts.setdefault(key, Counter())[version] += 1
    return Snapshot(None, {key: count.most_common(1)[0][0] for key, count in counts.items()})


def differences(facts: PackageFacts, rack: Rack) -> list[Difference]:
    """What differs on one phone from what it should have. A package that no snapshot holds is the
    phone's own affair."""
    wanted = facts.wanted.versions
    pins = {name: pin for name, _, pin in (spec.partition("=") for spec in phone_packages(rack))}
    found = [
        Difference(name, have, wanted[name, arch])
        for (name, arch), have in facts.versions.items()
        if wanted.get((name, arch), have) != have
        # The rack file may want another series since the mirror noted what phones have.
        and fnmatchcase(wanted[name, arch], pins.get(name) or "*")
    ]
    there = {name for name, _ in facts.versions}
    for name, pin in pins.items():
        known = sorted({version for (each, _), version in wanted.items() if each == name})
        if name not in there:
            found.append(Difference(name, None, known[0] if known else pin or "any version"))
    return sorted(found, key=str)


@check(name="packages-asked", scope="packages", cure="see `fleetctl status`")
def asked(facts: PackageFacts, _: Rack) -> Result:
    """The phone tells its packages."""
    if facts.problem:
        return Result("UNKNOWN" if not facts.reached else "CRITICAL", facts.problem)
    return Result("OK", f"{len(facts.versions)} packages")


@check(name="packages-whole", scope="packages", cure="finish them by site.yml -t termux")
def whole(facts: PackageFacts, _: Rack) -> Result:
    """No package is half-way."""
    if facts.half:
        return Result("CRITICAL", f"half-installed: {', '.join(facts.half)}")
    return Result("OK", "no package is half-way")


@check(name="packages-snapshot", scope="packages", cure="bring them there by site.yml -t termux")
def snapshot(facts: PackageFacts, _: Rack) -> Result:
    """The phone stands on the rack's snapshot."""
    wanted = facts.wanted.name
    if facts.problem or wanted is None or facts.snapshot == wanted:
        return Result("OK", f"stands on {facts.snapshot}")
    where = f"stands on {facts.snapshot}" if facts.snapshot else "stands on no snapshot as a whole"
    return Result("WARN", f"{where}, the rack's is {wanted}")


@check(
    name="packages-versions",
    scope="packages",
    cure="full upgrade to the rack's snapshot by playbooks/upgrade.yml",
)
def versions(facts: PackageFacts, rack: Rack) -> Result:
    """Every package has the snapshot's version; one line a difference."""
    if facts.problem:
        return Result("UNKNOWN", "not asked", ordinary=True)
    found = differences(facts, rack)
    if found:
        return Result("WARN", "\n".join(map(str, found)))
    return Result("OK", "all packages as in the snapshot")


def judge(facts: Mapping[str, PackageFacts], rack: Rack) -> dict[str, list[Outcome]]:
    """All checks of packages for every phone."""
    return {name: run_checks("packages", each, rack) for name, each in facts.items()}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, with all phones that share it."""

    check: Check
    phones: tuple[str, ...]
    said: str

    def __str__(self) -> str:
        named = len(self.phones) == 1 and self.said.startswith(f"{self.phones[0]} ")
        return self.said if named else f"{fold(self.phones)}: {self.said}"


def findings(outcomes: Mapping[str, Iterable[Outcome]]) -> list[Finding]:
    """All that is not OK, by check, phones with the same trouble together."""
    phones: dict[tuple[str, str], dict[str, str]] = {}
    by_name: dict[str, Check] = {}
    for name, found in outcomes.items():
        for outcome in found:
            by_name[outcome.check.name] = outcome.check
            if outcome.result.status == "OK" or outcome.result.message == "not asked":
                continue
            for line in outcome.result.message.splitlines():
                # Faults of the connection name their phone themselves, with its address.
                said = re.sub(rf"^{re.escape(name)}(:| \([\d.]+\)) ", "", line)
                own = line.removeprefix(f"{name}: ")
                phones.setdefault((outcome.check.name, said), {})[name] = own
    order = list(by_name)
    rows = sorted(phones.items(), key=lambda row: (order.index(row[0][0]), row[0][1]))
    return [
        Finding(by_name[each], tuple(own), said if len(own) > 1 else next(iter(own.values())))
        for (each, said), own in rows
    ]
