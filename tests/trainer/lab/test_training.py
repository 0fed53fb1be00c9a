"""Whole runs: equal to one process, resumable, accurate, and honest about failure."""

import dataclasses
import os
import shutil
import signal
import time
from pathlib import Path

import mpi
import pytest
import torch

from trainer.formats import (
    CheckpointSpec,
    Exchange,
    Final,
    OptimizerSpec,
    Plan,
    StartEvent,
    event_from_json,
)

HERE = Path(__file__).parent


def parameters(run: mpi.Run) -> dict[str, torch.Tensor]:
    """Of the last checkpoint."""
    _, _, payload = run.checkpoints[-1].read_bytes().partition(b"\n")
    (run.folder / "payload").write_bytes(payload)
    state: dict[str, torch.Tensor] = torch.load(run.folder / "payload", weights_only=True)["model"]
    return state


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> mpi.Run:
    """An epoch of batches of 60, the last of which has 58 samples."""
    return mpi.train(mpi.a_plan(60), tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize(
    ("samples", "bucket_bytes"),
    [
        pytest.param((15, 15, 15, 15), "all", marks=pytest.mark.soak),
        ((30, 7, 0, 23), "each"),
        pytest.param((29, 31), 20_000, marks=pytest.mark.soak),
    ],
)
def test_many_phones_equal_one_process(one_process, tmp_path, samples, bucket_bytes) -> None:
    plan = mpi.a_plan(*samples, exchange=Exchange(bucket_bytes=bucket_bytes))
    run = mpi.train(plan, tmp_path)
    assert run.accuracies == pytest.approx(one_process.accuracies * len(samples), abs=0.01)
    assert len({final.parameters_sha256 for final in run.finals}) == 1
    ours, theirs = parameters(run), parameters(one_process)
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-4, atol=1e-5)
    losses = [[event.loss for event in each.events("iteration")] for each in (run, one_process)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


@pytest.mark.parametrize(
    ("exchange", "tolerance"),
    [
        (Exchange(reduce="hierarchical", bucket_bytes=20_000), 1e-4),
        pytest.param(Exchange(reduce="gloo", bucket_bytes=20_000), 1e-4, marks=pytest.mark.soak),
        pytest.param(Exchange(codec="half", bucket_bytes="each"), 3e-2, marks=pytest.mark.soak),
    ],
    ids=["hierarchical", "gloo", "half"],
)
def test_whatever_the_exchange_phones_equal_one_process(
    one_process, tmp_path, exchange, tolerance
) -> None:
    plan = mpi.a_plan(20, 22, 18, exchange=exchange, switches=("a", "a", "b"))
    run = mpi.train(plan, tmp_path)
    assert run.accuracies == pytest.approx(one_process.accuracies * 3, abs=0.03)
    assert len({final.parameters_sha256 for final in run.finals}) == 1
    losses = [[event.loss for event in each.events("iteration")] for each in (run, one_process)]
    assert losses[0] == pytest.approx(losses[1], rel=10 * tolerance)
    ours, theirs = parameters(run), parameters(one_process)
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=tolerance, atol=tolerance / 10)


def test_a_resumed_run_ends_like_an_undisturbed_one(tmp_path) -> None:
    plan = mpi.a_plan(32, 32, epochs=2)
    undisturbed = mpi.train(plan, tmp_path / "whole")
    first = mpi.train(dataclasses.replace(plan, epochs=1), tmp_path / "parts")
    newest = first.checkpoints[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    resumed = mpi.train(dataclasses.replace(plan, resume="checkpoints"), tmp_path / "parts")
    (start,) = (e for e in resumed.events("start")[1:] if isinstance(e, StartEvent))
    assert start.iteration == 20
    assert f"skipped checkpoints/{newest.name}: truncated" in (start.note or "")
    assert resumed.finals[0].parameters_sha256 == undisturbed.finals[0].parameters_sha256


@pytest.mark.soak
def test_a_checkpoint_that_only_another_phone_has_is_enough(tmp_path) -> None:
    """As when the head phone was lost: every rank has a run folder of its own here."""
    plan = mpi.a_plan(64, 64, epochs=2, checkpoint=CheckpointSpec(every_iterations=10, ranks=2))
    program = HERE / "own_folder.py"
    mpi.train(dataclasses.replace(plan, epochs=1), tmp_path, program)
    shutil.rmtree(tmp_path / "rank-0/checkpoints")
    mpi.train(dataclasses.replace(plan, resume="checkpoints"), tmp_path, program)
    finals = [Final.read(tmp_path / f"rank-{i}/rank-{i}.final.json") for i in (0, 1)]
    assert [final.status for final in finals] == ["done", "done"]
    assert finals[0].parameters_sha256 == finals[1].parameters_sha256
    progress = (tmp_path / "rank-0/progress.jsonl").read_text().splitlines()
    starts = [e for e in map(event_from_json, progress) if isinstance(e, StartEvent)]
    assert [start.iteration for start in starts] == [0, 12]


@pytest.mark.soak
def test_the_shipped_job_reaches_its_accuracy_and_phones_alone_stay_below(tmp_path) -> None:
    plan = Plan.read(mpi.SHARED / "digits.json")
    together = mpi.train(plan, tmp_path / "together")
    alone = mpi.train(
        dataclasses.replace(plan, exchange=Exchange(enabled=False)), tmp_path / "alone"
    )
    assert min(together.accuracies) >= 0.985
    assert max(alone.accuracies) < min(together.accuracies) - 0.01
    assert len({final.parameters_sha256 for final in alone.finals}) == len(plan.phones)


@pytest.mark.soak
def test_a_program_trains_its_own_model(tmp_path) -> None:
    plan = Plan.read(mpi.SHARED / "own_model.json")
    run = mpi.train(plan, tmp_path, mpi.PROJECT / "examples/jobs/own_model.py")
    assert min(run.accuracies) > 0.9
    assert f"test accuracy {run.accuracies[0]:.2%}" in run.output


def test_no_rank_evaluates_more_samples_at_a_time_than_it_trains_with(tmp_path) -> None:
    run = mpi.train(mpi.a_plan(30, 8), tmp_path, HERE / "counted_images.py")
    assert run.accuracies[0] == run.accuracies[1]
    assert "rank 0: at most 30\n" in run.output
    assert "rank 1: at most 8\n" in run.output


def failed(run: mpi.Run) -> list[str]:
    """The reasons of all ranks, every one of which must have failed."""
    assert run.status != 0
    assert {final.status for final in run.finals} == {"failed"}
    return [final.reason or "" for final in run.finals]


def test_a_loss_that_is_not_finite_ends_the_run_on_all_ranks(tmp_path) -> None:
    plan = mpi.a_plan(16, 16, optimizer=OptimizerSpec("sgd", {"lr": 1e6}), warmup_iterations=0)
    run = mpi.train(
        dataclasses.replace(plan, checkpoint=CheckpointSpec(every_iterations=1, ranks=2)), tmp_path
    )
    for reason in failed(run):
        assert "is not finite in iteration" in reason
        assert "(phone001)" in reason or "(phone002)" in reason
        assert "last good checkpoint: checkpoints/iteration-" in reason


def test_a_corrupt_shard_names_file_and_checksums(tmp_path, monkeypatch) -> None:
    source, home = mpi.SHARED / "home/phonerack/data/digits", tmp_path / "home"
    copy = home / "phonerack/data/digits"
    copy.mkdir(parents=True)
    for path in source.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    with (copy / "train-001.shard").open("r+b") as file:
        file.seek(5000)
        file.write(b"XXXX")
    monkeypatch.setenv("HOME", str(home))
    reasons = failed(mpi.train(mpi.a_plan(8, 8), tmp_path / "run"))
    assert any("train-001.shard: corrupt: expected sha256" in reason for reason in reasons)


@pytest.mark.soak
def test_another_model_s_checkpoint_is_refused_by_name(tmp_path) -> None:
    first = mpi.train(mpi.a_plan(64), tmp_path)
    other = dataclasses.replace(
        mpi.a_plan(64),
        model=dataclasses.replace(first.plan.model, args={"channels": 8}),
        resume="checkpoints",
    )
    (reason,) = failed(mpi.train(other, tmp_path))
    assert first.checkpoints[-1].name in reason
    assert "holds model digits-cnn, this run trains digits-cnn {'channels': 8}" in reason


def test_more_ranks_than_phones_is_refused(tmp_path) -> None:
    run = mpi.train(mpi.a_plan(8, 8), tmp_path, ranks=3)
    assert "phones (2 names) and the MPI world (3 ranks) must be equally large" in run.output


def long_run(folder: Path):
    """Three ranks in the midst of a long run; their processes are in the folder's pid files."""
    plan = mpi.a_plan(8, 8, 8, epochs=500)
    plan.write(folder / "plan.json")
    process = mpi.mpirun(3, HERE / "with_pid.py", folder=folder)
    progress = folder / "progress.jsonl"
    while not (progress.exists() and '"iteration": 15' in progress.read_text()):
        assert process.poll() is None
        time.sleep(0.2)
    return plan, process


def test_sigterm_ends_a_run_with_a_last_word(tmp_path) -> None:
    plan, process = long_run(tmp_path)
    process.terminate()
    output, _ = process.communicate()
    assert failed(mpi.Run(plan, tmp_path, process.returncode or 1, output)) == ["terminated"] * 3


def test_a_run_that_is_asked_to_finish_ends_on_all_ranks_with_a_checkpoint(tmp_path) -> None:
    plan, process = long_run(tmp_path)
    (tmp_path / "finish").touch()
    output, _ = process.communicate()
    run = mpi.Run(plan, tmp_path, process.returncode, output)
    assert run.status == 0, output
    (iteration,) = {final.iteration for final in run.finals}
    assert {final.status for final in run.finals} == {"stopped"}
    assert f"as asked, after iteration {iteration}" in (run.finals[0].reason or "")
    assert len({final.parameters_sha256 for final in run.finals}) == 1
    assert run.events("checkpoint")[-1].iteration == iteration


def test_a_killed_rank_ends_the_others(tmp_path) -> None:
    _, process = long_run(tmp_path)
    os.kill(int((tmp_path / "rank-1.pid").read_text()), signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "rank-1.final.json").exists()
