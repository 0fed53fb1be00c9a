"""Ask an NTP server for the time: how far it is from this machine's, and its stratum."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

SINCE_1900_SECONDS = 2_208_988_800
PORT = 123
ASK = b"\x23" + bytes(47)
"""Version 4, from a client."""

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(10)
    client.connect((sys.argv[1], PORT))
    client.send(ASK)
    answer = client.recv(100)
seconds = struct.unpack("!I", answer[40:44])[0] - SINCE_1900_SECONDS
print(json.dumps({"offset_seconds": seconds - time.time(), "stratum": answer[1]}))
