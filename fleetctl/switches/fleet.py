"""The rack's managed switches, ready to be worked on: addresses, secrets, phones, backups."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fleetctl.errors import ExitCode, FleetError
from fleetctl.rack import InputError, Rack, RackPaths, Switch
from fleetctl.rack.document import did_you_mean
from fleetctl.remote.knock import answering
from fleetctl.state import State
from fleetctl.switches import backups
from fleetctl.switches.errors import RefusedError, SwitchError
from fleetctl.switches.intent import Cut, SwitchIntent, intend
from fleetctl.switches.job import Job, Report
from fleetctl.switches.platforms import Platform, platform
from fleetctl.switches.restore import read_backup
from fleetctl.switches.rollout import roll_out
from fleetctl.switches.secrets import Secrets, Source, environment
from fleetctl.switches.session import Patience, Target


class HeldError(FleetError):
    """Another run holds the switches."""

    exit_code = ExitCode.HELD


CUT_DRAINS: dict[str, Cut] = {"port-off": "carrier", "power-off": "power"}
"""Who drained a phone whose port is cut off."""


def read_cuts(paths: RackPaths) -> dict[str, Cut]:
    """Phones whose port is cut off. Leaves no database behind where there is none."""
    if not paths.state_db.is_file():
        return {}
    with State(paths.state_db) as state:
        return {
            phone: CUT_DRAINS[drain.who]
            for phone, facts in state.phones().items()
            for drain in facts.drains
            if drain.origin == "check" and drain.who in CUT_DRAINS
        }


type Say = Callable[[str, str], None]
"""Told a switch's name and what is done with it."""


@dataclass(frozen=True)
class Switches:
    """All that is needed to log in on the rack's switches."""

    rack: Rack
    paths: RackPaths
    sources: Sequence[Source] = (environment,)
    say: Say = lambda switch, text: None  # noqa: ARG005
    patience: Patience = field(default_factory=Patience)
    port: int = 22

    @property
    def known_hosts(self) -> Path:
        return self.paths.ssh / "known_switches"

    @property
    def cuts(self) -> dict[str, Cut]:
        """Phones whose port somebody has cut off, by the drains that say so."""
        return read_cuts(self.paths)

    def folder(self, name: str) -> Path:
        """Where the backups of one switch lie."""
        return self.paths.dir / "switches" / name

    def managed(self, names: Iterable[str] = ()) -> list[Switch]:
        """Switches that can be configured, in rack order; those named, else all of them."""
        wanted = list(names)
        switches = self.rack.switches
        for name in wanted:
            if name not in switches:
                raise InputError(f"no switch {name} in this rack; {did_you_mean(name, switches)}")
            if not platform(switches[name].platform).configurable:
                raise InputError(f"switch {name} is unmanaged; give it a platform in the rack file")
        return [
            switch
            for switch in switches.values()
            if platform(switch.platform).configurable and (not wanted or switch.name in wanted)
        ]

    def intent(self, switch: Switch) -> tuple[Platform, SwitchIntent]:
        found = platform(switch.platform)
        interfaces = switch.interfaces or found.interfaces(switch.ports)
        return found, intend(self.rack, switch, interfaces, self.cuts)

    def target(self, switch: Switch) -> Target:
        login = switch.login
        if switch.address is None:
            raise RefusedError(switch.name, "it has no address", "add it to the rack file")
        return Target(
            *(switch.name, switch.address, login.user, login.password, login.enable),
            self.known_hosts,
            self.port,
        )

    def secrets(self, switch: Switch) -> Secrets:
        """All secrets of one switch. Raises RefusedError naming the one that is missing."""
        community = self.rack.network.snmp_community
        names = {switch.login.password, switch.login.enable, community} - {None}
        found = Secrets.find(switch.name, sorted(str(name) for name in names), self.sources)
        if community:
            found.require_plain(switch.name, community)
        return found

    def job(self, switch: Switch, restore: Path | None = None) -> Job:
        """What the rack file wants of a switch, or with `restore` what a backup says."""
        found, intent = self.intent(switch)
        secrets = self.secrets(switch)
        addresses = {phone.name: phone.address for phone in self.rack.phones.values()}
        wanted = None
        if restore is not None:
            others = [other for other in self.rack.switches.values() if other != switch]
            wanted = read_backup(restore, found, intent, secrets, others)
        return Job(
            target=self.target(switch),
            platform=found,
            intent=intent,
            secrets=secrets,
            reachable=lambda: answering(addresses),
            backup=lambda text: backups.keep(self.folder(switch.name), text),
            wanted=wanted,
            restored_from=restore,
            patience=self.patience,
            say=lambda text: self.say(switch.name, text),
        )

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One run at a time changes a rack's switches. Raises HeldError."""
        folder = self.paths.dir / "switches"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise HeldError(
                    f"another run works on the switches of {self.rack.name}; wait for its end"
                ) from None
            yield

    def provision(
        self, names: Iterable[str] = (), dry: bool = False, restore: Path | None = None
    ) -> dict[str, Report | SwitchError]:
        """Bring switches to what the rack file says. What failed stands in its switch's place."""
        switches = self.managed(names)
        answers: dict[str, Report | SwitchError] = {}
        jobs = []
        for switch in switches:
            try:
                jobs.append(self.job(switch, restore))
            except SwitchError as problem:
                answers[switch.name] = problem
        neighbours = {
            name: [bundle.to for bundle in switch.bundles]
            for name, switch in self.rack.switches.items()
        }
        with self.alone():
            found = roll_out(jobs, neighbours, dry)
        answers |= {job.target.switch: answer for job, answer in zip(jobs, found, strict=True)}
        return {switch.name: answers[switch.name] for switch in switches}
