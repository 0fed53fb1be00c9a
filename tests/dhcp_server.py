"""A DHCP server on a stand-in rack's services host, as a router of one's own would be there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path


@contextmanager
def dhcp_server(namespace: str, leases: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Serve `leases` (MAC -> address) beside the services host of the rack `namespace` (pr-NAME).

    It is busybox's udhcpd out of the phones' image, in the network of the services host.
    """
    addresses = sorted(map(IPv4Address, leases.values()))
    configuration = folder / "udhcpd.conf"
    lines = [f"start {addresses[0]}", f"end {addresses[-1]}"]
    lines += ["interface rack0", "lease_file /leases"]
    lines += ["option subnet 255.255.255.0", "option lease 3600"]
    lines += [f"static_lease {mac} {address}" for mac, address in leases.items()]
    configuration.write_text("\n".join(lines) + "\n")
    server = f"{namespace}-test-dhcp"
    inspect = ["podman", "inspect", "-f", "{{.ImageName}}", f"{namespace}-phone001"]
    image = subprocess.run(inspect, text=True, capture_output=True, check=True).stdout.strip()
    subprocess.run(
        [
            *("podman", "run", "--detach", "--rm", f"--name={server}", "--user=0"),
            *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
            *("--cap-add=NET_RAW", "--cap-add=NET_ADMIN"),
            f"--network=container:{namespace}-services",
            f"--volume={configuration}:/udhcpd.conf:ro",
            *(image, "/system/bin/sh", "-c"),
            "touch /leases && exec /system/bin/busybox udhcpd -f /udhcpd.conf",
        ],
        check=True,
        capture_output=True,
    )
    try:
        yield
    finally:
        subprocess.run(["podman", "rm", "--force", "--time=0", server], capture_output=True)
