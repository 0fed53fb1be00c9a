"""How `plan` shows what a job would take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fleetctl.plan.forecast import Forecast

_COLUMNS = (
    *("PHONES", "ITERATION", "COMPUTE", "EXCHANGE", "HIDDEN", "IMAGES/S", "SPEED-UP"),
    *("EFFICIENCY", "EPOCH", "REMARKS"),
)


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
    one = forecasts[0].images_per_second
    rows = []
    for each in forecasts:
        gain = each.images_per_second / one
        rows.append(
            [
                len(each.phones),
                seconds(each.iteration_seconds),
                seconds(each.compute_seconds),
                seconds(each.exchange_seconds) if each.exchange_seconds else None,
                seconds(each.hidden_seconds) if each.hidden_seconds else None,
                f"{each.images_per_second:.3g}",
                f"{gain:.2f}",
                f"{gain / len(each.phones):.0%}",
                seconds(each.iteration_seconds * iterations_per_epoch),
                "; ".join(_remarks(each)) or None,
            ]
        )
    click.echo()
    print_table(_COLUMNS, rows)
    if ways:
        click.echo(f"\nexchange with {_phones(chosen)}, as the job file would ask for it:\n")
        print_table(
            ("ITERATION", "EXCHANGE"),
            [[seconds(each.iteration_seconds), words] for words, each in ways],
        )


def _phones(forecast: Forecast) -> str:
    count = len(forecast.phones)
    return "1 phone" if count == 1 else f"{count} phones"


def _remarks(forecast: Forecast) -> list[str]:
    from fleetctl.rack.nodesets import fold

    found = []
    if forecast.too_large:
        found.append(f"too large a share for the memory of {fold(forecast.too_large)}")
    if forecast.beyond:
        found.append("beyond the batches that were measured")
    return found
