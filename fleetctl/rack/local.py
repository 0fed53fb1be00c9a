"""This machine's own place in the rack's network."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network


def address_inside(cidr: IPv4Network) -> str | None:
    """The address by which this machine reaches `cidr`, or None if it lies outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket asks the routing table and sends nothing.
            probe.connect((str(cidr.network_address + 1), 9))
        except OSError:
            return None
        own = probe.getsockname()[0]
    return own if IPv4Address(own) in cidr else None
