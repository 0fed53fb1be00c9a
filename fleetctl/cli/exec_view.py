"""How `exec` shows what a command said on many phones: equal output once, for all of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleetctl.errors import ExitCode
from fleetctl.rack.nodesets import fold, fold_sentences
from fleetctl.remote.execute import Executed, not_run

MOST_NAMED = 3


def folded(texts: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Each text that is not empty with the phones that said it, in the order of the first."""
    owners: dict[str, list[str]] = {}
    for name, text in texts.items():
        if text:
            owners.setdefault(text, []).append(name)
    return list(owners.items())


def output_blocks(outcomes: Mapping[str, Executed]) -> list[str]:
    """Standard output: a head with the phones and their number, and what they said under it."""
    said = folded({name: outcome.stdout for name, outcome in outcomes.items()})
    return [f"{fold(names)} ({len(names)}):\n{_ended(text)}" for text, names in said]


def error_lines(outcomes: Mapping[str, Executed]) -> list[str]:
    """Standard error, each line behind the phones that said it."""
    said = folded({name: outcome.stderr for name, outcome in outcomes.items()})
    return [f"{fold(names)}: {line}" for text, names in said for line in text.splitlines()]


def remarks(outcomes: Mapping[str, Executed], command: str) -> list[str]:
    """What went wrong, a line for all phones with which the same did."""
    sentences = [
        (name, sentence)
        for name, outcome in outcomes.items()
        for sentence in _sentences(name, outcome, command)
    ]
    return fold_sentences(sentences)


def _sentences(name: str, outcome: Executed, command: str) -> Iterable[str]:
    if outcome.error is not None:
        yield str(outcome.error)
    elif outcome.interrupted and outcome.reached:
        yield f"{name}: interrupted"
    elif sentence := not_run(outcome.exit_code, command):
        yield f"{name}: {sentence}"
    elif outcome.exit_code:
        yield f"{name}: exit code {outcome.exit_code}"
    if not outcome.cleared:
        yield f"{name}: the command may still be running there; look when it answers again"
    if outcome.left_out_bytes:
        yield f"{name}: only the beginning of its output was kept; --stream shows all of it"


def summary(outcomes: Mapping[str, Executed]) -> str:
    """One line for the end."""
    good = sum(outcome.ok for outcome in outcomes.values())
    return f"{good} of {len(outcomes)} phones: exit code 0"


def waiting(outcomes: Mapping[str, Executed], names: Sequence[str]) -> str:
    """The line that is shown meanwhile."""
    left = [name for name in names if name not in outcomes]
    who = fold(left) if len(left) <= MOST_NAMED else f"{len(left)} phones"
    return f"{len(outcomes)} of {len(names)} are through, waiting for {who}"


def failed(outcomes: Mapping[str, Executed]) -> list[str]:
    return [name for name, outcome in outcomes.items() if not outcome.ok]


def exit_code(outcomes: Mapping[str, Executed]) -> ExitCode:
    """The one code for all phones."""
    if any(outcome.interrupted for outcome in outcomes.values()):
        return ExitCode.INTERRUPTED
    if not any(_answered(outcome) for outcome in outcomes.values()):
        return ExitCode.NONE_REACHABLE
    return ExitCode.SOME_PHONES_FAILED if failed(outcomes) else ExitCode.DONE


def _answered(outcome: Executed) -> bool:
    return outcome.reached or (outcome.error is not None and outcome.error.reached is True)


def as_json(rack: str, command: str, outcomes: Mapping[str, Executed]) -> dict[str, Any]:
    """The document of `exec -o json`."""
    return {
        "rack": rack,
        "command": command,
        "failed": failed(outcomes),
        "phones": {
            name: {
                "exit_code": outcome.exit_code,
                "stdout": outcome.stdout,
                "stderr": outcome.stderr,
                "left_out_bytes": outcome.left_out_bytes,
                "reached": outcome.reached,
                "interrupted": outcome.interrupted,
                "cleared": outcome.cleared,
                "problem": None if outcome.error is None else str(outcome.error),
                "seconds": round(outcome.seconds, 3),
            }
            for name, outcome in outcomes.items()
        },
    }


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
