"""Phones that throttle are left alone, longer each time."""

from __future__ import annotations

import asyncio

from loopback_phones import Loopback

from fleetctl.remote import faults
from fleetctl.remote.faults import Fault
from fleetctl.remote.pauses import FIRST_SECONDS, LONGEST_SECONDS, Pauses

THROTTLED = faults.throttled("phone001", "10.0.0.1")


def test_each_pause_is_twice_the_last_up_to_a_bound() -> None:
    pauses, now, lengths = Pauses(), 0.0, []
    for _ in range(8):
        assert not pauses.holds("phone001", now)
        pauses.failed(THROTTLED, now)
        assert pauses.holds("phone001", now)
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
        assert not pauses.holds("phone001", 0.0)
        assert not pauses.holds("phone002", 0.0)


def test_a_phone_that_throttles_is_not_asked_again_at_once(loopback: Loopback) -> None:
    visits = 0

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        writer.write(b"Not allowed at this time\r\n")
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(answer, loopback.add("phone001"), 0)
        loopback.port = server.sockets[0].getsockname()[1]
        async with server, loopback.fleet() as fleet:
            results = [await fleet.run_on("phone001", "true") for _ in range(3)]
        assert {each.error.fault for each in results if each.error} == {Fault.THROTTLED}
        assert visits == 1

    asyncio.run(scene())
