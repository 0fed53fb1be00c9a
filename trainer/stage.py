"""Bring files of a data set to phones, along the chain of their ranks: a pipelined broadcast.

The first phone gets its files from the controller; each phone sends the next one what that lacks,
chunk by chunk as it comes, so that the last phone has all a few chunks after the first. A whole
file that was verified is never sent again, so a broken off staging goes on where it ended.

    mpirun … python -m trainer.stage stage.json
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from trainer.errors import TrainerError
from trainer.exchange.transport import MpiTransport, Transport
from trainer.files import sync_all
from trainer.formats import Final, HeldFile, StagedFile, StagePlan, final_name, write_atomic
from trainer.formats.held import held_file, record, sha256_of
from trainer.report import Terminated, explain, terminating, world_rank
from trainer.store import INCOMING, Store, data_root

_IN_FLIGHT = 16
"""Chunks under way in each direction: MPI moves them only while it is asked, so they must outlast
the moments in which this process does not run."""
_LOOK_AHEAD = 8
"""Files of the controller's that may come out of order."""
_LONGEST_PAUSE_SECONDS = 0.002
_PROGRESS_SECONDS = 1.0


class StageError(TrainerError):
    """Files did not arrive; names the phone that they should have come from."""


class Source:
    """A file to be sent on: what of it is here already may be read."""

    def __init__(self, staged: StagedFile) -> None:
        self.staged, self.here_bytes, self.done_bytes = staged, 0, 0
        self._descriptor = -1

    def open(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, most_bytes: int) -> np.ndarray:
        content = os.pread(self._descriptor, most_bytes, self.done_bytes)
        if not content:
            raise StageError(f"{self.staged.file}: shorter than it was said to be")
        self.done_bytes += len(content)
        if self.done_bytes == self.staged.size_bytes:
            os.close(self._descriptor)
        return np.frombuffer(content, np.uint8)


@dataclass(slots=True)
class _Arrival:
    """A file that is arriving: where it is written, and its checksum so far."""

    staged: StagedFile
    path: Path
    file: Any
    digest: Any
    asked_bytes: int = 0
    come_bytes: int = 0


class Chain:
    """One rank of the chain. `store` is the phone's; only the calling thread uses `transport`."""

    def __init__(self, plan: StagePlan, transport: Transport, store: Store) -> None:
        self._plan, self._transport, self._store = plan, transport, store
        store.part.mkdir(parents=True, exist_ok=True)
        self._rank = transport.rank
        held = store.whole()
        self._wanted = deque(f for f in plan.files if self._rank in f.lacking)
        following = [f for f in plan.files if self._rank + 1 in f.lacking]
        self._outgoing = deque(Source(f) for f in following)
        self._of_file = {source.staged.file: source for source in self._outgoing}
        wanted = {staged.file for staged in self._wanted}
        for source in self._outgoing:
            if source.staged.file not in wanted:
                self._require_held(source, held)
        self._arrivals: deque[_Arrival] = deque()
        self._receiving: deque[tuple[Any, np.ndarray, _Arrival]] = deque()
        self._sending: deque[Any] = deque()
        self._finishing: deque[Future[HeldFile]] = deque()
        self._held: list[HeldFile] = []
        self._disk = ThreadPoolExecutor(1)
        self.received_bytes = 0

    def run(self) -> None:
        """Until everything is here, verified, and sent on. Raises StageError."""
        moved, pause = time.monotonic(), 0.0
        told = 0.0
        while any((self._wanted, self._arrivals, self._finishing, self._outgoing, self._sending)):
            if self._step():
                moved, pause = time.monotonic(), 0.0
            elif time.monotonic() - moved > self._plan.patience_seconds:
                raise self._given_up()
            else:
                pause = min(pause + 0.0001, _LONGEST_PAUSE_SECONDS)
                time.sleep(pause)
            if time.monotonic() - told > _PROGRESS_SECONDS:
                told = time.monotonic()
                text = f"{self.received_bytes}\n".encode()
                write_atomic(f"rank-{self._rank}.bytes", text, durable=False)
        self._disk.shutdown()
        # Once, at the end: what is broken off is read again, and so verified, by the next survey.
        sync_all(self._store.part)
        record(self._store.part, self._held)

    def _step(self) -> bool:
        """One round of everything that does not wait; whether anything moved."""
        self._transport.progress()
        came = self._take_files() if self._rank == 0 else self._receive()
        return any([came, self._finish(), self._send()])

    # --- in ---

    def _take_files(self) -> bool:
        """The first rank: files of the controller's appear whole, in about their order."""
        moved = False
        for staged in list(islice(self._wanted, _LOOK_AHEAD)):
            path = self._store.part / staged.file
            if path.exists():
                self._wanted.remove(staged)
                self._finishing.append(self._disk.submit(_verified, path, staged))
                self.received_bytes += staged.size_bytes
                if staged.file in self._of_file:
                    self._of_file[staged.file].open(path)
                    self._of_file[staged.file].here_bytes = staged.size_bytes
                moved = True
        return moved

    def _receive(self) -> bool:
        moved = False
        while len(self._receiving) < _IN_FLIGHT and self._ask():
            moved = True
        while self._receiving and self._transport.done(self._receiving[0][0]):
            _, chunk, arrival = self._receiving.popleft()
            self._write(arrival, chunk)
            moved = True
        return moved

    def _ask(self) -> bool:
        """Post the next receive; the neighbour sends the same files in the same chunks."""
        if not self._arrivals or self._arrivals[-1].asked_bytes == (
            self._arrivals[-1].staged.size_bytes
        ):
            if not self._wanted:
                return False
            self._begin(self._wanted.popleft())
        arrival = self._arrivals[-1]
        length = min(self._plan.chunk_bytes, arrival.staged.size_bytes - arrival.asked_bytes)
        chunk = np.empty(length, np.uint8)
        message = self._transport.receive(chunk, self._rank - 1)
        self._receiving.append((message, chunk, arrival))
        arrival.asked_bytes += length
        return True

    def _begin(self, staged: StagedFile) -> None:
        path = self._store.part / f"{staged.file}{INCOMING}"
        arrival = _Arrival(staged, path, path.open("wb"), hashlib.sha256())
        self._arrivals.append(arrival)
        if staged.file in self._of_file:
            self._of_file[staged.file].open(path)

    def _write(self, arrival: _Arrival, chunk: np.ndarray) -> None:
        arrival.file.write(chunk.data)
        arrival.file.flush()  # to be read again, for the next phone
        arrival.digest.update(chunk.data)
        arrival.come_bytes += len(chunk)
        self.received_bytes += len(chunk)
        if arrival.staged.file in self._of_file:
            self._of_file[arrival.staged.file].here_bytes = arrival.come_bytes
        if arrival.come_bytes == arrival.staged.size_bytes:
            self._arrivals.popleft()
            self._finishing.append(self._disk.submit(_finished, arrival))

    def _finish(self) -> bool:
        """What was verified; raises StageError for what arrived damaged."""
        moved = False
        while self._finishing and self._finishing[0].done():
            self._held.append(self._finishing.popleft().result())
            moved = True
        return moved

    # --- out ---

    def _require_held(self, source: Source, held: dict[str, Path]) -> None:
        name = source.staged.file
        if name not in held:
            raise StageError(
                f"{name} was here when it was looked for, and is no more; launch again"
            )
        source.open(held[name])
        source.here_bytes = source.staged.size_bytes

    def _send(self) -> bool:
        moved = False
        while self._outgoing and len(self._sending) < _IN_FLIGHT:
            source = self._outgoing[0]
            chunk_bytes, size_bytes = self._plan.chunk_bytes, source.staged.size_bytes
            length = min(chunk_bytes, size_bytes - source.done_bytes)
            if source.here_bytes - source.done_bytes < length:
                break
            self._sending.append(self._transport.send(source.read(length), self._rank + 1))
            if source.done_bytes == size_bytes:
                self._outgoing.popleft()
            moved = True
        while self._sending and self._transport.done(self._sending[0]):
            self._sending.popleft()
            moved = True
        return moved

    def _given_up(self) -> StageError:
        phones, seconds = self._plan.phones, self._plan.patience_seconds
        if self._sending:
            return StageError(f"{phones[self._rank + 1]} has taken nothing for {seconds:g} s")
        source = phones[self._rank - 1] if self._rank else "the controller"
        return StageError(f"nothing has come from {source} for {seconds:g} s")


def _finished(arrival: _Arrival) -> HeldFile:
    """Verified, under its own name."""
    staged = arrival.staged
    arrival.file.close()
    if arrival.digest.hexdigest() != staged.sha256:
        arrival.path.unlink()
        raise StageError(f"{staged.file} arrived damaged: its checksum is not the manifest's")
    path = arrival.path.with_name(staged.file)
    arrival.path.replace(path)
    return held_file(path, staged.sha256)


def _verified(path: Path, staged: StagedFile) -> HeldFile:
    """The same for a file that came from the controller as a whole."""
    if sha256_of(path) != staged.sha256:
        path.unlink()
        raise StageError(f"{staged.file} came damaged from the controller; launch again")
    return held_file(path, staged.sha256)


def _staged(plan: StagePlan) -> str | None:
    """Why it failed, if it did."""
    try:
        transport = MpiTransport(plan.phones)
        if transport.size != len(plan.phones):
            raise StageError(f"{len(plan.phones)} phones and {transport.size} ranks")
        store = Store(data_root(), plan.order)
        Chain(plan, transport, store).run()
        store.place(plan.order.files)
        transport.close()
    except (Exception, Terminated) as error:
        print(f"rank {world_rank()}: {explain(error)}", file=sys.stderr, flush=True)
        return explain(error)
    return None


def main() -> int:
    """The exit status; what counts is the final record that every rank writes."""
    parser = argparse.ArgumentParser(prog="python -m trainer.stage", description=__doc__)
    parser.add_argument("plan", type=Path)
    plan = StagePlan.read(parser.parse_args().plan)
    with terminating():
        reason = _staged(plan)
        rank = world_rank()
        Final(
            run=plan.run,
            rank=rank,
            phone=plan.phones[rank],
            status="done" if reason is None else "failed",
            reason=reason,
            iteration=0,
            test_accuracy=None,
            parameters_sha256=None,
        ).write(final_name(rank))
    return 0 if reason is None else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # A neighbour that is lost must not hold up the end.
    os._exit(status)
