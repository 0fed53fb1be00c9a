"""How `launch --dry-run` shows a run before it is one."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fleetctl.jobs.preview import Preview
    from trainer.formats import Plan

_COLUMNS = ("RANK", "PHONE", "ADDRESS", "SWITCH", "SAMPLES", "DATA TO COME", "PREFLIGHT")


def as_json(seen: Preview) -> dict[str, Any]:
    return {"dry_run": seen.as_json()}


def render(seen: Preview) -> str:
    """Sections of text; the plan itself comes last."""
    from fleetctl.cli.output import make_table

    parts = [_heading(seen), _drawn(make_table(_COLUMNS, _rows(seen)))]
    remarks = [f"{rank.phone}: {text}" for rank in seen.ranks for text in rank.remarks]
    if remarks:
        parts.append("\n".join(["preflight remarks:", *remarks]))
    parts.append(_what_goes_there(seen))
    parts.append(f"host file, on every phone:\n{seen.host_file.rstrip()}")
    head = seen.ranks[0].phone
    parts.append(f"mpirun, on {head}:\n{shlex.join(seen.mpirun)}")
    if seen.plan is not None:
        parts.append(f"plan:\n{seen.plan.to_json(indent=2).rstrip()}")
    return "\n\n".join(parts)


def _heading(seen: Preview) -> str:
    from fleetctl.jobs.jobfile import duration_words
    from fleetctl.rack.nodesets import fold

    switches = {rank.switch for rank in seen.ranks if rank.switch}
    words = f"{seen.name}: {len(seen.ranks)} phones"
    if switches:
        words += f" on {len(switches)} switch{'es' if len(switches) > 1 else ''}"
    if seen.spares:
        words += f"; spare: {fold(seen.spares)}"
    if seen.time_limit_seconds:
        words += f"; time limit {duration_words(seen.time_limit_seconds)}"
    lines = [words, f"preflight took {seen.preflight_seconds:.1f} s"]
    if seen.waits:
        lines.append(f"it would wait in the queue; shown as if it began now: {seen.waits}")
    lines += [f"left out for its heat: {phone}: {why}" for phone, why in seen.avoided.items()]
    if seen.plan is not None:
        lines.append(f"exchange: {_exchange(seen.plan)}")
    return "\n".join([*lines, "nothing was written, here or on a phone"])


def _exchange(plan: Plan) -> str:
    exchange = plan.exchange
    if not exchange.enabled:
        return "none, each phone trains alone"
    bucket = exchange.bucket_bytes
    buckets = {"all": "one bucket", "each": "a bucket a tensor"}.get(
        str(bucket), f"buckets of {bucket} bytes"
    )
    codec = "" if exchange.codec == "none" else f", codec {exchange.codec}"
    return (
        f"{exchange.reduce} over {exchange.transport}, {buckets}, segments of "
        f"{exchange.segment_bytes} bytes{codec}; global batch {plan.global_batch}"
    )


def _what_goes_there(seen: Preview) -> str:
    files = f"files: {', '.join(seen.files)}" if seen.files else "files: none of yours"
    if seen.data is None:
        return files
    total = sum(rank.lacking_bytes or 0 for rank in seen.ranks)
    if not total:
        return f"data set {seen.data}: every phone that was asked has what it needs\n{files}"
    return f"data set {seen.data}: {total:,} bytes in all, {seen.how}\n{files}"


def _rows(seen: Preview) -> list[list[object]]:
    return [
        [
            rank.rank,
            rank.phone,
            rank.address,
            rank.switch,
            rank.samples,
            None if rank.lacking_bytes is None else f"{rank.lacking_bytes:,}",
            rank.preflight,
        ]
        for rank in seen.ranks
    ]


def _drawn(table: Any) -> str:
    from fleetctl.cli.output import stdout

    console = stdout()
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip()
