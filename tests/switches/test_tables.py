"""Tables as real switches print them."""

from __future__ import annotations

import pytest
from conftest import Case, make_case

from fleetctl.switches.cabling import View
from fleetctl.switches.errors import UnreadableError
from fleetctl.switches.platforms import platform
from fleetctl.switches.tables import MAC_TABLE, NEIGHBOURS, read_macs, read_neighbours, read_view

IOS_MACS = """\
          Mac Address Table
-------------------------------------------

Vlan    Mac Address       Type        Ports
----    -----------       --------    -----
 All    0100.0ccc.cccc    STATIC      CPU
  10    0200.5e10.0001    DYNAMIC     Gi1/0/1
  10    0200.5e10.0002    DYNAMIC     Gi1/0/2
  10    0200.5e10.0005    DYNAMIC     Po1
   1    001c.7300.0001    DYNAMIC     Gi1/0/9
Total Mac Addresses for this criterion: 5
"""
IOS_NEIGHBOURS = """\
Capability codes:
    (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device
    (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other

Device ID           Local Intf     Hold-time  Capability      Port ID
sw2.lab.example     Gi1/0/7        120        B               Ethernet7
sw2.lab.example     Gi1/0/8        120        B               Ethernet8
core-router-of-the-bGi1/0/9        120        R               Gi0/0/1

Total entries displayed: 3

"""
EOS_MACS = """\
          Mac Address Table
------------------------------------------------------------------

Vlan    Mac Address       Type        Ports      Moves   Last Move
----    -----------       ----        -----      -----   ---------
  10    0200.5e10.0001    DYNAMIC     Et1        1       0:01:33 ago
  10    0200.5e10.0005    DYNAMIC     Po1        1       0:00:08 ago
Total Mac Addresses for this criterion: 2

          Multicast Mac Address Table
------------------------------------------------------------------

Vlan    Mac Address       Type        Ports
----    -----------       ----        -----
Total Mac Addresses for this criterion: 0
"""
EOS_NEIGHBOURS = """\
Last table change time   : 0:01:58 ago
Number of table inserts  : 2
Number of table deletes  : 0
Number of table drops    : 0
Number of table age-outs : 0

Port          Neighbor Device ID       Neighbor Port ID    TTL
---------- ------------------------ ---------------------- ---
Et7           sw2                      Ethernet7           120
Et8           sw2                      Ethernet8           120

"""
TEXTS = {
    "cisco_ios": {MAC_TABLE: IOS_MACS, NEIGHBOURS: IOS_NEIGHBOURS},
    "arista_eos": {MAC_TABLE: EOS_MACS, NEIGHBOURS: EOS_NEIGHBOURS},
}


def test_what_a_switch_hears_is_read_by_port(case: Case) -> None:
    view = read_view(case.platform, case.intent, TEXTS[case.platform.name])
    assert view.macs[1] == {"02:00:5e:10:00:01"}
    assert view.macs[7] == {"02:00:5e:10:00:05"}
    assert view.neighbours is not None
    assert (view.neighbours[7], view.neighbours[8]) == ("sw2", "sw2")


def test_what_the_switch_itself_is_counts_at_no_port() -> None:
    ios = make_case("cisco_ios")
    view = read_view(ios.platform, ios.intent, TEXTS["cisco_ios"])
    assert sorted(view.macs) == [1, 2, 7, 9]


@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda _: "", id="nothing"),
        pytest.param(lambda _: "% Invalid input detected at '^' marker.\n", id="rejected"),
        pytest.param(lambda text: text.replace("DYNAMIC", ""), id="other columns"),
        pytest.param(lambda text: text.split("----    ")[0] + "----\n", id="header only"),
    ],
)
def test_a_table_that_names_nobody_is_unknown_not_empty(name: str, spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(UnreadableError, match="sw1: `show mac address-table` "):
        read_macs(platform(name), "sw1", spoil(TEXTS[name][MAC_TABLE]))


def test_lldp_that_is_off_is_unknown_and_no_neighbour_is_none(case: Case) -> None:
    name = case.platform.name
    with pytest.raises(UnreadableError):
        read_neighbours(case.platform, "sw1", "% LLDP is not enabled\n")
    texts = {**TEXTS[name], NEIGHBOURS: "% LLDP is not enabled\n"}
    assert read_view(case.platform, case.intent, texts).neighbours is None
    lines = TEXTS[name][NEIGHBOURS].splitlines(keepends=True)
    nobody = "".join(line for line in lines if "sw2" not in line and "core" not in line)
    assert read_neighbours(case.platform, "sw1", nobody) == {}


def test_a_view_holds_nothing_but_ports_of_the_rack(case: Case) -> None:
    view = read_view(case.platform, case.intent, TEXTS[case.platform.name])
    assert isinstance(view, View)
    assert set(view.macs) <= {port.number for port in case.intent.ports}
