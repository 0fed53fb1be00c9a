"""Reading a data set on a phone: damage is named; order and augmentation are reproducible."""

import dataclasses
import os
import tracemalloc
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.provision.shards import write_split
from trainer.data import (
    DataError,
    epoch_order,
    epoch_shifts,
    load,
    samples_alone,
    share_of_samples,
    share_order,
    shifted,
)
from trainer.formats import (
    HELD,
    DataManifest,
    DataSpec,
    Exchange,
    ModelSpec,
    OptimizerSpec,
    Plan,
    held_samples,
    needed_shards,
)
from trainer.shares import equal_shares, largest_remainder, part_of


def a_plan(*samples: int, **changes: object) -> Plan:
    plan = Plan(
        run="test",
        phones=tuple(f"phone{rank:03d}" for rank in range(len(samples))),
        samples_per_rank=samples,
        model=ModelSpec("digits-cnn"),
        data=DataSpec("tiny", "tiny", stage="share"),
        epochs=1,
        optimizer=OptimizerSpec("sgd", {"lr": 0.1}),
    )
    return dataclasses.replace(plan, **changes)


@pytest.fixture
def folder(tmp_path):
    """Ten samples in shards of 4, 4 and 2."""
    images = np.arange(10 * 4, dtype=np.float32).reshape(10, 1, 2, 2)
    labels = np.arange(10) % 3
    DataManifest(
        name="tiny",
        classes=3,
        shape=(1, 2, 2),
        dtype="float32",
        seed=0,
        train=write_split(tmp_path, "train", images, labels, 4),
        test=write_split(tmp_path, "test", images[:3], labels[:3], 4),
    ).write(tmp_path / "manifest.json")
    return tmp_path


def test_uneven_shards_make_one_whole(folder) -> None:
    data = load(folder)
    np.testing.assert_array_equal(data.train.images[:].ravel(), np.arange(40))
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert len(data.test) == 3


@pytest.mark.parametrize("cut", [slice(0, -1), slice(0, 10), slice(0, 0)])
def test_a_truncated_shard_is_named_with_both_checksums(folder, cut) -> None:
    shard = folder / "train-001.shard"
    shard.write_bytes(shard.read_bytes()[cut])
    with pytest.raises(
        DataError, match=r"train-001.shard: corrupt: expected sha256 \w{64}, found \w{64}. Run"
    ):
        load(folder)


def test_one_flipped_bit_is_found(folder) -> None:
    shard = folder / "test-000.shard"
    content = bytearray(shard.read_bytes())
    content[-20] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DataError, match=r"test-000.shard: corrupt"):
        load(folder)


def test_a_missing_shard_or_data_set_is_named_with_the_cure(folder, tmp_path) -> None:
    (folder / "train-002.shard").unlink()
    with pytest.raises(DataError, match=r"train-002.shard: no such file. Run `fleetctl data add"):
        load(folder)
    with pytest.raises(DataError, match=r"nowhere/manifest.json: no such file"):
        load(tmp_path / "nowhere")


def test_a_label_out_of_range_is_refused(folder) -> None:
    manifest = DataManifest.read(folder / "manifest.json")
    dataclasses.replace(manifest, classes=2).write(folder / "manifest.json")
    with pytest.raises(DataError, match=r"train-000.shard: label 2 is not in 0..1"):
        load(folder)


def test_a_shard_of_another_shape_is_refused(folder) -> None:
    manifest = DataManifest.read(folder / "manifest.json")
    dataclasses.replace(manifest, shape=(1, 4, 1)).write(folder / "manifest.json")
    with pytest.raises(DataError, match=r"header .* is not what manifest.json says"):
        load(folder)


def test_images_are_read_batch_by_batch_as_their_file_has_them(tmp_path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (600, 3, 64, 64), np.uint8)
    labels = np.arange(600) % 7
    DataManifest(
        name="large",
        classes=7,
        shape=(3, 64, 64),
        dtype="uint8",
        seed=0,
        train=write_split(tmp_path, "train", images, labels, 77),
        test=write_split(tmp_path, "test", images[:5], labels[:5], 77),
    ).write(tmp_path / "manifest.json")
    tracemalloc.start()
    train = load(tmp_path).train
    samples = np.array([599, 3, 3, 76, 77, 400])
    batch = train.images[samples]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.dtype == np.float32
    np.testing.assert_array_equal(batch, images[samples] / np.float32(255))
    assert peak_bytes < images.nbytes / 4
    chosen = train.take(samples).take(np.array([5, 0]))
    np.testing.assert_array_equal(chosen.images[:], images[[400, 599]] / np.float32(255))
    assert chosen.labels.tolist() == [1, 4]


def test_a_shard_that_did_not_change_is_not_read_again_and_one_that_did_is(folder) -> None:
    load(folder)
    shard = folder / "train-001.shard"
    whole = shard.read_bytes()
    before = shard.stat()
    shard.write_bytes(whole[:-1] + b"\x7f")
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    # Labels are always looked at; this one is trusted, but not in range.
    with pytest.raises(DataError, match=r"label .* is not in 0\.\.2"):
        load(folder)
    os.utime(shard)
    with pytest.raises(DataError, match="corrupt: expected sha256"):
        load(folder)


@pytest.mark.parametrize("record", ["", "{}", '{"files": 3}', "[]"])
def test_a_damaged_record_is_no_record(folder, record) -> None:
    (folder / HELD).write_text(record)
    (folder / "train-001.shard").write_bytes(b"")
    with pytest.raises(DataError, match="corrupt"):
        load(folder)


def test_a_phone_may_hold_its_own_samples_only(folder) -> None:
    plan = a_plan(3, 5, 2)
    manifest = DataManifest.read(folder / "manifest.json")
    everything = load(folder)
    needed = {shard.file for shard in needed_shards(manifest, plan, 0)}
    assert needed == {"train-000.shard", "test-000.shard"}
    for path in folder.glob("*.shard"):
        if path.name not in needed:
            path.unlink()
    part = load(folder, plan, 0)
    own = held_samples(10, plan.samples_per_rank, 0)
    np.testing.assert_array_equal(part.train.images[own], everything.train.images[own])
    assert part.train.labels.tolist() == [0, 1, 2, 0, *[-1] * 6]
    with pytest.raises(DataError, match="sample 4 is in shard 1, which is not on this phone"):
        part.train.images[np.array([0, 4])]
    with pytest.raises(DataError, match=r"train-001.shard: no such file"):
        load(folder, plan, 1)
    with pytest.raises(DataError, match=r"train-001.shard: no such file"):
        load(folder)


SHARES = st.lists(st.integers(0, 9), min_size=1, max_size=7).filter(any)


@given(samples=st.integers(1, 120), shares=SHARES, seed=st.integers(0, 9), epoch=st.integers(0, 3))
def test_phones_with_a_share_each_see_every_sample_once_and_only_their_own(
    samples, shares, seed, epoch
) -> None:
    order = share_order(samples, seed, epoch, shares)
    assert sorted(order) == list(range(samples))
    size = sum(shares)
    for start in range(0, samples, size):
        # As the loop deals a batch to the ranks.
        batch = order[start : start + size]
        dealt = largest_remainder(len(batch), shares)
        for rank in range(len(shares)):
            held = held_samples(samples, shares, rank)
            assert all(held.start <= s < held.stop for s in batch[part_of(dealt, rank)])


@given(samples=st.integers(1, 120), shares=SHARES, lengths=st.lists(st.integers(1, 40)))
def test_a_share_of_shards_holds_what_its_phone_trains_on_and_tests(
    samples, shares, lengths
) -> None:
    class S:
        def __init__(self, number: int, samples: int) -> None:
            self.file, self.samples = f"{number}", samples

    lengths = [*lengths, samples]
    train = tuple(S(number, length) for number, length in enumerate(lengths))
    manifest = DataManifest("m", 2, (1, 1, 1), "uint8", 0, train, train)  # type: ignore[arg-type]
    total = sum(lengths)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    for rank in range(len(shares)):
        held = [s.file for s in needed_shards(manifest, a_plan(*shares), rank)]
        own = {f"{n}" for n in owner[held_samples(total, shares, rank)]}
        tested = {f"{n}" for n in owner[part_of(equal_shares(total, len(shares)), rank)]}
        assert sorted(held) == sorted([*own, *tested])


def test_phones_alone_with_a_share_train_on_it_and_test_on_all(folder) -> None:
    plan = a_plan(1, 1, exchange=Exchange(enabled=False))
    assert [samples_alone(plan, 10, rank).tolist() for rank in (0, 1)] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
    ]
    manifest = DataManifest.read(folder / "manifest.json")
    files = [shard.file for shard in needed_shards(manifest, plan, 1)]
    assert files == ["train-001.shard", "train-002.shard", "test-000.shard"]


def test_the_order_of_a_share_follows_from_seed_and_epoch() -> None:
    first = share_order(50, 7, 2, (3, 4))
    np.testing.assert_array_equal(first, share_order(50, 7, 2, (3, 4)))
    assert first.tolist() != share_order(50, 7, 3, (3, 4)).tolist()
    assert first.tolist() != share_order(50, 8, 2, (3, 4)).tolist()


def test_the_order_follows_from_seed_and_epoch() -> None:
    first = epoch_order(50, seed=7, epoch=2)
    assert sorted(first) == list(range(50))
    np.testing.assert_array_equal(first, epoch_order(50, seed=7, epoch=2))
    assert first.tolist() != epoch_order(50, seed=7, epoch=3).tolist()
    assert first.tolist() != epoch_order(50, seed=8, epoch=2).tolist()


def test_phones_that_train_alone_share_out_all_samples() -> None:
    parts = [share_of_samples(11, 0, (2, 1, 1), rank).tolist() for rank in range(3)]
    assert [len(part) for part in parts] == [5, 3, 3]
    assert sorted(chain.from_iterable(parts)) == list(range(11))


def test_a_sample_is_shifted_alike_wherever_it_is_computed() -> None:
    images = np.random.default_rng(0).random((20, 2, 5, 6), np.float32)
    shifts = epoch_shifts(20, seed=1, epoch=4, pixels=2)
    assert set(np.unique(shifts)) == {-2, -1, 0, 1, 2}
    together = shifted(images, shifts)
    for i in range(20):
        alone = shifted(images[i : i + 1], shifts[i : i + 1])
        np.testing.assert_array_equal(alone[0], together[i])


def test_a_shift_moves_down_and_right_and_fills_with_zero() -> None:
    image = np.array([[[[1, 2], [3, 4]]]], np.float32)
    np.testing.assert_array_equal(shifted(image, np.array([[1, 0]]))[0, 0], [[0, 0], [1, 2]])
    np.testing.assert_array_equal(shifted(image, np.array([[0, 1]]))[0, 0], [[0, 1], [0, 3]])
    np.testing.assert_array_equal(shifted(image, np.array([[-1, -1]]))[0, 0], [[4, 0], [0, 0]])
