"""`fleetctl plan JOB.yml [NODES]`"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from fleetctl.cli.common import App, nodes_argument, output_option, pass_app

if TYPE_CHECKING:
    from fleetctl.jobs.jobfile import Train
    from fleetctl.plan.forecast import Forecast
    from trainer.formats import DataManifest, Input, Plan, RackProfile

_EVERY_COUNT = 16
"""Up to so many phones each number of them is looked at, above only doublings."""

_BUCKET_BYTES = 4_000_000
"""What is tried beside one bucket."""


@click.command()
@click.argument("job_file", metavar="JOB.yml", type=click.Path(dir_okay=False, path_type=Path))
@nodes_argument
@output_option
@pass_app
def command(app: App, job_file: Path, nodes: tuple[str, ...], output: str) -> None:
    """How long an iteration of JOB.yml would take by number of phones, how many are worth it, and
    which exchange.

    Out of what `fleetctl bench compute` and `bench collectives` have measured of this rack; no
    phone is asked, nothing is written. NODES are the phones to choose from: those that the job
    names, else all.
    """
    from fleetctl.bench import profile as profiles
    from fleetctl.cli.forecast_view import as_json, show
    from fleetctl.cli.output import print_json
    from fleetctl.jobs import staging
    from fleetctl.jobs.jobfile import JobError, read_job
    from fleetctl.plan import forecast as planner
    from trainer.formats import Input

    asked = app.select(nodes) if nodes else None
    job = read_job(job_file)
    if job.train is None or job.command is not None:
        raise JobError(
            f"{job_file}: a program of your own is not measured, so nobody can tell how long it "
            "takes; plan is for jobs with `train` and a model of the trainer"
        )
    profile = profiles.read(app.paths.dir / profiles.PROFILE_FILE, app.rack.name)
    manifest = staging.read_data(app.paths.data, job.train.data).manifest
    given = Input(manifest.shape, manifest.classes)
    named = [job.phones] if job.phones and not job.phones.strip().isdigit() else []
    phones = _measured(app, job.train, profile, manifest, given, asked or app.select(named))
    counts = _counts(min(len(phones), job.train.global_batch))
    plans = [_plan(app, job.train, phones[:count], manifest) for count in counts]
    forecasts = [planner.forecast(plan, profile, given) for plan in plans]
    chosen = planner.worth(forecasts)
    ways = _ways(plans[forecasts.index(chosen)], profile, given)
    epoch = math.ceil(manifest.train_samples / job.train.global_batch)
    if output == "json":
        print_json(as_json(forecasts, chosen, ways, epoch, job.train.epochs))
    else:
        show(forecasts, chosen, ways, epoch, job.train.epochs)


def _plan(app: App, train: Train, phones: Sequence[str], manifest: DataManifest) -> Plan:
    from fleetctl.jobs.planning import build_plan

    switches = [app.rack.phones[phone].switch or "" for phone in phones]
    return build_plan(train, "plan", phones, switches=switches, data=manifest)


def _measured(
    app: App,
    train: Train,
    profile: RackProfile,
    manifest: DataManifest,
    given: Input,
    names: Sequence[str],
) -> list[str]:
    """Those of `names` whose steps are known, in ring order; says which are not. Raises
    Unmeasured if none is."""
    from fleetctl.cli.output import progress
    from fleetctl.plan.forecast import Unmeasured, measured_phones
    from fleetctl.rack.nodesets import fold

    ring = [name for name in app.rack.ring(names) if app.rack.phones[name].enrolled]
    if not ring:
        raise Unmeasured("no phone stands in these places yet; `fleetctl enroll` brings them there")
    known = measured_phones(profile, _plan(app, train, ring[:1], manifest), given)
    image = "x".join(map(str, manifest.shape))
    share = max(1, train.global_batch // len(ring) // train.accumulate)
    most = max(share, math.ceil(train.global_batch / 2 / train.accumulate))
    threads = "1,2" if train.threads == "auto" else train.threads
    cure = (
        f"measure with `fleetctl bench compute NODES --models {train.model.name} --image {image} "
        f"--classes {manifest.classes} --batches {share},{most} --threads {threads}`"
    )
    if not any(name in known for name in ring):
        raise Unmeasured(f"no step of {train.model.name} was measured on these phones; {cure}")
    if len(ring) > 1 and not profile.links and train.exchange.enabled:
        raise Unmeasured(
            "no exchange was measured on this rack; measure with `fleetctl bench collectives`"
        )
    if unknown := [name for name in ring if name not in known]:
        progress().print(f"left out, not measured: {fold(unknown)}; {cure}")
    return [name for name in ring if name in known]


def _counts(most: int) -> list[int]:
    from fleetctl.bench.fit import steps_of_phones

    if most <= _EVERY_COUNT:
        return list(range(1, most + 1))
    return [1, *steps_of_phones(most)]


def _ways(plan: Plan, profile: RackProfile, given: Input) -> list[tuple[str, Forecast]]:
    """The plan with other exchanges that were measured: what the job file would say, the soonest
    first. Empty where one phone trains alone; buckets only where there would be several."""
    from fleetctl.plan.forecast import forecast, gradient_parameters
    from trainer.formats import PlanError

    if len(plan.phones) == 1 or not plan.exchange.enabled:
        return []
    methods: dict[str, Literal["ring", "mpi", "gloo"]]
    methods = {"ring": "ring", "mpi-tuned": "mpi", "gloo": "gloo"}
    codecs: tuple[Literal["none", "half"], ...] = ("none", "half")
    large = 4 * gradient_parameters(profile, plan) > _BUCKET_BYTES
    buckets: tuple[Literal["all"] | int, ...] = ("all", _BUCKET_BYTES) if large else ("all",)
    found = {}
    for link, codec, bucket in product(profile.links, codecs, buckets):
        reduce = methods[link.method]
        exchange = replace(
            plan.exchange,
            reduce=reduce,
            algorithm="ring" if reduce == "mpi" else "default",
            codec=codec,
            bucket_bytes=bucket,
        )
        asked = replace(plan, exchange=exchange)
        try:
            asked.check()
        except PlanError:
            continue
        algorithm = ", algorithm: ring" if reduce == "mpi" else ""
        words = f"{{reduce: {reduce}{algorithm}, codec: {codec}, bucket_bytes: {bucket}}}"
        found[words] = forecast(asked, profile, given)
    return sorted(found.items(), key=lambda each: each[1].iteration_seconds)
