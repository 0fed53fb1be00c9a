"""What looks at phones leave in the state, and what is known then; else what the looks say."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from fleetctl.state import PhoneFacts, StateError

if TYPE_CHECKING:
    from fleetctl.checks.vitals import Vitals
    from fleetctl.cli.common import App
    from fleetctl.state import State


def keep_and_read(
    app: App, looks: Mapping[str, Vitals]
) -> tuple[dict[str, PhoneFacts], StateError | None]:
    """What is known of phones after these looks, and why not all of it is kept or known."""
    trouble = None
    try:
        _keep(app.state, looks)
    except StateError as problem:
        trouble = StateError(f"{problem}; what phones said now is not kept")
    try:
        known = app.state.phones()
    except StateError as problem:
        known = {}
        trouble = StateError(f"{problem}; drains, health and jobs are not known")
    return (_with(known, looks, time.time()) if trouble else known), trouble


def _keep(state: State, looks: Mapping[str, Vitals]) -> None:
    state.record_contact(
        {name: look.reached for name, look in looks.items() if look.reached is not None},
        why={name: look.problem for name, look in looks.items()},
        up_seconds={name: look.up_seconds for name, look in looks.items()},
    )
    state.record_revocations(
        {name: look.revocations for name, look in looks.items() if look.revocations is not None}
    )


def _with(
    known: Mapping[str, PhoneFacts], looks: Mapping[str, Vitals], now: float
) -> dict[str, PhoneFacts]:
    found = dict(known)
    for name, look in looks.items():
        if look.reached is not None:
            facts = known.get(name, PhoneFacts())
            contact = facts.contact.after(look.reached, now, look.problem, look.up_seconds)
            found[name] = replace(facts, contact=contact)
    return found
