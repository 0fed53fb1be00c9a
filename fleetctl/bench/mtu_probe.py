"""Runs on a phone: `python - ADDRESS BYTES`. Does a packet of that payload arrive unfragmented?

Nobody listens at the port, so whoever gets the datagram answers with "port unreachable"; an app
needs no rights to see that. Prints one word: arrives, small (only a small one does), local (this
phone's own MTU is too small), silent (not even a small one is answered).
"""

import socket
import sys

_PORT = 33999
_TRIES = 3
_LIMIT_SECONDS = 1.0
_MTU_DISCOVER, _DO = 10, 2  # Linux's, which Python does not name everywhere
_TOO_LONG, _UNREACHABLE = 90, (101, 113)


def answered(address: str, size_bytes: int) -> bool:
    """Whether a datagram of so many bytes was answered. Raises OSError if it cannot be sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.setsockopt(socket.IPPROTO_IP, _MTU_DISCOVER, _DO)
        probe.settimeout(_LIMIT_SECONDS)
        probe.connect((address, _PORT))
        for _ in range(_TRIES):
            try:
                probe.send(bytes(size_bytes))
                probe.recv(1)
            except ConnectionRefusedError:
                return True
            except TimeoutError:
                continue
            except OSError as problem:
                if problem.errno not in _UNREACHABLE:
                    raise
    return False


def main(address: str, size_bytes: int) -> str:
    if not answered(address, 1):
        return "silent"
    try:
        return "arrives" if answered(address, size_bytes) else "small"
    except OSError as problem:
        if problem.errno == _TOO_LONG:
            return "local"
        raise


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2])))
