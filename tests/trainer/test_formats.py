"""The documents between controller and phones: strict reading, atomic writing, plan checks."""

import dataclasses
import json

import pytest

from trainer.files import write_atomic
from trainer.formats import (
    MODELS,
    DataManifest,
    DataSpec,
    Exchange,
    Final,
    IterationEvent,
    LossSpec,
    ModelSpec,
    OptimizerSpec,
    Plan,
    PlanError,
    SchedulerSpec,
    Shard,
    event_from_json,
    event_to_json,
)
from trainer.strictjson import FormatError


def a_plan(**changes: object) -> Plan:
    plan = Plan(
        run="digits-1",
        phones=("phone001", "phone002", "phone003"),
        samples_per_rank=(32, 32, 16),
        model=ModelSpec("digits-cnn"),
        data=DataSpec("digits", "digits"),
        epochs=3,
        optimizer=OptimizerSpec("sgd", {"lr": 0.1, "momentum": 0.9}),
    )
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]


def edited(change: dict[str, object], drop: str | None = None) -> str:
    document = json.loads(a_plan().to_json()) | change
    document.pop(drop, None)
    return json.dumps(document)


def test_a_plan_survives_json_and_fits_itself() -> None:
    plan = a_plan()
    plan.check()
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.global_batch == 80


def test_settings_with_defaults_may_be_left_out() -> None:
    assert Plan.from_json(edited({}, drop="exchange")).exchange == Exchange()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (edited({"colour": 1}), "unknown key 'colour'"),
        (edited({}, drop="phones"), "key 'phones' is missing"),
        (edited({"epochs": "3"}), 'epochs: "3" where an integer belongs'),
        (edited({"epochs": True}), "epochs: true where an integer belongs"),
        (edited({"version": 2}), "version: 2 is not one of 1"),
        (edited({"version": True}), "version: True is not one of 1"),
        (edited({"samples_per_rank": [1, 2.5, 3]}), r"samples_per_rank\[1\]: 2.5"),
        (edited({"exchange": {"codec": "tenth"}}), "exchange: codec: 'tenth' is not one of"),
        (edited({"exchange": {"bucket_bytes": "some"}}), "'all', 'each' or an integer belongs"),
        ("{", "not JSON"),
        ("[]", "where an object belongs"),
    ],
)
def test_a_wrong_document_is_refused_by_the_key(text: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint) as refusal:
        Plan.from_json(text, "plan.json")
    assert str(refusal.value).startswith("plan.json")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"samples_per_rank": (8, 8)}, r"phones \(3 names\) and samples_per_rank \(2 numbers\)"),
        ({"samples_per_rank": (0, 0, 0)}, "sums to 0"),
        ({"samples_per_rank": (9, -1, 8)}, "negative"),
        ({"phones": ("a", "a", "b")}, "twice"),
        ({"phones": (), "samples_per_rank": ()}, "phones is empty"),
        ({"model": ModelSpec("vgg")}, f"'vgg' is unknown; known: {MODELS[0]}"),
        ({"data": DataSpec("x", "../x")}, "inside"),
        ({"data": DataSpec("x", "/x")}, "inside"),
        ({"run": "a/b"}, "run must be"),
        ({"epochs": 0}, "epochs"),
        ({"optimizer": OptimizerSpec("sgd", {})}, "no lr"),
        ({"optimizer": OptimizerSpec("sgd", {"lr": "fast"})}, "lr 'fast' must be a number"),
        ({"optimizer": OptimizerSpec("sgd", {"lr": 0})}, "lr 0 must be a number above 0"),
        ({"optimizer": OptimizerSpec("adamx", {"lr": 1})}, "optimizer 'adamx' is unknown; known"),
        ({"optimizer": OptimizerSpec("LBFGS", {"lr": 1})}, "'LBFGS' does not fit: it evaluates"),
        ({"scheduler": SchedulerSpec("LambdaLR")}, "'LambdaLR' does not fit: it needs a function"),
        ({"scheduler": SchedulerSpec("steplr"), "schedule": "cosine"}, "cosine and scheduler"),
        ({"loss": LossSpec("MSELoss")}, "loss 'MSELoss' is unknown; known: CrossEntropyLoss"),
        ({"loss": LossSpec(args={"reduction": "sum"})}, "loss.args has reduction"),
        ({"loss": LossSpec(args={"ignore_index": 0})}, "loss.args has ignore_index"),
        (
            {"scheduler": SchedulerSpec("onecyclelr", {"max_lr": 0.1}), "base_batch": 20},
            "base_batch and scheduler",
        ),
        ({"model": ModelSpec("alexnet", {"stem": "small"})}, "alexnet takes no argument 'stem'"),
        (
            {"model": ModelSpec("resnet-18"), "samples_per_rank": (32, 1, 0)},
            r"samples_per_rank \(1 at a time on some phone\) and BatchNorm",
        ),
        (
            {"model": ModelSpec("resnet-18"), "samples_per_rank": (8, 4, 4), "accumulate": 3},
            r"samples_per_rank \(1 at a time on some phone\) and BatchNorm",
        ),
        ({"accumulate": 33}, r"accumulate \(33\) and samples_per_rank"),
        ({"base_batch": 0}, "base_batch"),
        ({"deterministic": True, "threads": "auto"}, "deterministic and threads=auto"),
        (
            {"exchange": Exchange(enabled=False), "sync_batch_norm": True},
            "sync_batch_norm and exchange.enabled=false",
        ),
        ({"exchange": Exchange(segment_bytes=12)}, "multiple of 8"),
        ({"exchange": Exchange(bucket_bytes=0)}, "bucket_bytes"),
        ({"exchange": Exchange(reduce="hierarchical")}, "hierarchical and switches: the plan"),
        (
            {"exchange": Exchange(reduce="hierarchical"), "switches": ("sw1", "", "")},
            "hierarchical and switches: none is known for phone002, phone003",
        ),
        ({"switches": ("sw1", "sw1")}, r"phones \(3 names\) and switches \(2 names\)"),
        ({"exchange": Exchange(codec="half", reduce="mpi")}, "codec half and exchange.reduce mpi"),
        (
            {"exchange": Exchange(codec="half", reduce="gloo")},
            "codec half and exchange.reduce gloo",
        ),
        (
            {"exchange": Exchange(algorithm="ring")},
            "algorithm ring and exchange.reduce ring: only reduce mpi",
        ),
        ({"exchange": Exchange(enabled=False), "resume": "checkpoints"}, "resume and exchange"),
        (
            {"exchange": Exchange(enabled=False), "samples_per_rank": (8, 0, 8)},
            "samples_per_rank with a 0 and exchange",
        ),
    ],
)
def test_parts_that_do_not_fit_are_named(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(PlanError, match=complaint):
        a_plan(**changes).check()


def test_progress_lines_keep_their_kind() -> None:
    event = IterationEvent(1.0, 7, 1, 0.5, 96, 3000.0, 0.02, 0.01, 0.005)
    assert event_from_json(event_to_json(event)) == event
    with pytest.raises(FormatError, match="kind 'party' is not one of start, iteration"):
        event_from_json('{"kind": "party"}')
    with pytest.raises(FormatError, match="kind None"):
        event_from_json("[]")


def test_a_loss_that_is_no_number_never_becomes_a_document() -> None:
    event = IterationEvent(1.0, 7, 1, float("nan"), 96, 3000.0, 0.02, 0.01, 0.005)
    with pytest.raises(ValueError, match="JSON compliant"):
        event_to_json(event)


def test_documents_are_files(tmp_path) -> None:
    final = Final("r", 0, "phone001", "failed", "terminated", 12, None, None)
    final.write(tmp_path / "rank-0.final.json")
    assert Final.read(tmp_path / "rank-0.final.json") == final
    assert [path.name for path in tmp_path.iterdir()] == ["rank-0.final.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "kept"
    path.write_bytes(b"old")

    def full_disk(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trainer.files.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_manifest_counts_its_samples() -> None:
    shards = (Shard("a", 3, "0"), Shard("b", 4, "1"))
    manifest = DataManifest("d", 10, (1, 8, 8), "float32", 0, shards, shards[:1])
    assert (manifest.train_samples, manifest.test_samples) == (7, 3)
    assert DataManifest.from_json(manifest.to_json()) == manifest
