"""Who is who in the rack: which phone sits in which place, and by which keys it is known.

A phone takes a place, is enrolled again after Termux was reinstalled, takes over the place of one
that broke, or leaves. Lock file, known_hosts, list of revoked keys and state change together; what
derives from them follows with the next site.yml.
"""

from __future__ import annotations

import fcntl
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fleetctl.provision import revocation
from fleetctl.provision.certificates import certified_key
from fleetctl.provision.keys import Authority, host_keys, tell_state
from fleetctl.provision.revocation import Revoked
from fleetctl.rack import InputError, Rack, RackPaths
from fleetctl.rack.files import write_atomic
from fleetctl.rack.loader import lock_file_of
from fleetctl.rack.lock import Locked, read_lock, write_lock
from fleetctl.state import Held, State


class Register:
    """The identities of one rack. Changes come one at a time; one that was cut off is completed
    by doing it again."""

    def __init__(self, rack: Rack, rack_file: Path) -> None:
        self._rack = rack
        self._paths = RackPaths(rack.name)
        self._lock_file = lock_file_of(rack_file, self._paths)

    def entries(self) -> dict[str, Locked]:
        """What enrolment knows, by name; also of phones that have left the rack file."""
        if not self._lock_file.is_file():
            return {}
        return read_lock(self._lock_file, self._rack.name)[1]

    def host_keys(self) -> dict[str, str]:
        """Public lines by name."""
        return host_keys(self._known_hosts())

    def is_revoked(self, key: str) -> bool:
        """Whether a public line must not be accepted any more."""
        path = self._paths.ssh / revocation.LIST
        entries = revocation.read_list(path.read_text()) if path.is_file() else []
        return _plain(key) in {entry.key for entry in entries}

    def enrol(self, name: str, entry: Locked, host_key: str) -> None:
        """Have the phone of this serial and host key sit in the place `name`.

        The place is empty, or has been the same phone's before. With another host key it was set up
        anew, and the keys that it had are revoked: their certificates have no end. Raises
        InputError: no such place, a place of another phone, a serial, MAC or host key of another
        phone, a revoked key.
        """
        with self._alone():
            present = self.entries().get(name, Locked())
            if present.serial not in (None, entry.serial):
                raise InputError(
                    f"in the place {name} sits the phone {present.serial}, not {entry.serial}: "
                    f"choose an empty place, or replace it by `fleetctl enroll --replace {name}`"
                )
            self._refuse(name, entry, host_key)
            had = {key.key for key in self._keys_of(name) if key.kind == "host"}
            if had - {_plain(host_key)}:
                self._revoke([name], but=host_key)
            self._sit(name, entry, host_key)

    def replace(self, name: str, entry: Locked, host_key: str) -> None:
        """Have another phone sit in the place `name`; the keys of the old one are revoked.

        One that sits there already, since this was cut off, stays. Drains stay: whoever drained the
        place lifts them. Raises InputError as `enrol` does, and Held where a run has the phone.
        """
        with self._alone():
            self._refuse(name, entry, host_key)
            sits = self.entries().get(name, Locked()).serial == entry.serial
            if not sits and _plain(host_key) in {key.key for key in self._keys_of(name)}:
                raise InputError(
                    f"the phone that shall replace {name} bears its host key: it is {name} "
                    "itself, or has a copy of its Termux; reinstall Termux on it"
                )
            self._refuse_busy([name])
            self._revoke([name], but=host_key)
            # Before the new phone sits there, so that all of this is the old one's.
            with State(self._paths.state_db) as state:
                state.forget([name], keep_drains=True)
            self._sit(name, entry, host_key)

    def retire(self, names: Collection[str]) -> list[str]:
        """Free the places of phones, and revoke their keys; nothing is done to the phones.

        Returns those that were known. Raises Held where a run has one of them.
        """
        with self._alone():
            entries = self.entries()
            known = [name for name in names if name in entries or self._keys_of(name)]
            self._refuse_busy(names)
            self._revoke(names)
            self._write_known_hosts(self._lines_but(names))
            left = {name: entry for name, entry in entries.items() if name not in names}
            if left != entries:
                write_lock(self._lock_file, self._rack.name, left)
            with State(self._paths.state_db) as state:
                state.forget(names)
        return known

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._paths.ensure()
        with (self._paths.ssh / ".register").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _known_hosts(self) -> str:
        path = self._paths.known_hosts
        return path.read_text() if path.is_file() else ""

    def _write_known_hosts(self, lines: Iterable[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if text != self._known_hosts():
            write_atomic(self._paths.known_hosts, text, mode=0o600)

    def _refuse(self, name: str, entry: Locked, host_key: str) -> None:
        if name not in self._rack.phones:
            raise InputError(f"the rack file has no place {name}: add it there first")
        for other, known in self.entries().items():
            if other == name:
                continue
            if entry.serial and entry.serial == known.serial:
                raise InputError(f"the phone {entry.serial} is enrolled already, as {other}")
            if entry.mac and entry.mac == known.mac:
                raise InputError(
                    f"{name} and {other} both have the MAC {entry.mac}: give one of them another "
                    "adapter, or a switch and DHCP will take them for one"
                )
        for other, key in self.host_keys().items():
            if other != name and _plain(key) == _plain(host_key):
                raise InputError(
                    f"{name} bears the host key of {other}: a copy of Termux? Reinstall Termux "
                    f"on {name} and enrol it again"
                )
        if self.is_revoked(host_key):
            raise InputError(
                f"the host key of {name} was revoked when its phone left a place or was enrolled "
                "anew: reinstall Termux on the phone and enrol it again"
            )

    def _refuse_busy(self, names: Iterable[str]) -> None:
        with State(self._paths.state_db) as state:
            facts = state.phones()
        runs = {name: facts[name].run for name in names if name in facts}
        if held := {name: run for name, run in runs.items() if run}:
            raise Held(held)

    def _keys_of(self, name: str) -> list[Revoked]:
        """The keys by which the rack has known a phone."""
        found = []
        if key := self.host_keys().get(name):
            found.append(Revoked(_plain(key), "host", name))
        for kind, path in self._certificates(name).items():
            if path.is_file() and (key := certified_key(path.read_text())):
                found.append(Revoked(key, "rank" if kind == "ranks" else "host", name))
        return found

    def _certificates(self, name: str) -> dict[str, Path]:
        kinds = ("hosts", "ranks")
        return {kind: self._paths.ssh / kind / f"{name}-cert.pub" for kind in kinds}

    def _revoke(self, names: Iterable[str], but: str = "") -> None:
        """Revoke what `names` are known by, `but` for one key, and drop their certificates."""
        kept = _plain(but)
        keys = [key for name in names for key in self._keys_of(name) if key.key != kept]
        Authority(self._paths.ssh, self._rack.name).revoke(keys)
        tell_state(self._paths.state_db, self._paths.ssh)
        for name in names:
            for path in self._certificates(name).values():
                path.unlink(missing_ok=True)

    def _sit(self, name: str, entry: Locked, host_key: str) -> None:
        """Known is who has both an entry and a key: so at no time has an entry another's key."""
        if _plain(self.host_keys().get(name, host_key)) != _plain(host_key):
            self._write_known_hosts(self._lines_but([name]))
        self._write_entry(name, entry)
        self._write_known_hosts([*self._lines_but([name]), f"{name} {_plain(host_key)}"])

    def _lines_but(self, names: Collection[str]) -> list[str]:
        """The lines of known_hosts that are not of `names`."""
        return [line for line in self._known_hosts().splitlines() if _name(line) not in names]

    def _write_entry(self, name: str, entry: Locked) -> None:
        # An address that others lease out is whose phone has it now.
        entries = {
            known: replace(each, address=None) if each.address == entry.address else each
            for known, each in self.entries().items()
        }
        entries[name] = entry
        order = {known: place for place, known in enumerate(self._rack.phones)}
        names = sorted(entries, key=lambda known: order.get(known, len(order)))
        write_lock(self._lock_file, self._rack.name, {known: entries[known] for known in names})


def _plain(key: str) -> str:
    """A public line without its comment."""
    return " ".join(key.split()[:2])


def _name(line: str) -> str:
    """Whose key a line of known_hosts is."""
    return line.split(" ", 1)[0]
