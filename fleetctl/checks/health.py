"""What a check of phones leaves in the state: that they answered, how they are, and drains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from fleetctl.checks.phone import PhoneFacts
from fleetctl.checks.registry import Outcome, worst
from fleetctl.state import Health, State

PREFLIGHT = "preflight"
"""Who looked, unless a caller says otherwise."""


def keep(
    state: State,
    facts: Mapping[str, PhoneFacts],
    outcomes: Mapping[str, Sequence[Outcome]],
    who: str = PREFLIGHT,
) -> None:
    """Note for each phone in `facts` its contact, and the worst that was found.

    Checks that drain do so, and lift what they drained themselves once they find it good; a drain
    by anybody else stays.
    """
    answered = {name: found.answered for name, found in facts.items()}
    state.record_contact(
        {name: yes for name, yes in answered.items() if yes is not None},
        why={name: found.problem for name, found in facts.items()},
    )
    state.record_revocations(
        {
            name: version
            for name, found in facts.items()
            if (version := found.revocations) is not None
        }
    )
    now = time.time()
    healths = {}
    for name, found in outcomes.items():
        # A phone that is silent is lost; one that refuses, or is another, is out of order.
        if answered[name] is not False:
            status = worst(outcome.result for outcome in found)
            results = (o.result for o in found)
            told = [r.message for r in results if r.status == status != "OK" and not r.ordinary]
            if status == "UNKNOWN" and facts[name].reached and not facts[name].problem:
                status = "WARN"  # it was looked at, and does not tell everything
            healths[name] = Health(status, "; ".join(told), now, who)
    state.record_healths(healths)
    _drain(state, outcomes)


def _drain(state: State, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    known = state.phones()
    mine = {
        name: {drain.who for drain in facts.drains if drain.origin == "check"}
        for name, facts in known.items()
    }
    bad: dict[tuple[str, str], list[str]] = {}
    good: dict[str, list[str]] = {}
    for name, found in outcomes.items():
        for outcome in found:
            check, result = outcome.check, outcome.result
            if not check.drains:
                continue
            if result.status == "CRITICAL":
                bad.setdefault((check.name, result.message), []).append(name)
            elif result.status in ("OK", "WARN") and check.name in mine.get(name, ()):
                good.setdefault(check.name, []).append(name)
    for (check_name, why), names in bad.items():
        state.drain(names, check_name, why, "check")
    for check_name, names in good.items():
        state.undrain(names, check=check_name)
