"""The one registry of checks: what is looked at, how bad it is, and what cures it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from fleetctl.rack import Rack
from fleetctl.state.facts import Status

type Scope = Literal["rack", "controller", "phone", "packages"]

_SEVERITY: dict[Status, int] = {"OK": 0, "WARN": 1, "UNKNOWN": 2, "CRITICAL": 3}


@dataclass(frozen=True, slots=True)
class Result:
    """Answer of one check. UNKNOWN: it could not be looked at, which is not the same as bad.

    `ordinary` UNKNOWN is nobody's failure: nothing here could tell, or another check has said why.
    """

    status: Status
    message: str
    ordinary: bool = False

    @property
    def missed(self) -> bool:
        """Whether it should have been found out, and was not."""
        return self.status == "UNKNOWN" and not self.ordinary


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `function(facts, rack)` looks at facts that were gathered before; it is pure.

    The facts of scope `rack` are the rack itself. Level 1 takes seconds, is quick enough for every
    launch, and costs one call a phone for all checks together; level 2 takes a minute, level 3 is
    a burn-in. `limits` names the rack file's thresholds that it goes by. One that `drains` keeps
    the phones out of jobs that fail it, until it finds them good.
    """

    name: str
    scope: Scope
    level: int
    cure: str
    function: Callable[[Any, Rack], Result]
    limits: tuple[str, ...] = ()
    drains: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check and what it answered."""

    check: Check
    result: Result


_checks: dict[str, Check] = {}


def check[Function: Callable[[Any, Rack], Result]](
    *,
    name: str,
    scope: Scope,
    cure: str,
    level: int = 1,
    limits: tuple[str, ...] = (),
    drains: bool = False,
) -> Callable[[Function], Function]:
    """Register the decorated function as a check."""

    def register(function: Function) -> Function:
        if name in _checks:
            raise ValueError(f"two checks are called {name}")
        _checks[name] = Check(name, scope, level, cure, function, limits, drains)
        return function

    return register


def checks(scope: Scope, level: int = 1) -> list[Check]:
    """Registered checks of `scope` up to `level`, the quick ones first, else as registered."""
    found = [item for item in _checks.values() if item.scope == scope and item.level <= level]
    return sorted(found, key=lambda item: item.level)


def run_checks(scope: Scope, facts: Any, rack: Rack, level: int = 1) -> list[Outcome]:
    """Run all checks of `scope` on `facts`. A check that breaks answers UNKNOWN."""
    return [Outcome(item, _answer(item, facts, rack)) for item in checks(scope, level)]


def all_checks() -> list[Check]:
    """Every check that the imported modules have registered."""
    return list(_checks.values())


def worst(results: Iterable[Result]) -> Status:
    """The gravest status of all, OK if there is none; what is ordinarily unknown counts for
    nothing."""
    statuses: list[Status] = [
        result.status for result in results if result.missed or result.status != "UNKNOWN"
    ]
    return max(statuses, key=_SEVERITY.__getitem__, default="OK")


def _answer(item: Check, facts: Any, rack: Rack) -> Result:
    try:
        return item.function(facts, rack)
    except Exception as problem:
        return Result("UNKNOWN", f"the check itself broke: {type(problem).__name__}: {problem}")
