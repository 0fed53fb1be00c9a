"""Phones that throttle are left alone, longer each time."""

from __future__ import annotations

from fleetctl.remote import faults
from fleetctl.remote.pauses import FIRST_SECONDS, LONGEST_SECONDS, Pauses

THROTTLED = faults.throttled("phone001", "10.0.0.1")


def test_each_pause_is_twice_the_last_up_to_a_bound() -> None:
    pauses, now, lengths = Pauses(), 0.0, []
    for _ in range(8):
        assert pauses.holds("phone001", now) is None
        pauses.failed(THROTTLED, now)
        assert pauses.holds("phone001", now) is THROTTLED
        start = now
        while pauses.holds("phone001", now):
            now += 0.5
        lengths.append(now - start)
    assert lengths[:4] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS, 8 * FIRST_SECONDS]
    assert lengths[-1] == LONGEST_SECONDS


def test_a_phone_that_lets_us_in_or_fails_otherwise_is_asked_as_before() -> None:
    pauses = Pauses()
    for end in (
        lambda: pauses.succeeded("phone001"),
        lambda: pauses.failed(faults.lost("phone001"), 0.0),
    ):
        pauses.failed(THROTTLED, 0.0)
        end()
        assert pauses.holds("phone001", 0.0) is None
        assert pauses.holds("phone002", 0.0) is None
