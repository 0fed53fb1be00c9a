"""The dashboard of runs: what they learn, how fast, and who holds whom up."""

from __future__ import annotations

from exporters.dashboards.grafana import Json, Panel, Query, Steps, several
from exporters.dashboards.shared import (
    CELSIUS,
    NEEDS_RUN,
    RACK,
    RUNS,
    dashboard,
    listing,
    number,
)

RUN = f'{RACK}, run=~"$run"'
INFO = f"phonerack_training_info{{{RUN}}}"
RANK = "{{run}} {{rank}} {{phone}}"
STRAGGLING: Steps = (("green", None), ("orange", 1.15), ("red", 1.3))


def _joined(metric: str) -> str:
    """A metric of the phones of the runs, with their run and rank as labels."""
    return f"{metric}{{{RACK}}} * on (rack, phone) group_left (run, rank) {INFO}"


def _by_run(operation: str, metric: str) -> str:
    return f"{operation} by (run) ({_joined(metric)})"


IMAGES = (
    f"sum by (run) (rate(phonerack_training_images_total{{{RACK}}}[$__rate_interval])"
    f" * on (rack, phone) group_left (run) {INFO})"
)


def _ranks(title: str, description: str, unit: str, expression: str) -> Panel:
    queries = (Query(expression, RANK),)
    return Panel(title, description, unit, queries, least=0, may_be_empty=NEEDS_RUN)


SECTIONS: dict[str, tuple[Panel, ...]] = {
    "Runs": (
        number(
            "Phones at work",
            "Phones that the runs hold, spares included.",
            "none",
            f"sum({RUNS})",
            may_be_empty=NEEDS_RUN,
        ),
        number(
            "Done",
            "Iterations done, of those that the run has; of several runs the one furthest back.",
            "percentunit",
            f"min({_by_run('max', 'phonerack_training_iteration')}"
            f" / {_by_run('max', 'phonerack_training_iterations')})",
            least=0,
            most=1,
            may_be_empty=NEEDS_RUN,
        ),
        number(
            "Epoch",
            "Epoch that the newest run is in.",
            "none",
            f"max({_joined('phonerack_training_epoch')})",
            may_be_empty=NEEDS_RUN,
        ),
        number(
            "Speed",
            "Images that all phones train on together.",
            "suffix: images/s",
            f"sum({IMAGES})",
            may_be_empty=NEEDS_RUN,
        ),
        number(
            "Test accuracy",
            "Share of the test images told right at the last evaluation.",
            "percentunit",
            f"max({_joined('phonerack_training_test_accuracy_ratio')})",
            least=0,
            most=1,
            may_be_empty=NEEDS_RUN,
        ),
        number(
            "Efficiency",
            "Compute, of compute and waiting for the exchange: 1 would be training without a "
            "network.",
            "percentunit",
            f"min(run:training_efficiency:ratio{{{RUN}}})",
            (("red", None), ("orange", 0.6), ("green", 0.8)),
            least=0,
            most=1,
            may_be_empty=NEEDS_RUN,
        ),
    ),
    "Learning": (
        Panel(
            "Loss",
            "Mean over the ranks of the loss on their own samples in the last iteration.",
            "none",
            (Query(f"run:training_loss:avg{{{RUN}}}", "{{run}}"),),
            least=0,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Accuracy",
            "Share of the test images told right, at each evaluation.",
            "percentunit",
            (Query(_by_run("max", "phonerack_training_test_accuracy_ratio"), "{{run}}"),),
            least=0,
            most=1,
            may_be_empty="Empty before a run's first evaluation.",
        ),
        Panel(
            "Progress",
            "Iterations done, of those that the run has.",
            "percentunit",
            (
                Query(
                    f"{_by_run('max', 'phonerack_training_iteration')}"
                    f" / {_by_run('max', 'phonerack_training_iterations')}",
                    "{{run}}",
                ),
            ),
            least=0,
            most=1,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Images per second",
            "All ranks of a run together.",
            "suffix: images/s",
            (Query(IMAGES, "{{run}}"),),
            least=0,
            may_be_empty=NEEDS_RUN,
        ),
    ),
    "Where an iteration's time goes": (
        Panel(
            "Compute and wait",
            "Mean over the ranks: compute, and the part of the exchange that compute did not hide. "
            "Together they are an iteration.",
            "s",
            (
                Query(
                    f"avg({_joined('phonerack_training_compute_seconds')})",
                    "compute",
                ),
                Query(f"avg({_joined('phonerack_training_wait_seconds')})", "wait"),
            ),
            least=0,
            stacked=True,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Efficiency of runs",
            "Compute, of compute and wait.",
            "percentunit",
            (Query(f"run:training_efficiency:ratio{{{RUN}}}", "{{run}}"),),
            least=0,
            most=1,
            may_be_empty=NEEDS_RUN,
        ),
        _ranks(
            "Compute by rank",
            "A rank above the others holds all of them up.",
            "s",
            _joined("phonerack_training_compute_seconds"),
        ),
        _ranks(
            "Exchange by rank",
            "Time of the gradient exchange, hidden behind compute or not.",
            "s",
            _joined("phonerack_training_exchange_seconds"),
        ),
        _ranks(
            "Wait by rank",
            "The fast ranks wait for the slow one: whoever waits least may be the culprit.",
            "s",
            _joined("phonerack_training_wait_seconds"),
        ),
        _ranks(
            "Images by rank",
            "A plan that deals by speed gives the fast ranks more.",
            "suffix: images/s",
            f"rate(phonerack_training_images_total{{{RACK}}}[$__rate_interval])"
            f" * on (rack, phone) group_left (run, rank) {INFO}",
        ),
    ),
    "Stragglers": (
        Panel(
            "Against the fastest",
            "How many times as long as the fastest rank of its run a rank computes: so long the "
            "others wait.",
            "suffix: x",
            (Query(f"phone:straggler_of_fastest:ratio{{{RUN}}}", RANK),),
            "bargauge",
            least=1,
            decimals=2,
            steps=STRAGGLING,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Against its own best",
            "How many times as long as the phone itself has needed for a sample in this run: above "
            "1 it has become slower, by heat or by another program.",
            "suffix: x",
            (Query(f"phone:straggler_of_own_best:ratio{{{RUN}}}", RANK),),
            least=1,
            steps=STRAGGLING,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Temperature of ranks",
            "Of the batteries: a straggler that is hotter than the others is throttled.",
            "celsius",
            (Query(_joined("phonerack_battery_temperature_celsius"), RANK),),
            steps=CELSIUS,
            may_be_empty=NEEDS_RUN,
        ),
        Panel(
            "Frequency of ranks",
            "What the most throttled cluster of cores may reach, of what it is built for.",
            "percentunit",
            (
                Query(
                    f"phone:frequency_limit:ratio{{{RACK}}}"
                    f" * on (rack, phone) group_left (run, rank) {INFO}",
                    RANK,
                ),
            ),
            least=0,
            most=1,
            may_be_empty="Empty without a run, and where the vendor denies frequencies.",
        ),
    ),
    "Ranks": (
        listing(
            "Ranks now",
            "Which phone is which rank, and how many iterations it has done.",
            _joined("phonerack_training_iteration"),
            ("run", "rank", "phone", "switch", "port"),
            value="iterations",
            may_be_empty=NEEDS_RUN,
        ),
        _ranks(
            "Age of the last word",
            "Time since each rank wrote its progress, by its own clock; a rank that stands still "
            "rises.",
            "s",
            f"(phonerack_clock_timestamp_seconds{{{RACK}}}"
            f" - phonerack_training_updated_timestamp_seconds{{{RACK}}})"
            f" * on (rack, phone) group_left (run, rank) {INFO}",
        ),
    ),
}


def build() -> Json:
    return dashboard(
        "training",
        "What runs learn, how fast, where the time goes, and which rank holds the others up.",
        SECTIONS,
        (several("run", "Run", 'label_values(phonerack_training_info{rack="$rack"}, run)'),),
        since="now-30m",
    )
