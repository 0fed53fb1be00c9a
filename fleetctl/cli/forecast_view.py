"""How `plan` shows what a job would take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fleetctl.plan.forecast import Forecast


def as_json(
    forecasts: Sequence[Forecast],
    chosen: Forecast,
    ways: Sequence[tuple[str, Forecast]],
    iterations_per_epoch: int,
    epochs: int,
) -> dict[str, Any]:
    return {
        "phones": list(chosen.phones),
        "iterations_per_epoch": iterations_per_epoch,
        "epochs": epochs,
        "seconds": chosen.iteration_seconds * iterations_per_epoch * epochs,
        "forecasts": [each.as_json() for each in forecasts],
        "exchanges": [
            {"exchange": words, "iteration_seconds": each.iteration_seconds} for words, each in ways
        ],
    }


def show(
    forecasts: Sequence[Forecast],
    chosen: Forecast,
    ways: Sequence[tuple[str, Forecast]],
    iterations_per_epoch: int,
    epochs: int,
) -> None:
    """The answer in a sentence, then the tables that it comes from."""
    from fleetctl.bench.tables import seconds
    from fleetctl.cli.output import print_table
    from fleetctl.jobs.jobfile import duration_words
    from fleetctl.plan.forecast import soonest
    from fleetctl.rack.nodesets import fold

    whole = chosen.iteration_seconds * iterations_per_epoch * epochs
    click.echo(
        f"worth it: {_phones(chosen)} ({fold(chosen.phones)}), {seconds(chosen.iteration_seconds)} "
        f"an iteration, {epochs} epochs in {duration_words(whole)} without tests and checkpoints"
    )
    best = soonest(forecasts)
    if best is not chosen:
        click.echo(f"soonest: {_phones(best)}, {seconds(best.iteration_seconds)} an iteration")
    click.echo()
    columns = _columns(forecasts, iterations_per_epoch)
    told = {name: cells for name, cells in columns.items() if any(cells)}
    print_table(list(told), list(zip(*told.values(), strict=True)))
    if ways:
        click.echo(f"\nexchange with {_phones(chosen)}, as the job file would ask for it:\n")
        print_table(
            ("ITERATION", "EXCHANGE"),
            [[seconds(each.iteration_seconds), words] for words, each in ways],
        )


def _columns(
    forecasts: Sequence[Forecast], iterations_per_epoch: int
) -> dict[str, list[str | None]]:
    """A row a forecast; one without a number has none to tell."""
    from fleetctl.bench.tables import seconds

    def time(value: float) -> str | None:
        return seconds(value) if value else None

    one = forecasts[0].images_per_second
    gains = [each.images_per_second / one for each in forecasts]
    return {
        "PHONES": [str(len(each.phones)) for each in forecasts],
        "ITERATION": [time(each.iteration_seconds) for each in forecasts],
        "COMPUTE": [time(each.compute_seconds) for each in forecasts],
        "EXCHANGE": [time(each.exchange_seconds) for each in forecasts],
        "HIDDEN": [time(each.hidden_seconds) for each in forecasts],
        "IMAGES/S": [f"{each.images_per_second:.3g}" for each in forecasts],
        "SPEED-UP": [
            f"{gain:.2f}, {gain / len(each.phones):.0%}"
            for gain, each in zip(gains, forecasts, strict=True)
        ],
        "EPOCH": [time(each.iteration_seconds * iterations_per_epoch) for each in forecasts],
        "REMARKS": ["; ".join(_remarks(each)) or None for each in forecasts],
    }


def _phones(forecast: Forecast) -> str:
    count = len(forecast.phones)
    return "1 phone" if count == 1 else f"{count} phones"


def _remarks(forecast: Forecast) -> list[str]:
    from fleetctl.rack.nodesets import fold

    found = []
    if forecast.too_large:
        found.append(f"too large a share for the memory of {fold(forecast.too_large)}")
    if forecast.beyond:
        found.append("extrapolated")
    return found
