"""The columns of the MIBs that are read, by number, so that no MIB file is needed."""

from __future__ import annotations

from collections.abc import Mapping

Oid = tuple[int, ...]
Value = "int | bytes"
Column = Mapping[Oid, "int | bytes"]
"""Values by index: what stands behind the column's number."""

Tables = Mapping[str, Column]
"""Columns by the names below. An optional one that the switch does not have is empty."""


def _oid(text: str) -> Oid:
    return tuple(int(part) for part in text.split("."))


REQUIRED = {
    "sysUpTime": _oid("1.3.6.1.2.1.1.3"),
    "sysName": _oid("1.3.6.1.2.1.1.5"),
    "ifDescr": _oid("1.3.6.1.2.1.2.2.1.2"),
    "ifAdminStatus": _oid("1.3.6.1.2.1.2.2.1.7"),
    "ifOperStatus": _oid("1.3.6.1.2.1.2.2.1.8"),
    "ifLastChange": _oid("1.3.6.1.2.1.2.2.1.9"),
}
"""Every switch has them."""

OPTIONAL = {
    "ifInDiscards": _oid("1.3.6.1.2.1.2.2.1.13"),
    "ifInErrors": _oid("1.3.6.1.2.1.2.2.1.14"),
    "ifOutDiscards": _oid("1.3.6.1.2.1.2.2.1.19"),
    "ifOutErrors": _oid("1.3.6.1.2.1.2.2.1.20"),
    "ifHCInOctets": _oid("1.3.6.1.2.1.31.1.1.1.6"),
    "ifHCOutOctets": _oid("1.3.6.1.2.1.31.1.1.1.10"),
    "ifHighSpeed": _oid("1.3.6.1.2.1.31.1.1.1.15"),
    "ifAlias": _oid("1.3.6.1.2.1.31.1.1.1.18"),
    "dot3StatsDuplexStatus": _oid("1.3.6.1.2.1.10.7.2.1.19"),
    "entPhySensorType": _oid("1.3.6.1.2.1.99.1.1.1.1"),
    "entPhySensorScale": _oid("1.3.6.1.2.1.99.1.1.1.2"),
    "entPhySensorPrecision": _oid("1.3.6.1.2.1.99.1.1.1.3"),
    "entPhySensorValue": _oid("1.3.6.1.2.1.99.1.1.1.4"),
    "entPhySensorOperStatus": _oid("1.3.6.1.2.1.99.1.1.1.5"),
    "entPhysicalDescr": _oid("1.3.6.1.2.1.47.1.1.1.1.2"),
    "pethPsePortAdminEnable": _oid("1.3.6.1.2.1.105.1.1.1.3"),
    "pethPsePortDetectionStatus": _oid("1.3.6.1.2.1.105.1.1.1.6"),
    "pethMainPsePower": _oid("1.3.6.1.2.1.105.1.3.1.1.2"),
    "pethMainPseConsumptionPower": _oid("1.3.6.1.2.1.105.1.3.1.1.4"),
}

OF_IOS = {
    # The sensors of older IOS, in the same columns.
    "ciscoSensorType": _oid("1.3.6.1.4.1.9.9.91.1.1.1.1.1"),
    "ciscoSensorScale": _oid("1.3.6.1.4.1.9.9.91.1.1.1.1.2"),
    "ciscoSensorPrecision": _oid("1.3.6.1.4.1.9.9.91.1.1.1.1.3"),
    "ciscoSensorValue": _oid("1.3.6.1.4.1.9.9.91.1.1.1.1.4"),
    "ciscoSensorStatus": _oid("1.3.6.1.4.1.9.9.91.1.1.1.1.5"),
    "vmVlan": _oid("1.3.6.1.4.1.9.9.68.1.2.2.1.2"),
    "cpeExtPsePortPwrConsumption": _oid("1.3.6.1.4.1.9.9.402.1.2.1.9"),
}
"""What Cisco has beside, or instead of, the standard."""

BRIDGE = {
    "dot1dBasePortIfIndex": _oid("1.3.6.1.2.1.17.1.4.1.2"),
    "dot1dStpTopChanges": _oid("1.3.6.1.2.1.17.2.4"),
    "dot1dStpPortState": _oid("1.3.6.1.2.1.17.2.15.1.3"),
    "dot1qPvid": _oid("1.3.6.1.2.1.17.7.1.4.5.1.1"),
}
"""The bridge. IOS shows that of one VLAN, which the community names: `community@10`."""
