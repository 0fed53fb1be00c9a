"""Checks of how a phone is reached, and how it reaches the others. Pure."""

from __future__ import annotations

from fleetctl.checks.answer import NOT_ASKED, PhoneFacts, unknown
from fleetctl.checks.links import MANY_FLAPS
from fleetctl.checks.registry import Result, check
from fleetctl.rack import Rack
from fleetctl.rack.nodesets import fold
from fleetctl.rack.variables import watched_switches
from fleetctl.remote.faults import Fault


@check(name="reachable", scope="phone", cure="see `fleetctl status`")
def reachable(facts: PhoneFacts, _: Rack) -> Result:
    """The phone answers over ssh."""
    if facts.reached:
        return Result("OK", "answers")
    if facts.fault is Fault.HOST_KEY_CHANGED:
        return Result("UNKNOWN", "nobody can tell whether it answers", ordinary=True)
    return Result("CRITICAL", facts.problem or "no answer")


@check(name="host-key", scope="phone", cure="see `fleetctl status`")
def host_key(facts: PhoneFacts, _: Rack) -> Result:
    """Who answers proves to be the phone that was enrolled under this name."""
    if facts.fault is Fault.HOST_KEY_CHANGED:
        return Result("CRITICAL", facts.problem or "another host key")
    return Result("OK", "its own host key") if facts.reached else NOT_ASKED


@check(name="name", scope="phone", cure="bring it its own with site.yml -l NAME")
def name(facts: PhoneFacts, _: Rack) -> Result:
    """It takes itself for the phone that it is: ranks tell of each other by that name."""
    if silent := unknown(facts):
        return silent
    if facts.bears is not None and facts.bears != facts.name:
        return Result("CRITICAL", f"was provisioned as {facts.bears}")
    return Result("OK", "bears its own name" if facts.bears else "has not been given a name")


@check(name="address", scope="phone", cure="check its DHCP reservation and the rack file")
def address(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone bears its address of the rack file, inside the rack's network."""
    if facts.moved_to:
        return Result(
            "CRITICAL",
            f"answers at {facts.moved_to} now, not at {facts.address}: its DHCP server has given "
            "it another address, and shall reserve the former one for it",
        )
    if silent := unknown(facts):
        return silent
    if facts.interfaces is None:
        return Result("UNKNOWN", "its interfaces cannot be read")
    if facts.interface is None:
        own = ", ".join(each for each in facts.interfaces if not each.startswith("127."))
        return Result(
            "CRITICAL",
            f"bears {own or 'no address'} instead of {facts.address} in {rack.network.cidr}",
        )
    return Result("OK", f"{facts.address} on {facts.interface}")


@check(
    name="clock",
    scope="phone",
    cure="set its clock in Android: nothing here may",
    limits=("max_clock_skew_seconds",),
)
def clock(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone's clock is near the controller's; training itself does not need it."""
    if silent := unknown(facts):
        return silent
    skew, limit = facts.clock_skew_seconds, rack.thresholds.max_clock_skew_seconds
    if skew is None:
        return Result("UNKNOWN", "its clock cannot be read")
    if skew > limit:
        return Result("WARN", f"its clock is {skew:.0f} s off, more than {limit:.0f} s")
    return Result("OK", f"clock within {skew:.0f} s")


@check(name="revocations", scope="phone", cure="bring it with site.yml -t ssh")
def revocations(facts: PhoneFacts, _: Rack) -> Result:
    """The phone no longer accepts the keys that the rack has revoked, and nothing but keys."""
    if silent := unknown(facts):
        return silent
    if facts.void_rules:
        return Result(
            "CRITICAL",
            f"its sshd does not go by the rack's {', '.join(facts.void_rules)}: sshd_config does "
            "not read sshd_config.d/phonerack.conf first",
        )
    seen, wanted = facts.revocations, facts.wanted_revocations
    if wanted is None:
        return Result("UNKNOWN", "which keys the rack has revoked cannot be read", ordinary=True)
    if (seen or 0) < wanted:
        has = "none" if seen is None else f"version {seen}"
        return Result("CRITICAL", f"its list of revoked keys is {has}, the rack's version {wanted}")
    if (seen or 0) > wanted:
        return Result(
            "WARN",
            f"its list of revoked keys is version {seen}, newer than the rack's {wanted}: "
            "is the controller's folder an old copy?",
        )
    return Result("OK", f"revocations {wanted}")


@check(name="neighbours", scope="phone", cure="bring them with site.yml -t ssh,openmpi")
def neighbours(facts: PhoneFacts, rack: Rack) -> Result:
    """The phone's lists of the others are those of the rack file."""
    if silent := unknown(facts):
        return silent
    known, wanted = facts.neighbours, {name: rack.phones[name].address for name in rack.enrolled}
    if known is None:
        return Result("UNKNOWN", "its list of the other phones cannot be read")
    missing = [name for name, address in wanted.items() if known.get(name) != address]
    if needed := [name for name in missing if name in facts.together]:
        return Result("CRITICAL", f"it does not know {fold(needed)}, or not by this address")
    if missing:
        return Result("WARN", f"it does not know {fold(missing)}, or not by this address")
    if gone := [name for name in known if name not in wanted]:
        return Result("WARN", f"it still knows {fold(gone)}")
    if list(facts.host_file or ()) != [wanted[name] for name in rack.ring()]:
        return Result("WARN", "its host file is not in the order of the rack file")
    return Result("OK", f"knows {len(known)} phones")


@check(
    name="link",
    scope="phone",
    cure="see PhoneLinkFlaps and PhoneLinkSlow in docs/runbooks/switches.md",
)
def link(facts: PhoneFacts, rack: Rack) -> Result:
    """Its link to the switch stays up, at full speed, and carries no damaged frames."""
    if facts.link is None and rack.phones[facts.name].switch in watched_switches(rack):
        return Result(
            "UNKNOWN",
            "nothing is recorded of its link, though its switch is watched: "
            "see `fleetctl check controller`",
        )
    if facts.link is None:
        return Result("OK", "no switch is watched that could tell of its link")
    if facts.link.flaps >= MANY_FLAPS:
        return Result("CRITICAL", facts.link.trouble)
    if facts.link.trouble:
        return Result("WARN", facts.link.trouble)
    if facts.link.speed_bytes is None:
        return Result("UNKNOWN", "its switch does not tell how fast its link is", ordinary=True)
    return Result("OK", "its link is up and clean")
