"""Make faults happen to stand-in phones, and undo them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fleetctl.rack import InputError
from standin import engine
from standin.daemon.control import ask, tell_of_change
from standin.effects import PLAYED, limit_processor, make, settle_started, undo_all
from standin.errors import StandinError
from standin.faults import Fault, Faults, observed, read_faults, write_faults
from standin.hardware.battery import EMPTY_PERCENT
from standin.hardware.files import kept_state
from standin.hardware.thermal import SHUTDOWN
from standin.rig import Rig, exclusive
from standin.share import QUOTA_PHONES_LIMIT
from standin.swapping import check_swap, swap, swap_back


@dataclass(frozen=True, slots=True)
class Seen:
    """A phone as it is. `faults` is None when it is down and no fault did it; then `why` may say
    what did."""

    state: str
    faults: Faults | None
    why: str | None = None


def look(rig: Rig) -> dict[str, Seen]:
    """Every phone's real state; what was recorded and is no longer true does not show."""
    containers, ports = rig.containers(), rig.ports()
    recorded, wired = read_faults(rig.folders.faults), rig.wired

    def seen(phone: str) -> Seen:
        container = containers.get(phone)
        port = ports.get(wired.ports[phone].name)
        # A phone whose port leads elsewhere has no cable that could be pulled.
        is_up = port.is_up if port and rig.on_hub(phone) else None
        faults = observed(recorded.get(phone, {}), container, is_up)
        if container is None:
            return Seen("missing", faults)
        why = _why_dead(rig, phone) if faults is None else None
        return Seen(container.state, faults, why)

    return {phone: seen(phone) for phone in rig.rack.phones}


def _why_dead(rig: Rig, phone: str) -> str | None:
    state = kept_state(rig.folders.hardware(phone))
    if state and state.heat.status == SHUTDOWN:
        return f"too hot, {state.heat.body_celsius:.0f} °C"
    if state and state.battery.charge_percent <= EMPTY_PERCENT:
        return "battery empty"
    return None


def set_faults(rig: Rig, phones: Sequence[str], faults: Sequence[Fault]) -> dict[str, str]:
    """Set `faults` on every phone of `phones`; returns what went wrong, by phone.

    Raises InputError where the rack is too large for `slow` or two phones cannot be exchanged, and
    StandinError where nobody is there to play one.
    """
    swaps = [str(fault.value) for fault in faults if fault.kind == "swap-port"]
    if swaps:
        check_swap(rig, phones, swaps)
        with exclusive(rig.rack.name):
            swap(rig, phones[0], swaps[0])
        tell_of_change(rig.folders.root)
    faults = [fault for fault in faults if fault.kind != "swap-port"]
    if not faults:
        return {}
    kinds = {fault.kind for fault in faults}
    if "slow" in kinds and rig.cpu(next(iter(rig.rack.phones))) is None:
        raise InputError(
            f"slow works on racks of up to {QUOTA_PHONES_LIMIT} phones: beyond that a phone has "
            f"no fixed share of the processor to be slower than, and this rack has "
            f"{len(rig.rack.phones)}"
        )
    if kinds & PLAYED:
        ask(rig.folders.root, "status")

    def work(phone: str, present: Faults) -> None:
        for fault in faults:
            _set(rig, phone, fault, present)

    return _on_each(rig, phones, work)


def heal(rig: Rig, phones: Sequence[str]) -> dict[str, str]:
    """Undo all faults of `phones`, and start those that died; returns what went wrong, by phone."""

    def work(phone: str, present: Faults) -> None:
        container = engine.container(rig.container_name(phone))
        if container.state == "paused":
            engine.thaw(container.name)
        if container.state == "dead":
            engine.start(container.name)
            container = engine.container(container.name)
            settle_started(rig, container, {})
        starts_anew = undo_all(rig, container, present)
        present.clear()
        if starts_anew:
            _restart(rig, phone, present)
        else:
            limit_processor(rig, phone, present)
            rig.replug(phone)

    with exclusive(rig.rack.name):
        swap_back(rig, phones)
    return _on_each(rig, phones, work)


def _set(rig: Rig, phone: str, fault: Fault, present: Faults) -> None:
    """Make one fault happen and note it in `present`."""
    container = engine.container(rig.container_name(phone))
    if container.state == "dead":
        if fault.kind != "kill":
            raise StandinError(f"{fault.kind}: {phone} is dead; heal it first")
    elif fault.kind == "kill":
        engine.kill(container.name)
        present.pop("hang", None)
    elif fault.kind == "hang":
        if container.state == "running":
            engine.freeze(container.name)
    elif fault.kind == "reboot":
        _restart(rig, phone, present)
        return
    elif make(rig, container, fault.kind, fault.value, present):
        _restart(rig, phone, present)
    present[fault.kind] = fault.value
    if fault.kind == "slow":
        limit_processor(rig, phone, present)


def _restart(rig: Rig, phone: str, present: Faults) -> None:
    container = engine.container(rig.container_name(phone))
    if container.state == "paused":
        engine.thaw(container.name)
        present.pop("hang", None)
    engine.restart(container.name)
    settle_started(rig, engine.container(container.name), present)


def _on_each(
    rig: Rig, phones: Iterable[str], work: Callable[[str, Faults], None]
) -> dict[str, str]:
    """`work` on each phone with its recorded faults, side by side; what it leaves is recorded."""
    with exclusive(rig.rack.name):
        recorded = read_faults(rig.folders.faults)

        def attempt(phone: str) -> tuple[str, str]:
            try:
                work(phone, recorded.setdefault(phone, {}))
            except StandinError as problem:
                return phone, str(problem)
            return phone, ""

        try:
            with ThreadPoolExecutor(max_workers=8) as pool:
                outcomes = list(pool.map(attempt, phones))
        finally:
            write_faults(rig.folders.faults, recorded)
            tell_of_change(rig.folders.root)
    return {phone: problem for phone, problem in outcomes if problem}
