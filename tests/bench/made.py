"""Benches as they would have been measured, for tests of what is made out of them."""

from __future__ import annotations

from fleetctl.bench.document import (
    CollectivesBench,
    ComputeBench,
    MethodFit,
    Provenance,
    ScalingBench,
    ScalingLaunch,
    ThermalBench,
)
from fleetctl.bench.fit import LinkFit
from trainer.formats import (
    Collectives,
    CollectiveTime,
    ComputeCase,
    Computed,
    ComputeTime,
    Exchange,
    Input,
    LargestBatch,
    Method,
    ModelSpec,
    StepTime,
    Trained,
)

PHONES = ("phone001", "phone002", "phone003", "phone004")
WHERE = Provenance(
    rack="lab",
    medium="ethernet",
    time=1_700_000_000.0,
    command="fleetctl bench <all> & more",
    fleetctl="1.2",
    commit="0123456789ab+",
    phones=PHONES,
    models={PHONES[0]: "SM-G975F", **dict.fromkeys(PHONES[1:], "SM-G973F")},
    versions={"openmpi": {"5.0.8": "phone[001-004]"}},
    runs=("bench-collectives-1-collectives-1",),
)
SHAPE = Input((3, 32, 32), 10)


def collective(method: Method, phones: int, factor: float = 1.0) -> Collectives:
    """Times of a ring with α of 1 ms and B of 25 MB/s, and of the patterns."""
    plain = [
        CollectiveTime(
            "all-reduce",
            method,
            size,
            (factor * 2 * (phones - 1) * (1e-3 + size / phones / 25e6),) * 3,
            0.01,
        )
        for size in (1_000, 100_000, 10_000_000)
    ]
    models = [
        CollectiveTime(
            "all-reduce", method, 5_000_000, (seconds * factor,), 0.1, "squeezenet", way, 52
        )
        for way, seconds in (("packed", 0.4), ("chunk-wise", 0.5))
    ]
    patterns = [
        CollectiveTime(operation, by, 10_000_000, (0.5 * phones,), 0.01)
        for operation in ("one-to-many", "many-to-many")
        for by in ("messages", "mpi")
    ]
    times = (*plain, *models, *(patterns if method == "mpi" else ()))
    return Collectives(PHONES[:phones], method, times)


def collectives() -> CollectivesBench:
    return CollectivesBench(
        WHERE,
        tuple(
            collective(method, phones, factor)
            for phones in (2, 4)
            for method, factor in (("ring", 1.0), ("mpi", 2.0), ("mpi-tuned", 1.05))
        ),
        goodput_mbits=200.0,
        fits=(MethodFit("ring", LinkFit(1e-3, 25e6, 0.01, 6)),),
        problems=("run-3: <failed> & gone",),
    )


def compute(device: str = "cpu") -> ComputeBench:
    case = ComputeCase(ModelSpec("squeezenet", {"num_classes": 10}), SHAPE, 16, 4)
    return ComputeBench(
        WHERE,
        tuple(
            Computed(
                phone,
                device,
                "2.6",
                (ComputeTime(case, 50, 0.2, 0.4, 0.05, 0.7, 0.6, 30.0, None),),
                (LargestBatch(case.model, SHAPE, 96, 2 * 10**9, 3 * 10**9, 6, False),),
            )
            for phone in PHONES
        ),
    )


def trained(
    phone: str, compute_seconds: float, wait: float, steps: int = 40, hot: float = 0.0
) -> Trained:
    """Iterations a second apart; the last ones are hotter and so much slower."""
    return Trained(
        phone,
        8,
        tuple(
            StepTime(
                1e9 + i,
                compute_seconds * (1 + hot * i / steps),
                0.1,
                wait,
                25.0 + 20 * i / steps,
            )
            for i in range(steps)
        ),
    )


def scaling() -> ScalingBench:
    """Perfect but for the wait: 0.4 s of compute on one phone."""
    launches = []
    for mode, samples in (("phone", (8, 8, 8)), ("global", (8, 4, 2))):
        for phones, share in zip((1, 2, 4), samples, strict=True):
            wait = 0.0 if phones == 1 else 0.1
            ranks = tuple(trained(name, 0.05 * share, wait) for name in PHONES[:phones])
            launches.append(ScalingLaunch(ModelSpec("squeezenet"), mode, (share,) * phones, ranks))
    return ScalingBench(WHERE, Exchange(), 1, tuple(launches))


def thermal() -> ThermalBench:
    ranks = tuple(trained(name, 0.3, 0.1, 200, hot=0.3 * i) for i, name in enumerate(PHONES))
    return ThermalBench(WHERE, ModelSpec("squeezenet"), (8, 8, 8, 8), ranks)
