"""Checkpoint files: whole or refused by name; the newest valid one is found."""

import pytest
import torch

from trainer import checkpoint
from trainer.checkpoint import CheckpointError
from trainer.formats import ModelSpec

SPEC = ModelSpec("digits-cnn")


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def save(folder, model, iteration, keep=9):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return checkpoint.save(
        folder,
        checkpoint.pack(model, optimizer),
        run="r",
        phone="phone001",
        model=SPEC,
        layout=checkpoint.layout_sha256(model),
        iteration=iteration,
        epoch=0,
        keep=keep,
    )


def load(path, model):
    return checkpoint.load(path, SPEC, checkpoint.layout_sha256(model))


def test_a_state_comes_back_to_the_last_bit(tmp_path, model) -> None:
    path = save(tmp_path, model, 7)
    other = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    loaded = load(path, model)
    checkpoint.unpack(loaded.payload, other, optimizer)
    assert loaded.header.iteration == 7
    assert checkpoint.parameters_sha256(other) == checkpoint.parameters_sha256(model)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda content: content[:-1], r"00000007.ckpt: truncated: \d+ of \d+ bytes"),
        (lambda content: content[:50], r"00000007.ckpt: corrupt header"),
        (lambda content: content[:0], r"00000007.ckpt: corrupt header"),
        (lambda content: content[:-9] + b"X" + content[-8:], r"corrupt: expected sha256"),
        (lambda content: b"\xff" + content, r"corrupt header"),
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, model, damage, complaint) -> None:
    path = save(tmp_path, model, 7)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=complaint):
        load(path, model)


def test_the_newest_valid_one_is_found_and_the_skipped_ones_are_named(tmp_path, model) -> None:
    paths = [save(tmp_path, model, iteration) for iteration in (5, 10, 15)]
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    found, skipped = checkpoint.newest_valid(tmp_path, SPEC, checkpoint.layout_sha256(model))
    assert found is not None
    assert found.path == paths[1]
    assert [paths[2].name in reason for reason in skipped] == [True]


def test_no_checkpoint_at_all_is_no_error_here(tmp_path, model) -> None:
    layout = checkpoint.layout_sha256(model)
    assert checkpoint.newest_valid(tmp_path, SPEC, layout) == (None, [])
    missing = tmp_path / "none.ckpt"
    found, skipped = checkpoint.newest_valid(missing, SPEC, layout)
    assert found is None
    assert "none.ckpt: No such file" in skipped[0]


def test_only_the_newest_are_kept(tmp_path, model) -> None:
    for iteration in (1, 2, 3, 4):
        save(tmp_path, model, iteration, keep=2)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["iteration-00000003.ckpt", "iteration-00000004.ckpt"]


def test_a_full_disk_keeps_the_older_ones(tmp_path, model, monkeypatch) -> None:
    old = save(tmp_path, model, 1)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainer.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, model, 2, keep=1)
    assert list(tmp_path.iterdir()) == [old]
    load(old, model)
