"""How long an iteration of a plan would take, by the rack's profile. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from fleetctl.errors import ExitCode, FleetError
from fleetctl.plan.cost import StepCost, between, ring_terms
from trainer.formats import (
    KNOWN,
    ComputeProfile,
    Exchange,
    Input,
    LinkProfile,
    MemoryProfile,
    ModelSpec,
    Plan,
    RackProfile,
    fitted_to,
)

BYTES_PER_PARAMETER: Mapping[str, int] = {"none": 4, "half": 2}
"""On the wire, by codec."""

SOON_ENOUGH = 1.1
"""What takes at most so many times the shortest iteration is as good, if it takes fewer phones."""


class Unmeasured(FleetError):
    """The rack's profile lacks what a forecast needs; the message says how to measure it."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_INPUT


@dataclass(frozen=True, slots=True)
class Forecast:
    """One iteration of a plan. Compute is that of the phone that needs longest, whom all wait for.
    `hidden_seconds` of the exchange pass while that phone computes, at best."""

    phones: tuple[str, ...]
    global_batch: int
    slowest: str
    compute_seconds: float
    exchange_seconds: float
    hidden_seconds: float
    beyond: bool
    """A share lies outside the batches that were measured."""
    too_large: tuple[str, ...]
    """Phones that were found to lack the memory for their share."""

    @property
    def iteration_seconds(self) -> float:
        return self.compute_seconds + self.exchange_seconds - self.hidden_seconds

    @property
    def images_per_second(self) -> float:
        return self.global_batch / self.iteration_seconds

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "iteration_seconds": self.iteration_seconds,
            "images_per_second": self.images_per_second,
        }


def measured_phones(profile: RackProfile, plan: Plan, given: Input) -> dict[str, list[StepCost]]:
    """Phone -> its measured steps of the plan's model on such samples, with as many threads; with
    those that were fastest where the plan leaves it to the phone."""
    found: dict[str, dict[int, list[ComputeProfile]]] = {}
    for entry in profile.compute:
        if entry.device == "cpu" and _same(entry, plan, given):
            found.setdefault(entry.phone, {}).setdefault(entry.threads, []).append(entry)
    chosen = {
        phone: _fastest(by_threads) if plan.threads == "auto" else by_threads.get(plan.threads, [])
        for phone, by_threads in found.items()
    }
    return {
        phone: [_cost(entry) for entry in entries] for phone, entries in chosen.items() if entries
    }


def _same(entry: ComputeProfile | MemoryProfile, plan: Plan, given: Input) -> bool:
    return entry.input.shape == given.shape and _model(entry) == plan.model


def _model(entry: ComputeProfile | MemoryProfile) -> ModelSpec:
    """With what follows from the samples that it was measured on, as a plan has it."""
    return fitted_to(entry.model, entry.input.shape, entry.input.classes)


def _fastest(by_threads: Mapping[int, list[ComputeProfile]]) -> list[ComputeProfile]:
    """Those of the number of threads with the most images a second in its largest batch."""

    def rate(entries: Sequence[ComputeProfile]) -> float:
        return max(entry.batch / entry.step_seconds for entry in entries)

    return max(by_threads.values(), key=rate)


def _cost(entry: ComputeProfile) -> StepCost:
    rest = entry.step_seconds - entry.forward_seconds - entry.backward_seconds
    return StepCost(entry.batch, entry.forward_seconds, entry.backward_seconds, max(rest, 0.0))


def forecast(plan: Plan, profile: RackProfile, given: Input) -> Forecast:
    """One iteration of `plan` on samples such as `given`. Raises Unmeasured naming what lacks."""
    costs = measured_phones(profile, plan, given)
    if unknown := [phone for phone in plan.phones if phone not in costs]:
        raise Unmeasured(f"no step of {plan.model.name} was measured on {', '.join(unknown)}")
    shares = dict(zip(plan.phones, plan.samples_per_rank, strict=True))
    parts = {phone: math.ceil(share / plan.accumulate) for phone, share in shares.items()}
    steps = {phone: between(costs[phone], part) for phone, part in parts.items()}
    compute = {phone: _compute_seconds(step, plan.accumulate) for phone, step in steps.items()}
    slowest = max(compute, key=lambda phone: compute[phone])
    exchange, hidden = _exchange(plan, profile, steps[slowest].backward_seconds)
    limits = _largest(profile, plan, given)
    return Forecast(
        phones=plan.phones,
        global_batch=plan.global_batch,
        slowest=slowest,
        compute_seconds=compute[slowest],
        exchange_seconds=exchange,
        hidden_seconds=hidden,
        beyond=any(not _measured_range(costs[phone], part) for phone, part in parts.items()),
        too_large=tuple(p for p in plan.phones if parts[p] > limits.get(p, parts[p])),
    )


def _compute_seconds(step: StepCost, parts: int) -> float:
    return parts * (step.forward_seconds + step.backward_seconds) + step.optimizer_seconds


def _measured_range(costs: Sequence[StepCost], batch: int) -> bool:
    batches = [cost.batch for cost in costs]
    return min(batches) <= batch <= max(batches)


def _exchange(plan: Plan, profile: RackProfile, backward_seconds: float) -> tuple[float, float]:
    """Seconds of the plan's exchange, and how many of them its last backward pass can hide: all
    buckets but the last, which is full only when nothing is left to compute."""
    if not plan.exchange.enabled or len(plan.phones) == 1:
        return 0.0, 0.0
    link = link_of(profile, plan.exchange)
    parameters = gradient_parameters(profile, plan)
    size_bytes = parameters * BYTES_PER_PARAMETER[plan.exchange.codec]
    messages = _buckets(plan, 4 * parameters)
    steps, traffic = ring_terms(len(plan.phones), size_bytes, messages)
    seconds = steps * link.alpha_seconds + traffic / link.bytes_per_second
    return seconds, min(seconds * (messages - 1) / messages, backward_seconds)


def _buckets(plan: Plan, total_bytes: int) -> int:
    match plan.exchange.bucket_bytes:
        case "all":
            return 1
        case "each":
            return KNOWN[plan.model.name].tensors
        case size:
            return max(1, math.ceil(total_bytes / size))


def link_of(profile: RackProfile, exchange: Exchange) -> LinkProfile:
    """What was measured of the method that the plan asks for; else of our ring. Raises
    Unmeasured if there is neither."""
    links = {link.method: link for link in profile.links}
    tuned = exchange.reduce == "mpi" and exchange.algorithm in ("ring", "segmented_ring")
    method = "mpi-tuned" if tuned else exchange.reduce
    found = links.get(method, links.get("ring"))
    if found is None:
        raise Unmeasured("no exchange was measured on this rack")
    return found


def gradient_parameters(profile: RackProfile, plan: Plan) -> int:
    """As a phone has counted them, else those of the model for 1000 classes."""
    for entry in profile.compute:
        if entry.gradient_bytes and _model(entry) == plan.model:
            return entry.gradient_bytes // 4
    return KNOWN[plan.model.name].parameters


def _largest(profile: RackProfile, plan: Plan, given: Input) -> dict[str, int]:
    """Phone -> the largest batch that fits, where one was found that is too large."""
    return {
        entry.phone: entry.largest_batch
        for entry in profile.memory
        if entry.device == "cpu" and not entry.bounded and _same(entry, plan, given)
    }


def soonest(forecasts: Sequence[Forecast]) -> Forecast:
    """That with the shortest iteration among those whose shares fit the phones' memory, or among
    all if none does."""
    fit = [each for each in forecasts if not each.too_large] or forecasts
    return min(fit, key=lambda each: each.iteration_seconds)


def worth(forecasts: Sequence[Forecast]) -> Forecast:
    """That of the fewest phones which is hardly later than the soonest."""
    best = soonest(forecasts)
    near = [
        each
        for each in forecasts
        if each.too_large == best.too_large
        and each.iteration_seconds <= SOON_ENOUGH * best.iteration_seconds
    ]
    return min(near, key=lambda each: len(each.phones))
