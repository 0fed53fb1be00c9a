"""The database of one Open vSwitch, which its daemon follows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standin.errors import StandinError
from standin.openvswitch import rpc
from standin.openvswitch.ports import PortRow, Wire, as_map, as_set, of_map, of_set

SCHEMA = "Open_vSwitch"
FOLLOW_WAIT_SECONDS = 60.0
OWN_MTU_BYTES = 1500
"""Of what a switch says itself, whatever its ports let through."""

_POLL_SECONDS = 0.02
_AWAY = "~"
"""Behind the name of a device that has been taken out of its port: there is none of that name."""

type Operation = dict[str, Any]


@dataclass(frozen=True)
class Database:
    """The database whose socket lies in `folder`, with its one bridge."""

    folder: Path

    def transact(self, *operations: Operation) -> list[Any]:
        """All of them or none; the result of each. Raises StandinError."""
        results = rpc.call(self.folder, rpc.DATABASE, "transact", SCHEMA, *operations)
        for result in results:
            if result and "error" in result:
                raise StandinError(f"{result['error']}: {result.get('details', '')}")
        return list(results)

    def select(self, table: str, *columns: str, where: Iterable[Any] = ()) -> list[dict[str, Any]]:
        operation = {"op": "select", "table": table, "where": list(where), "columns": columns}
        rows: list[dict[str, Any]] = self.transact(operation)[0]["rows"]
        return rows

    def has_bridge(self) -> bool:
        return bool(self.select("Bridge", "name"))

    def make_bridge(self, name: str, mac: str) -> None:
        """The bridge, with a port of its own that the switch is managed by, and its own MAC."""
        own = {"name": name, "interfaces": ["named-uuid", "i"], "vlan_mode": "access"}
        row = {
            "name": name,
            "datapath_type": "netdev",
            "fail_mode": "standalone",
            "ports": ["named-uuid", "p"],
            "other_config": as_map({"hwaddr": mac}),
        }
        operations = [
            insert("Interface", "i", name=name, type="internal", mtu_request=OWN_MTU_BYTES),
            insert("Port", "p", **own),
            insert("Bridge", "b", **row),
        ]
        if self.select(SCHEMA, "_uuid"):
            operations.append(
                mutate(SCHEMA, [], ["bridges", "insert", as_set([["named-uuid", "b"]])])
            )
        else:
            operations.append(insert(SCHEMA, "o", bridges=["named-uuid", "b"]))
        self.transact(*operations)
        self.followed()

    def set_ports(self, rows: Mapping[str, PortRow], own: str) -> None:
        """Make these the ports of the bridge, beside its `own`, in one step."""
        interfaces = {
            row["name"]: row["_uuid"] for row in self.select("Interface", "name", "_uuid")
        }
        ports = {row["name"]: row["_uuid"] for row in self.select("Port", "name", "_uuid")}
        operations: list[Operation] = []
        kept = [ports[own]]
        for place, (name, row) in enumerate(rows.items()):
            uses = []
            for nth, wire in enumerate(row.wires):
                present = interfaces.get(wire.device) or interfaces.get(wire.device + _AWAY)
                if present is None:
                    present = ["named-uuid", f"i{place}n{nth}"]
                    operations.append(_interface(wire, present[1]))
                uses.append(present)
            columns = {**row.columns, "interfaces": as_set(uses)}
            if name in ports:
                operations.append(update("Port", [["name", "==", name]], **columns))
                kept.append(ports[name])
            else:
                operations.append(insert("Port", f"p{place}", name=name, **columns))
                kept.append(["named-uuid", f"p{place}"])
        self.transact(*operations, update("Bridge", [], ports=as_set(kept)))

    def update_ports(self, rows: Iterable[PortRow]) -> None:
        """Set the columns of ports that are there, with the devices that they have."""
        changes = [update("Port", [["name", "==", row.name]], **row.columns) for row in rows]
        if changes:
            self.transact(*changes)

    def set_own(self, name: str, vlan: int | None) -> None:
        """The VLAN that the switch itself is in."""
        tag = as_set([] if vlan is None else [vlan])
        self.transact(update("Port", [["name", "==", name]], tag=tag))

    # --- devices that come and go ---------------------------------------------------------------

    def take_out(self, device: str) -> bool:
        """Have the daemon let go of a device: it would not notice one that takes its place.

        Returns whether it had the device.
        """
        found = self.select("Interface", "ofport", where=[["name", "==", device]])
        if not found or [number for number in of_set(found[0]["ofport"]) if number > 0] == []:
            return False
        self._exchange(device, device + _AWAY)
        return True

    def put_in(self, device: str) -> None:
        """The opposite of `take_out`."""
        self._exchange(device + _AWAY, device)

    def _exchange(self, old: str, new: str) -> None:
        found = self.select("Interface", "_uuid", "ofport_request", where=[["name", "==", old]])
        if not found:
            return
        identity, number = found[0]["_uuid"], found[0]["ofport_request"]
        where = [["interfaces", "includes", as_set([identity])]]
        (port,) = self.select("Port", "_uuid", "interfaces", where=where)
        uses = [item for item in _uuids(port["interfaces"]) if item != identity]
        self.transact(
            insert("Interface", "i", name=new, ofport_request=number),
            update(
                "Port",
                [["_uuid", "==", port["_uuid"]]],
                interfaces=as_set([*uses, ["named-uuid", "i"]]),
            ),
        )
        self.followed()

    def followed(self) -> None:
        """Wait until the daemon has done all that was asked of it. Raises StandinError."""
        operation = {"op": "select", "table": SCHEMA, "where": [], "columns": ["next_cfg"]}
        count = mutate(SCHEMA, [], ["next_cfg", "+=", 1])
        wanted = self.transact(count, operation)[1]["rows"][0]["next_cfg"]
        deadline = time.monotonic() + FOLLOW_WAIT_SECONDS
        while self.select(SCHEMA, "cur_cfg")[0]["cur_cfg"] < wanted:
            if time.monotonic() > deadline:
                raise StandinError(f"the switch of {self.folder} does not follow its database")
            time.sleep(_POLL_SECONDS)

    # --- notes that outlive whoever made them ---------------------------------------------------

    def note(self, device: str, **values: str | None) -> dict[str, str]:
        """Note something of a device, or with None no longer; returns all that is noted of it."""
        keys = [f"{device}.{name}" for name in values]
        present = {f"{device}.{name}": value for name, value in values.items() if value is not None}
        results = self.transact(
            mutate(
                "Bridge",
                [],
                ["external_ids", "delete", as_set(keys)],
                ["external_ids", "insert", as_map(present)],
            ),
            {"op": "select", "table": "Bridge", "where": [], "columns": ["external_ids"]},
        )
        return _of_device(of_map(results[1]["rows"][0]["external_ids"]), device)

    def notes(self) -> dict[str, str]:
        """All notes, as DEVICE.NAME."""
        return of_map(self.select("Bridge", "external_ids")[0]["external_ids"])

    def noted(self, device: str) -> dict[str, str]:
        return _of_device(self.notes(), device)


def _of_device(notes: Mapping[str, str], device: str) -> dict[str, str]:
    start = f"{device}."
    return {key.removeprefix(start): value for key, value in notes.items() if key.startswith(start)}


def _uuids(column: Any) -> list[Any]:
    """A single one stands alone, and looks like a set."""
    return [column] if column[:1] == ["uuid"] else of_set(column)


def _interface(wire: Wire, name: str) -> Operation:
    return insert("Interface", name, name=wire.device, ofport_request=wire.number)


def insert(table: str, as_name: str, **row: Any) -> Operation:
    return {"op": "insert", "table": table, "uuid-name": as_name, "row": row}


def update(table: str, where: list[Any], **row: Any) -> Operation:
    return {"op": "update", "table": table, "where": where, "row": row}


def mutate(table: str, where: list[Any], *mutations: list[Any]) -> Operation:
    return {"op": "mutate", "table": table, "where": where, "mutations": list(mutations)}
