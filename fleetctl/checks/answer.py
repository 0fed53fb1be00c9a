"""What a phone answered to the probe, as values. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fleetctl.checks.links import LinkCounters
from fleetctl.checks.readings import Readings, read_snapshot
from fleetctl.checks.registry import Result
from fleetctl.remote.faults import Fault

if TYPE_CHECKING:
    from fleetctl.remote import Result as Answer


NOT_ASKED = Result("UNKNOWN", "not asked", ordinary=True)
"""Another check says why."""


@dataclass(frozen=True, slots=True)
class DeepFacts:
    """What the checks of level 2 and 3 found out; None where they were not asked or cannot tell.

    `mtu_problem` and `burn_problem` are empty where all is well. `look_lost` and `burn_lost`: how
    the phone was lost meanwhile, though it had answered.
    """

    said: Mapping[str, Any] | None = None
    """Facts of the module `phone_facts`."""
    mtu_problem: str | None = None
    loss_ratio: float | None = None
    goodput_mbits: float | None = None
    """Of the better of its two flows in the ring."""
    goodput_problem: str | None = None
    """Why it could not be measured; None where there was nobody to measure it with."""
    wake_lock: bool | None = None
    sustained_ratio: float | None = None
    """Speed at the end of the burn-in against that of its beginning."""
    burn_celsius: float | None = None
    """The highest temperature meanwhile."""
    burn_problem: str | None = None
    look_lost: str | None = None
    burn_lost: str | None = None


@dataclass(frozen=True, slots=True)
class PhoneFacts:
    """What a phone answered; None is unknown. `address` is the one that the rack file gives."""

    name: str
    address: str
    problem: str | None = None
    """Why there is no answer: not reached, or an interpreter that does not run."""
    fault: Fault | None = None
    """What kind of failure kept it from being reached."""
    reached: bool = True
    """Whether the probe could be run there."""
    answered: bool | None = True
    """Whether the phone answered at all, be it only to refuse; None if nobody can tell."""
    bears: str | None = None
    """The name that it was provisioned with."""
    python: str | None = None
    missing_modules: Mapping[str, str] = field(default_factory=dict)
    imports_spared: bool = False
    openmpi: str | None = None
    openmpi_problem: str | None = None
    release: str | None = None
    free_disk_bytes: int | None = None
    free_temporary_bytes: int | None = None
    free_memory_bytes: int | None = None
    clock_skew_seconds: float | None = None
    load: float | None = None
    """Processes that want to run, over a minute; `cores` is how many could at once."""
    cores: int | None = None
    slept_seconds: float | None = None
    """For how long it slept since the last look at it, `since_look_seconds` ago."""
    since_look_seconds: float | None = None
    readings: Readings | None = None
    """What its exporter told last; None where it has none."""
    children: int | None = None
    """Processes of Termux's, all of them an app's children to Android."""
    interfaces: Mapping[str, str] | None = None
    """Address -> interface."""
    strays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Run -> processes here, for runs that do not hold this phone."""
    revocations: int | None = None
    wanted_revocations: int | None = 0
    """Versions of the list of revoked keys: the phone's, and the rack's; None is unknown."""
    void_rules: Sequence[str] = ()
    """What its sshd goes by otherwise than the rack says, as the names of settings."""
    neighbours: Mapping[str, str] | None = None
    """Name -> address of the phones that it can start ranks on."""
    host_file: Sequence[str] | None = None
    """Addresses in the order of its host file."""
    link: LinkCounters | None = None
    """What its switch has counted in the last quarter of an hour, if anybody recorded it."""
    common_release: str | None = None
    common_openmpi: str | None = None
    """What most of the phones that were asked together have."""
    moved_to: str | None = None
    """Where it answers instead of at its address, if it was searched for and found."""
    together: frozenset[str] = frozenset()
    """The phones that were asked together."""

    deep: DeepFacts = DeepFacts()
    """What took longer to find out than a launch would wait."""

    @property
    def interface(self) -> str | None:
        """The interface that bears the phone's rack address."""
        return (self.interfaces or {}).get(self.address)


def read(name: str, address: str, answer: Answer, asked: tuple[float, float]) -> PhoneFacts:
    """Facts from the probe's answer; `asked` is when the probe began and ended here."""
    if answer.error is not None:
        error = answer.error
        return PhoneFacts(
            name,
            address,
            problem=str(error),
            reached=False,
            answered=error.reached,
            fault=error.fault,
        )
    try:
        found: dict[str, Any] = json.loads(answer.stdout)
        clock, runs, awake = found.pop("clock"), found.pop("runs"), found.pop("awake")
        manifest, snapshot = found.pop("manifest"), found.pop("snapshot")
        began, ended = asked
        slept, since = awake or (None, None)
        return PhoneFacts(
            name,
            address,
            strays={run: tuple(pids) for run, pids in runs.items()},
            # Within the round trip nothing can be said.
            clock_skew_seconds=max(began - clock, clock - ended, 0.0),
            slept_seconds=slept,
            since_look_seconds=since,
            release=_version(manifest),
            readings=read_snapshot(snapshot, clock),
            **found,
        )
    except (ValueError, KeyError, TypeError):
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        reason = said[-1] if said else f"exit code {answer.exit_code}"
        return PhoneFacts(name, address, problem=f"{name}: Python does not run: {reason}")


def _version(manifest: str | None) -> str | None:
    """Of the release that the manifest describes; None where there is no whole one."""
    try:
        return str(json.loads(manifest or "")["version"])
    except (ValueError, LookupError, TypeError):
        return None


def unknown(facts: PhoneFacts) -> Result | None:
    """The answer of every further check on a phone that said nothing."""
    return NOT_ASKED if facts.problem else None
