"""Files along a chain of phones: each arrives whole and once, and what is there is not sent."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, on_all_ranks

from fleetctl.provision.shards import write_split
from trainer.formats import MANIFEST, DataManifest, StagedFile, StagePlan, StoreOrder
from trainer.stage import Chain, StageError
from trainer.store import Store


class Counting(Loopback):
    """Counts what is sent. Messages queue up as they may in MPI."""

    sent_bytes = 0

    def send(self, data: np.ndarray, peer: int) -> bool:
        self.sent_bytes += data.nbytes
        return super().send(data, peer)


def a_set(folder: Path, lengths: list[int]) -> StoreOrder:
    """A data set on the controller whose shards have these numbers of samples."""
    folder.mkdir()
    images = np.random.default_rng(3).integers(0, 256, (sum(lengths), 1, 5, 5), np.uint8)
    shards, start = [], 0
    for number, length in enumerate(lengths):
        part = slice(start, start + length)
        (shard,) = write_split(folder, f"n{number}", images[part], np.zeros(length, int), length)
        shards.append(shard)
        start += length
    manifest = DataManifest("d", 2, (1, 5, 5), "uint8", 0, tuple(shards), ())
    manifest.write(folder / MANIFEST)
    return StoreOrder("d", (folder / MANIFEST).read_text())


def stores(home: Path, order: StoreOrder, ranks: int) -> list[Store]:
    found = [Store(home / f"phone{rank}", order) for rank in range(ranks)]
    for store in found:
        store.prepare()
        store.part.mkdir(parents=True, exist_ok=True)
    return found


def chain_plan(source: Path, found: list[Store], order: StoreOrder, **options: Any) -> StagePlan:
    held = [store.whole() for store in found]
    files = []
    for shard in found[0].manifest.shards:
        lacking = tuple(rank for rank, whole in enumerate(held) if shard.file not in whole)
        if lacking:
            size = (source / shard.file).stat().st_size
            files.append(StagedFile(shard.file, size, shard.sha256, lacking))
    phones = tuple(f"phone{rank}" for rank in range(len(found)))
    return StagePlan("run", phones, order, tuple(files), **options)


def feed(source: Path, plan: StagePlan, head: Store) -> None:
    """As the controller does: beside, then in one moment."""
    for staged in plan.files:
        if 0 in staged.lacking:
            shutil.copy(source / staged.file, head.part / ".beside")
            (head.part / ".beside").rename(head.part / staged.file)


def run_chain(source: Path, plan: StagePlan, found: list[Store]) -> list[int]:
    """How many bytes each rank received."""
    feeding = threading.Thread(target=feed, args=(source, plan, found[0]))
    feeding.start()

    def work(transport: Loopback) -> int:
        chain = Chain(plan, transport, found[transport.rank])
        chain.run()
        return chain.received_bytes

    try:
        return on_all_ranks(len(found), work)
    finally:
        feeding.join()


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    ranks=st.integers(1, 4),
    chunk_bytes=st.sampled_from([7, 64, 512, 1 << 20]),
    data=st.data(),
)
def test_whatever_each_holds_already_all_have_all_and_nothing_is_sent_twice(
    lengths, ranks, chunk_bytes, data
) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        source = home / "controller"
        order = a_set(source, lengths)
        found = stores(home, order, ranks)
        for store in found:
            for shard in store.manifest.shards:
                if data.draw(st.booleans()):
                    shutil.copy(source / shard.file, store.part / shard.file)
        plan = chain_plan(source, found, order, chunk_bytes=chunk_bytes)
        received = run_chain(source, plan, found)
        lacking = [
            sum(f.size_bytes for f in plan.files if rank in f.lacking) for rank in range(ranks)
        ]
        assert received == lacking
        files = [shard.file for shard in found[0].manifest.shards]
        for store in found:
            store.place(files)
            assert store.survey().placed
            assert not store.part.exists()
            for file in [*files, MANIFEST]:
                assert (store.folder / file).read_bytes() == (source / file).read_bytes()


def test_a_file_that_is_damaged_on_the_way_is_not_kept_and_the_rerun_brings_it(tmp_path) -> None:
    source = tmp_path / "controller"
    order = a_set(source, [20, 20])
    found = stores(tmp_path, order, 2)
    plan = chain_plan(source, found, order)
    last = plan.files[1]
    wrong = hashlib.sha256(b"").hexdigest()
    expecting = StagePlan(
        plan.run,
        plan.phones,
        order,
        (plan.files[0], StagedFile(last.file, last.size_bytes, wrong, (1,))),
        patience_seconds=5,
    )
    shutil.copy(source / last.file, found[0].part / last.file)
    with pytest.raises(StageError, match="arrived damaged"):
        run_chain(source, expecting, found)
    again = chain_plan(source, found, order)
    assert [(f.file, f.lacking) for f in again.files] == [(last.file, (1,))]
    run_chain(source, again, found)
    assert chain_plan(source, found, order).files == ()


def test_what_a_broken_off_staging_left_is_whole_or_gone(tmp_path) -> None:
    source = tmp_path / "controller"
    order = a_set(source, [20, 20, 20])
    (store,) = stores(tmp_path, order, 1)
    first, second, third = (shard.file for shard in store.manifest.shards)
    shutil.copy(source / first, store.part / first)
    (store.part / f"{second}.incoming").write_bytes(b"half")
    (store.part / f".{third}.abcd.part").write_bytes(b"half")
    (store.part / third).write_bytes((source / third).read_bytes()[:-5])
    older = store.part.with_name(f".d.{'0' * 16}.part")
    older.mkdir()
    store.prepare()
    store.part.mkdir(parents=True, exist_ok=True)
    assert not older.exists()
    assert store.survey().whole == (first,)
    assert sorted(path.name for path in store.part.iterdir()) == [".held.json", first, third]


def test_a_silent_neighbour_is_named(tmp_path) -> None:
    source = tmp_path / "controller"
    order = a_set(source, [20])
    found = stores(tmp_path, order, 2)
    plan = chain_plan(source, found, order, patience_seconds=0.2)

    def work(transport: Loopback) -> str:
        with pytest.raises(StageError) as caught:
            Chain(plan, transport, found[transport.rank]).run()
        return str(caught.value)

    assert on_all_ranks(2, work) == [
        "nothing has come from the controller for 0.2 s",
        "nothing has come from phone0 for 0.2 s",
    ]


def test_a_file_that_vanished_since_it_was_looked_for_is_named(tmp_path) -> None:
    source = tmp_path / "controller"
    order = a_set(source, [20])
    found = stores(tmp_path, order, 2)
    (shard,) = found[0].manifest.shards
    shutil.copy(source / shard.file, found[0].part / shard.file)
    plan = chain_plan(source, found, order, patience_seconds=0.2)
    (found[0].part / shard.file).unlink()
    with pytest.raises(StageError, match=f"{shard.file} was here when it was looked for"):
        run_chain(source, plan, found)
