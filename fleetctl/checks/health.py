"""What a check of phones leaves in the state: that they answered, and how they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleetctl.checks.phone import PhoneFacts
from fleetctl.checks.registry import Outcome, worst
from fleetctl.state import State


def keep(
    state: State, facts: Mapping[str, PhoneFacts], outcomes: Mapping[str, Sequence[Outcome]]
) -> None:
    """Note for each phone in `facts` its contact, and the worst that was found."""
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
    for name, found in outcomes.items():
        # A phone that is silent is lost; one that refuses, or is another, is out of order.
        if answered[name] is not False:
            status = worst(outcome.result for outcome in found)
            told = [o.result.message for o in found if o.result.status == status != "OK"]
            state.record_health(name, status, "; ".join(told))
