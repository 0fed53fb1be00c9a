"""Job files: what they say, and what is said about a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetctl.jobs.jobfile import (
    JobError,
    ModelChoice,
    command_job,
    local_files,
    plain_name,
    read_job,
    write_job,
)
from fleetctl.jobs.planning import build_plan, equal_shares
from trainer.formats import (
    DataManifest,
    HeatSpec,
    LossSpec,
    OptimizerSpec,
    Plan,
    SchedulerSpec,
    Shard,
)

TRAIN = """\
phones: 4
train:
  model: {name: digits-cnn, args: {channels: 8, hidden: 16}}
  data: digits
  epochs: 3
  global_batch: 10
  optimizer: {name: sgd, lr: 0.1, momentum: 0.9, nesterov: true, betas: [0.9, 0.99]}
  warmup_iterations: 7
  exchange: {bucket_bytes: 4096}
  checkpoint: {every_iterations: 5}
"""


def job_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "night.yml"
    path.write_text(text)
    return path


def test_a_job_becomes_the_plan_that_it_describes(tmp_path: Path) -> None:
    job = read_job(job_file(tmp_path, TRAIN))
    assert job.name == "night"
    assert job.train is not None
    plan = build_plan(job.train, "night-1", ["phone002", "phone001", "phone004"])
    assert plan.phones == ("phone002", "phone001", "phone004")
    assert plan.samples_per_rank == (4, 3, 3)
    assert plan.model.args == {"channels": 8, "hidden": 16}
    assert plan.optimizer.args == {
        "lr": 0.1,
        "momentum": 0.9,
        "nesterov": True,
        "betas": [0.9, 0.99],
    }
    assert (plan.warmup_iterations, plan.exchange.bucket_bytes) == (7, 4096)
    assert (plan.checkpoint.every_iterations, plan.checkpoint.keep) == (5, 2)


@pytest.mark.parametrize("text", [TRAIN, "command: [python, train.py, '7']\nname: x\n"])
def test_a_job_written_down_reads_back_equal(tmp_path: Path, text: str) -> None:
    job = read_job(job_file(tmp_path, text))
    write_job(job, tmp_path / "job.yml")
    assert read_job(tmp_path / "job.yml") == job


@pytest.mark.parametrize(
    ("wrong", "right", "line", "words"),
    [
        ("epochs: 3", "epochs: three", 5, "epochs"),
        ("epochs: 3", "epoch: 3", 5, "unknown key `epoch`"),
        ("data: digits", "data: digits\n  data: other", 5, "twice"),
        ("name: digits-cnn", "name: resnet9000", 3, "resnet9000"),
        ("global_batch: 10", "global_batch: 0", 6, "global_batch"),
        ("name: sgd", "name: lbfgs", 7, "lbfgs"),
    ],
)
def test_a_mistake_is_named_by_line(
    tmp_path: Path, wrong: str, right: str, line: int, words: str
) -> None:
    path = job_file(tmp_path, TRAIN.replace(wrong, right))
    with pytest.raises(JobError) as caught:
        read_job(path)
    assert words in str(caught.value)
    assert any(mistake.line == line for mistake in caught.value.mistakes), caught.value


@pytest.mark.parametrize("text", ["phones: 3\n", TRAIN + "command: [python, x.py]\n"])
def test_train_and_command_must_make_sense_together(tmp_path: Path, text: str) -> None:
    with pytest.raises(JobError, match="command"):
        read_job(job_file(tmp_path, text))


WISHES = """\
train:
  model: resnet-18
  data: images
  flip: true
  crop_pixels: 28
  normalise: true
  epochs: 3
  global_batch: 64
  optimizer: {name: adamw, lr: 0.1, betas: [0.9, 0.99]}
  schedule: {name: multisteplr, milestones: [30, 60], every: iteration}
  loss: {name: CrossEntropyLoss, label_smoothing: 0.1}
  base_batch: 32
  accumulate: 2
  sync_batch_norm: true
  threads: auto
"""


def manifest(*shape: int, classes: int = 10) -> DataManifest:
    shards = (Shard("a", 100, "0"),)
    return DataManifest("images", classes, shape, "uint8", 0, shards, shards)


def test_what_torch_does_is_handed_through_by_name(tmp_path: Path) -> None:
    job = read_job(job_file(tmp_path, WISHES))
    write_job(job, tmp_path / "job.yml")
    assert read_job(tmp_path / "job.yml") == job
    assert job.train is not None
    plan = build_plan(job.train, "n", ["phone001", "phone002"], data=manifest(3, 32, 32))
    assert plan.optimizer == OptimizerSpec("AdamW", {"lr": 0.1, "betas": [0.9, 0.99]})
    assert plan.scheduler == SchedulerSpec("MultiStepLR", {"milestones": [30, 60]}, "iteration")
    assert plan.loss == LossSpec("CrossEntropyLoss", {"label_smoothing": 0.1})
    assert plan.model.args == {"num_classes": 10, "in_channels": 3}
    assert (plan.data.flip, plan.data.crop_pixels, plan.data.normalise) == (True, 28, True)
    assert (plan.base_batch, plan.accumulate, plan.sync_batch_norm) == (32, 2, True)
    assert plan.threads == "auto"
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("change", "shape", "complaint"),
    [
        ({"model": "alexnet"}, (3, 32, 32), "alexnet needs images of at least 63x63"),
        ({"crop_pixels": "40"}, (3, 32, 32), "crop_pixels 40 is more than data set images has"),
        ({"crop_pixels": "16", "model": "squeezenet"}, (3, 32, 32), "at least 17x17"),
    ],
)
def test_images_that_do_not_fit_the_model_are_refused(
    tmp_path: Path, change: dict[str, str], shape: tuple[int, ...], complaint: str
) -> None:
    text = re.sub(
        r"(\w+): (\S+)$", lambda m: f"{m[1]}: {change.get(m[1], m[2])}", WISHES, flags=re.M
    )
    train = read_job(job_file(tmp_path, text)).train
    assert train is not None
    with pytest.raises(JobError, match=complaint):
        build_plan(train, "n", ["phone001"], data=manifest(*shape))


def test_more_phones_than_samples_is_refused(tmp_path: Path) -> None:
    train = read_job(job_file(tmp_path, TRAIN)).train
    assert train is not None
    with pytest.raises(JobError, match="at most 10 phones"):
        build_plan(train, "night-1", [f"phone{i:03}" for i in range(11)])


@pytest.mark.parametrize(("samples", "ranks"), [(10, 3), (6, 6), (96, 7), (5, 5)])
def test_shares_are_even_and_keep_the_global_batch(samples: int, ranks: int) -> None:
    shares = equal_shares(samples, ranks)
    assert sum(shares) == samples
    assert max(shares) - min(shares) <= 1


def test_a_command_is_named_after_its_script() -> None:
    assert command_job(["python", "train it.py", "-v"]).name == "train-it"
    assert command_job(["/bin/hostname"]).name == "hostname"
    assert plain_name("…") == "job"


def test_files_named_in_a_command_go_along(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "inner").mkdir()
    words = ["python", "train.py", "inner", "../train.py", str(tmp_path / "train.py")]
    assert local_files(words, tmp_path) == (tmp_path / "train.py",)


@pytest.mark.parametrize("name", ["hostfile", "start.sh", "plan.json", "rank.sh"])
def test_a_file_that_would_replace_the_runs_own_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(JobError, match=f"{name}.*rename yours"):
        local_files(["sh", name], tmp_path)


def test_the_exchange_is_chosen_in_the_job_and_the_switches_come_from_the_rack(
    tmp_path: Path,
) -> None:
    exchange = "{reduce: hierarchical, codec: half, bucket_bytes: each}"
    train = read_job(job_file(tmp_path, TRAIN.replace("{bucket_bytes: 4096}", exchange))).train
    assert train is not None
    plan = build_plan(train, "night-1", ["phone001", "phone002"], switches=["sw1", "sw2"])
    assert (plan.exchange.reduce, plan.exchange.codec) == ("hierarchical", "half")
    assert plan.switches == ("sw1", "sw2")
    with pytest.raises(JobError, match="hierarchical and switches: the plan names none"):
        build_plan(train, "night-1", ["phone001", "phone002"], switches=["", ""])


@pytest.mark.parametrize(
    ("asked", "follows"),
    [
        ("", True),
        ("heat: false", False),
        ("heat: true", True),
        ("deterministic: true", False),
        ("stage: share", False),
        ("exchange: {enabled: false}", False),
    ],
)
def test_shares_follow_heat_unless_the_job_rules_it_out(
    tmp_path: Path, asked: str, follows: bool
) -> None:
    train = read_job(job_file(tmp_path, with_line(asked))).train
    assert train is not None
    digits, phones = manifest(1, 8, 8), ["phone001", "phone002"]
    plan = build_plan(train, "night-1", phones, data=digits, drain_celsius=47.0)
    assert plan.heat == HeatSpec(follows, 45.0)
    script = train.model_copy(update={"model": ModelChoice(name="script"), "accumulate": 2})
    most = build_plan(script, "n-1", ["phone001", "phone002"]).heat.most_at_once
    assert most == ((-(-plan.samples_per_rank[0] // 2),) * 2 if follows else ())
    large = build_plan(train, "n-1", phones, data=manifest(1, 224, 224)).heat.most_at_once
    assert large == (plan.samples_per_rank if follows else ()), "small by its name alone"


def test_what_rules_it_out_is_named(tmp_path: Path) -> None:
    train = read_job(job_file(tmp_path, with_line("heat: true\n  deterministic: true"))).train
    assert train is not None
    with pytest.raises(JobError, match="heat and deterministic"):
        build_plan(train, "night-1", ["phone001", "phone002"])


def with_line(asked: str) -> str:
    return f"""\
train:
  model: digits-cnn
  data: digits
  epochs: 1
  global_batch: 32
  optimizer: {{lr: 0.1}}
  {asked}
"""
