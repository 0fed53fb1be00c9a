"""Switches in any state: a change leads to what is wanted, and nobody is cut off on the way."""

from __future__ import annotations

from dataclasses import replace

from conftest import KINDS, Case, make_case, small_rack
from hypothesis import given
from hypothesis import strategies as st
from model_switch import Refused

from fleetctl.switches.errors import RefusedError
from fleetctl.switches.platforms import platform
from standin.switches.state import effects

VLANS = (5, 10, 20, 30, 40)


@st.composite
def vlan_lists(draw: st.DrawFn) -> str:
    kind = draw(st.sampled_from(["", "add ", "remove ", "except "]))
    return kind + ",".join(map(str, draw(st.sets(st.sampled_from(VLANS), min_size=1))))


INTERFACE_LINES = st.one_of(
    st.sampled_from(
        ["shutdown", "no shutdown", "switchport mode access", "switchport mode trunk"]
        + ["spanning-tree portfast", "spanning-tree bpduguard enable", "no channel-group"]
        + ["storm-control broadcast level 5", "description left", "speed 100", "no switchport"]
        + ["switchport trunk allowed vlan all", "switchport trunk allowed vlan none"]
        + [f"channel-group {group} mode active" for group in (1, 2, 3)]
    ),
    st.sampled_from(VLANS).map("switchport access vlan {}".format),
    st.sampled_from(VLANS).map("switchport trunk native vlan {}".format),
    vlan_lists().map("switchport trunk allowed vlan {}".format),
)
VLAN_LINES = st.tuples(
    st.sampled_from(VLANS).map("vlan {}".format),
    st.sampled_from(["name phones", "name cameras", "name cellar", "no name"]),
)


@st.composite
def histories(draw: st.DrawFn, name: str) -> list[str]:
    """What people typed before phonerack came, in blocks of one interface or VLAN."""
    ports = platform(name).interfaces(9)
    bundles = [f"{platform(name).bundle_interface}{number}" for number in (1, 2)]  # type: ignore[attr-defined]
    blocks = draw(
        st.lists(
            st.one_of(
                VLAN_LINES.map(list),
                st.tuples(
                    st.sampled_from([*ports, *bundles, *ports[6:]]).map("interface {}".format),
                    st.lists(INTERFACE_LINES, min_size=1, max_size=5),
                ).map(lambda block: [block[0], *block[1]]),
            ),
            max_size=12,
        )
    )
    return [line for block in blocks for line in block]


def lived_in(name: str, history: list[str], was_right: bool) -> Case:
    """A switch with that history, new or right before it.

    Lines that the switch would not take are no part of the history.
    """
    case = make_case(name, small_rack(name, snmp="snmp_community"))
    if was_right:
        case.converge()
    place = ""
    for line in history:
        if line.startswith(("interface ", "vlan ")):
            place = line
        try:
            case.switch.type([place, line] if line != place else [line])
        except Refused:
            continue
    return case


def let_in(case: Case) -> dict[str, frozenset[int]]:
    """VLANs that each port would carry if they all existed."""
    settings = replace(case.switch.settings, vlans=dict.fromkeys(VLANS, ""))
    return {name: port.vlans for name, port in effects(settings, strict_bundles=True).items()}


@given(st.sampled_from(list(KINDS)), st.data(), st.booleans())
def test_a_change_leads_to_what_is_wanted_and_the_next_one_is_empty(
    name: str, data: st.DataObject, was_right: bool
) -> None:
    case = lived_in(name, data.draw(histories(name)), was_right)
    try:
        change = case.plan()
    except RefusedError:
        return  # reserved ports in a bundle of ours, or a name that they need
    case.switch.type(change.commands)
    running = case.platform.read(case.switch.running(), case.intent)
    assert running.config == change.after
    assert case.plan().commands == ()


@given(st.data(), st.booleans())
def test_no_step_on_ios_takes_a_vlan_from_a_port_that_keeps_it_or_lets_a_strange_one_in(
    data: st.DataObject, was_right: bool
) -> None:
    case = lived_in("cisco_ios", data.draw(histories("cisco_ios")), was_right)
    try:
        change = case.plan()
    except RefusedError:
        return
    before, let_in_before = case.switch.effects(), let_in(case)
    trial = make_case("cisco_ios")
    trial.switch.settings = case.switch.settings.copy()
    trial.switch.type(change.commands)
    after, let_in_after = trial.switch.effects(), let_in(trial)

    def watch(line: str) -> None:
        now_let_in = let_in(case)
        for name, now in case.switch.effects().items():
            old, new = before[name], after[name]
            if old.up and new.up:
                assert now.up, f"{name} went down at `{line}`"
                lost = (old.vlans & new.vlans) - now.vlans
                assert not lost, f"{name} lost {lost} at `{line}`"
                strange = now_let_in[name] - let_in_before[name] - let_in_after[name]
                assert not strange, f"{name} let {strange} in at `{line}`"

    case.switch.type(change.commands, watch)


@given(st.sampled_from(list(KINDS)), st.data())
def test_reserved_ports_and_their_vlans_stay_as_they_are(name: str, data: st.DataObject) -> None:
    case = lived_in(name, data.draw(histories(name)), was_right=True)
    try:
        change = case.plan()
    except RefusedError:
        return
    (reserved,) = (port.interface for port in case.intent.ports if port.role == "reserved")
    was, carried = case.switch.settings.interfaces[reserved].copy(), case.switch.effects()[reserved]
    case.switch.type(change.commands)
    assert case.switch.settings.interfaces[reserved] == was
    now = case.switch.effects()[reserved]
    # New VLANs also reach a port that waited for them; none is lost.
    assert now.vlans >= carried.vlans
