"""`fleetctl data`: data sets in checksummed shards, prepared once, replaced at one moment."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from fleetctl.cli.main import cli
from fleetctl.provision import data, shards
from trainer.data import load
from trainer.formats import DataManifest


def test_digits_are_whole_and_shuffled(tmp_path) -> None:
    digits, changed = data.add(data.Wish("digits", seed=3), tmp_path)
    assert changed
    assert (digits.train_samples, digits.test_samples, digits.classes) == (1438, 359, 10)
    loaded = load(tmp_path / "digits")
    assert loaded.train.images.shape == (1438, 1, 8, 8)
    assert (loaded.train.images[:].min(), loaded.train.images[:].max()) == (0.0, 1.0)
    # In file order the last fifth would hardly have other counts than the first.
    assert np.bincount(loaded.test.labels, minlength=10).min() > 20


def test_no_sample_is_lost_or_in_both_splits(tmp_path) -> None:
    from sklearn.datasets import load_digits

    data.add(data.Wish("digits"), tmp_path)
    loaded = load(tmp_path / "digits")
    images = np.concatenate([loaded.train.images[:], loaded.test.images[:]])
    source = load_digits().images[:, np.newaxis] / 16
    assert sorted(i.tobytes() for i in images) == sorted(
        i.tobytes() for i in source.astype(np.float32)
    )


def test_adding_again_changes_nothing(tmp_path) -> None:
    data.add(data.Wish("digits"), tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert data.add(data.Wish("digits"), tmp_path)[1] is False
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before


def test_the_seed_is_recorded_and_decides_the_split(tmp_path) -> None:
    data.add(data.Wish("digits"), tmp_path)
    first = load(tmp_path / "digits").test.labels
    assert data.add(data.Wish("digits", seed=1), tmp_path)[1] is True
    assert DataManifest.read(tmp_path / "digits" / "manifest.json").seed == 1
    assert first.tolist() != load(tmp_path / "digits").test.labels.tolist()


def test_a_damaged_shard_is_named_and_add_repairs_it(tmp_path) -> None:
    data.add(data.Wish("digits"), tmp_path)
    shard = tmp_path / "digits" / "train-001.shard"
    shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    (listed,) = data.list_all(tmp_path)
    assert "train-001.shard: corrupt: expected sha256" in (listed.problem or "")
    assert data.add(data.Wish("digits"), tmp_path)[1] is True
    assert data.list_all(tmp_path)[0].problem is None


def test_a_full_disk_leaves_the_old_data_set(tmp_path, monkeypatch) -> None:
    data.add(data.Wish("digits"), tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "train-000.shard")

    monkeypatch.setattr(shards, "write_shard", full)
    with pytest.raises(data.DataSetError, match=r"train-000.shard: No space left on device"):
        data.add(data.Wish("digits", seed=1), tmp_path)
    assert data.list_all(tmp_path)[0].seed == 0
    assert [path.name for path in tmp_path.iterdir()] == ["digits"]


def fleetctl(*arguments: str):
    return CliRunner().invoke(cli, ["--rack", "inventory/standin.yml", *arguments])


def test_the_command_lists_as_json(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    added = json.loads(fleetctl("data", "add", "digits", "-o", "json").stdout)
    assert added["changed"] is True
    listed = json.loads(fleetctl("data", "list", "-o", "json").stdout)
    assert listed["data"] == [added["data"]]


def test_an_unknown_data_set_is_bad_input(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path))
    result = fleetctl("data", "add", "imagenet")
    assert isinstance(result.exception, data.SourceError)
    assert result.exception.exit_code == 2
    assert "imagenet: no such data set comes with fleetctl, which has digits" in str(
        result.exception
    )
