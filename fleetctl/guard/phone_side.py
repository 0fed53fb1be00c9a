"""What guard does on a phone: ends whatever runs of jobs there, at once."""

from __future__ import annotations

from fleetctl.guard.actions import Outcome
from fleetctl.remote import Result

KILL = (
    # Every process of a run bears its mark in the environment. -z: entries end with a NUL.
    "pids() { grep -lsz '^PHONERACK_RUN=' /proc/[0-9]*/environ | cut -d/ -f3; }; "
    'n=0; while p=$(pids); [ -n "$p" ]; do n=$((n+1)); [ $n -gt 20 ] && break; '
    'kill -KILL $p 2>/dev/null; sleep 0.1; done; echo "left:" $p'
)
"""Again until none is left: what is killed may just have started another. Prints who is left."""

KILL_LIMIT_SECONDS = 5.0


def outcome_of(key: str, result: Result, phone: str) -> Outcome:
    """Whether every process of a run is gone from the phone."""
    if not result.ok:
        return Outcome(key, False, result.failure(phone))
    left = result.stdout.partition("left:")[2].split()
    if left or "left:" not in result.stdout:
        return Outcome(key, False, f"processes {', '.join(left)} do not end")
    return Outcome(key, True)
