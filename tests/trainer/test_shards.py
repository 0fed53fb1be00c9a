"""Reading a data set on a phone: damage is named; order and augmentation are reproducible."""

import dataclasses
from itertools import chain

import numpy as np
import pytest

from fleetctl.provision.data import write_split
from trainer.data import DataError, epoch_order, epoch_shifts, load, share_of_samples, shifted
from trainer.formats import DataManifest


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
    np.testing.assert_array_equal(data.train.images.ravel(), np.arange(40))
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
