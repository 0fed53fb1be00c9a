"""MPI hello: rank 0 prints what every rank says about itself, one JSON object a line.

Runs on the phones by `python -c`, with the release's own way to MPI.
"""

import json
import os
import subprocess
import time
from pathlib import Path

import numpy as np

from trainer.exchange.transport import MpiTransport

RECORD_BYTES = 1024
WAIT_SECONDS = 0.005
PACKAGES = ("openmpi", "python", "python-numpy", "python-torch", "python-torchvision")


def versions(prefix: Path, home: Path) -> dict[str, str]:
    """What has to be equal on all phones of a run."""
    argv = [prefix / "bin/dpkg-query", "-W", "-f", "${Package}\t${Version}\n", *PACKAGES]
    # It ends with 1 where one is not installed: a rack may do without torch.
    said = subprocess.run(argv, check=False, capture_output=True, text=True).stdout
    manifest = json.loads((home / "phonerack/current/manifest.json").read_text())
    packages = dict(line.split("\t") for line in said.splitlines())
    return packages | {"release": manifest["version"]}


def record() -> bytes:
    prefix, home = Path(os.environ["PREFIX"]), Path(os.environ["HOME"])
    identity = json.loads((prefix / "etc/phonerack/phone.json").read_text())
    mine = {"phone": identity["name"], "versions": versions(prefix, home)}
    return json.dumps(mine).encode().ljust(RECORD_BYTES)


def exchange(mpi: MpiTransport, mine: bytes) -> list[bytes]:
    """The records of all ranks on rank 0, nothing on the others."""
    buffers = [np.frombuffer(bytearray(mine), np.uint8)]
    if mpi.rank == 0:
        buffers += [np.empty(RECORD_BYTES, np.uint8) for _ in range(1, mpi.size)]
        pending = [mpi.receive(buffer, peer) for peer, buffer in enumerate(buffers) if peer]
    else:
        pending = [mpi.send(buffers[0], 0)]
    while not all(mpi.done(message) for message in pending):
        # The others are still being started, and on stand-in phones by the same cores.
        time.sleep(WAIT_SECONDS)
        mpi.progress()
    return [buffer.tobytes() for buffer in buffers] if mpi.rank == 0 else []


def main() -> None:
    mpi = MpiTransport()
    for said in exchange(mpi, record()):
        print(said.decode().strip(), flush=True)
    mpi.close()


main()
