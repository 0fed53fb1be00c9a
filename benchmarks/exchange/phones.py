"""Commands and MPI programs on the phones of a rack, by the operator's key."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleetctl.jobs.mpirun import allreduce_parameters
from fleetctl.rack import Rack, RackPaths

FOLDER = "phonerack/bench"
IPERF_SECONDS = 3
_INTERFACE = """import fcntl, socket, struct, sys
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for name in (kind + str(i) for kind in ("eth", "wlan", "usb") for i in range(4)):
    try:  # Android allows this question (SIOCGIFADDR), but no list
        answer = fcntl.ioctl(asking, 0x8915, struct.pack("256s", name.encode()))
    except OSError:
        continue
    if socket.inet_ntoa(answer[20:24]) in sys.argv:
        print(name)
"""
_AS_RANK = (
    "export RANK=$OMPI_COMM_WORLD_RANK; "
    "GLOO_SOCKET_IFNAME=$(python interface.py $HOSTS); export GLOO_SOCKET_IFNAME; "
    'exec "$@"'
)


class Phones:
    """The enrolled phones of a rack, in ring order."""

    def __init__(self, rack: Rack) -> None:
        self.rack, self._paths = rack, RackPaths(rack.name)
        self.names = rack.ring()

    def run(self, name: str, command: str, text: str | None = None) -> str:
        """The output of a shell command on a phone; raises CalledProcessError."""
        done = subprocess.run(
            ["ssh", *self._options(name), self.rack.phones[name].address, command],
            input=text,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        )
        return done.stdout

    def put(self, names: Sequence[str], *files: Path, **texts: str) -> None:
        """Files into the bench folder of phones; `texts` by name, whose `_` stands for a dot."""
        contents = {file.name: file.read_text() for file in files} | {"interface.py": _INTERFACE}
        contents |= {name.replace("_", "."): text for name, text in texts.items()}
        for name in names:
            for file, text in contents.items():
                self.run(name, f"mkdir -p {FOLDER} && cat > {FOLDER}/{file}", text)

    def mpirun(
        self, names: Sequence[str], program: Sequence[str], algorithm: Any = "default"
    ) -> Any:
        """What rank 0 of a Python program in the bench folder prints in its last line of JSON."""
        hosts = ",".join(self.rack.phones[name].address for name in names)
        # As `fleetctl launch` does, of whose line this is the bare part.
        parameters = {"btl_tcp_links": "2", **allreduce_parameters(algorithm)}.items()
        command = [
            *("mpirun", "--host", hosts, "-n", str(len(names)), "--map-by", "ppr:1:node"),
            *(word for name, value in parameters for word in ("--mca", name, value)),
            *("-x", "PYTHONPATH", "-x", "WORLD_SIZE", "-x", "MASTER_ADDR", "-x", "MASTER_PORT"),
            *("-x", "USE_LIBUV", "-x", "HOSTS", "--wdir", f"$HOME/{FOLDER}"),
            *("sh", "-c", _AS_RANK, "rank", "python", *program),
        ]
        line = " ".join(word if word.startswith("$HOME") else shlex.quote(word) for word in command)
        variables = {
            "PYTHONPATH": "$HOME/phonerack/current/python",
            "WORLD_SIZE": str(len(names)),
            "MASTER_ADDR": self.rack.phones[names[0]].address,
            "MASTER_PORT": str(random.randrange(20000, 30000)),  # noqa: S311
            "USE_LIBUV": "0",
            "HOSTS": f'"{hosts.replace(",", " ")}"',
        }
        exports = " ".join(f"{name}={value}" for name, value in variables.items())
        output = self.run(names[0], f"export {exports}; {line}")
        return json.loads([text for text in output.splitlines() if text.startswith("{")][-1])

    def goodput_bytes_per_second(self) -> float:
        """What iperf3 gets from the first phone to the second."""
        client, server = self.names[:2]
        self.run(server, "iperf3 --server --one-off --daemon")
        address = self.rack.phones[server].address
        report = self.run(client, f"iperf3 --client {address} --time {IPERF_SECONDS} --json")
        return float(json.loads(report)["end"]["sum_received"]["bits_per_second"]) / 8

    def _options(self, name: str) -> list[str]:
        settings = {
            "Port": "8022",
            "User": "phone",
            "IdentityFile": self._paths.operator,
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self._paths.known_hosts,
            "HostKeyAlias": name,
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
