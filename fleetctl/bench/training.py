"""`bench scaling` and `bench thermal`: training with exchange on synthetic samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fleetctl.bench.compute import OPTIMIZER
from fleetctl.bench.document import ScalingBench, ScalingLaunch, ThermalBench
from fleetctl.bench.exchanges import require_fit, switches_of
from fleetctl.bench.session import BenchError, Session, Stopped
from fleetctl.jobs.planning import equal_shares
from trainer.formats import Exchange, Input, ModelSpec, Trained, TrainingSpec

type Mode = Literal["global", "phone"]


@dataclass(frozen=True, slots=True)
class ScalingWish:
    """`global_batch` is the same for all numbers of phones, `phone_batch` the same on each phone;
    0 leaves one out."""

    models: tuple[ModelSpec, ...]
    input: Input
    counts: tuple[int, ...]
    global_batch: int
    phone_batch: int
    iterations: int
    threads: int
    exchange: Exchange

    def launches(self) -> list[tuple[ModelSpec, Mode, tuple[int, ...]]]:
        """Model, kind of batch, samples of each rank. A number of phones whose global batch would
        leave some without a sample is left out; so is what would be measured twice."""
        found: list[tuple[ModelSpec, Mode, tuple[int, ...]]] = []
        for model in self.models:
            for count in self.counts:
                if count <= self.global_batch:
                    found.append((model, "global", equal_shares(self.global_batch, count)))
                if self.phone_batch:
                    found.append((model, "phone", (self.phone_batch,) * count))
        return found


async def scaling(session: Session, wish: ScalingWish) -> ScalingBench:
    """Every launch of `wish`. One that fails is a problem in the document, not the end. Raises
    InputError."""
    require_fit(wish.exchange, session.room.rack, session.phones[: max(wish.counts)])
    launches: list[ScalingLaunch] = []
    try:
        for model, mode, samples in wish.launches():
            label = f"{model.name}, {sum(samples)} images"
            spec_of = partial(_scaling_spec, session, wish, model, samples)
            try:
                ranks = await session.measure(
                    "training", label, spec_of, Trained, count=len(samples)
                )
            except BenchError as error:
                session.note(str(error))
            else:
                launches.append(ScalingLaunch(model, mode, samples, tuple(ranks)))
            session.keep(_scaling(session, wish, launches))
    except Stopped as stopped:
        session.problems.append(str(stopped))
    bench = _scaling(session, wish, launches)
    session.keep(bench)
    return bench


def _scaling_spec(
    session: Session,
    wish: ScalingWish,
    model: ModelSpec,
    samples: tuple[int, ...],
    phones: tuple[str, ...],
) -> TrainingSpec:
    return TrainingSpec(
        phones,
        model,
        wish.input,
        samples,
        OPTIMIZER,
        wish.iterations,
        threads=wish.threads,
        exchange=wish.exchange,
        switches=switches_of(session.room.rack, phones),
    )


def _scaling(
    session: Session, wish: ScalingWish, launches: Sequence[ScalingLaunch]
) -> ScalingBench:
    return ScalingBench(
        session.known(), wish.exchange, wish.threads, tuple(launches), tuple(session.problems)
    )


@dataclass(frozen=True, slots=True)
class ThermalWish:
    model: ModelSpec
    input: Input
    phone_batch: int
    seconds: float
    threads: int
    exchange: Exchange


async def thermal(session: Session, wish: ThermalWish) -> ThermalBench:
    """One run, long enough for phones to get as hot as they will. Raises InputError."""
    require_fit(wish.exchange, session.room.rack, session.phones)
    label = f"{wish.model.name} for {wish.seconds:.0f} s"
    spec_of, problems = partial(_thermal_spec, session, wish), session.problems
    ranks: Sequence[Trained] = ()
    try:
        # Once only: phones that are hot by now have no cool minutes to compare with.
        ranks = await session.measure("training", label, spec_of, Trained, again=False)
    except (BenchError, Stopped) as error:
        problems.append(str(error))
    if ranks and not any(step.celsius is not None for rank in ranks for step in rank.steps):
        problems.append("no phone told its temperature; `fleetctl status --facts` shows why")
    samples = (wish.phone_batch,) * len(session.phones)
    bench = ThermalBench(session.known(), wish.model, samples, tuple(ranks), tuple(problems))
    session.keep(bench)
    return bench


def _thermal_spec(session: Session, wish: ThermalWish, phones: tuple[str, ...]) -> TrainingSpec:
    return TrainingSpec(
        phones,
        wish.model,
        wish.input,
        (wish.phone_batch,) * len(phones),
        OPTIMIZER,
        iterations=1,
        seconds=wish.seconds,
        threads=wish.threads,
        exchange=wish.exchange,
        switches=switches_of(session.room.rack, phones),
    )
