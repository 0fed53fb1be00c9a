"""What OpenSSH's client says when it does not get through, as our own sentence with its cure."""

from __future__ import annotations

import re

from fleetctl.remote import faults
from fleetctl.remote.faults import PhoneError

_SILENCE = re.compile(
    r"Connection timed out|No route to host|Network is unreachable|Host is down", re.IGNORECASE
)
_LOST = re.compile(r"Connection reset|Connection closed|Broken pipe|not responding", re.IGNORECASE)


def explain(phone: str, address: str, said: str) -> PhoneError:
    """The sentence for ssh's last words, which Ansible hands on.

    ssh's own advice, to remove the known key, is never repeated: whoever answers has to be found
    out first.
    """
    if "REVOKED HOST KEY" in said or "revoked by file" in said:
        return faults.key_revoked(phone, address)
    if "IDENTIFICATION HAS CHANGED" in said:
        return faults.key_changed(phone, address)
    if re.search(r"No \S+ host key is known", said):
        return faults.not_enrolled(phone, "the rack's known_hosts")
    if "Host key verification failed" in said:
        return faults.key_changed(phone, address)
    if any(line.decode() in said for line in faults.THROTTLE_LINES):
        return faults.throttled(phone, address)
    if "Permission denied" in said:
        return faults.refused_key(phone, address)
    if "Connection refused" in said:
        return faults.refused(phone, address)
    if found := _SILENCE.search(said):
        return faults.unreachable(phone, address, found[0].lower())
    if _LOST.search(said):
        return faults.lost(phone)
    last = (said.strip().splitlines() or ["ssh said nothing"])[-1]
    return faults.failed(phone, address, last)
