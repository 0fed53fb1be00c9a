"""The stand-in switch: what it takes and refuses, what it keeps, and its timers."""

from __future__ import annotations

import pytest
from bench import PORTS, Bench
from hypothesis import given
from hypothesis import strategies as st

from standin.switches.device import BOOT_SECONDS, Knobs
from standin.switches.editor import Kind
from standin.switches.grammar import Ambiguous, Incomplete, Invalid, Match, parse, patterns
from standin.switches.plane import Counters, End
from standin.switches.session import Session


@pytest.fixture
def ios() -> Bench:
    return Bench("ios")


@pytest.fixture
def eos() -> Bench:
    return Bench("eos")


# --- lines ----------------------------------------------------------------------------------------

TABLE = patterns(
    (text, text)
    for text in (
        *("show running-config", "show reload", "vlan VLANS", "description LINE"),
        *("switchport access vlan VLAN", "switchport trunk allowed vlan VLANS"),
        "switchport trunk allowed vlan add VLANS",
    )
)


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("sh ru", Match("show running-config", ("show", "running-config"), ())),
        ("SHOW RUN", Match("show running-config", ("show", "running-config"), ())),
        ("sh r", Ambiguous(1, "r")),
        ("s", Ambiguous(0, "s")),
        ("sh", Incomplete()),
        ("show x", Invalid(5, 1, "x")),
        ("show run x", Invalid(9, 2, "x")),
        ("vlan 0", Invalid(5, 1, "0")),
        ("vlan 4095", Invalid(5, 1, "4095")),
        ("sw tr al vl ad 10,20-30", None),
        ("sw tr al vl", Incomplete()),
        ("description  a  b ", Match("description LINE", ("description",), ("a  b",))),
    ],
)
def test_words_may_be_shortened_as_long_as_they_are_clear(line: str, parsed: object) -> None:
    found = parse(line, TABLE)
    if parsed is None:
        assert isinstance(found, Match)
        assert found.action == "switchport trunk allowed vlan add VLANS"
    else:
        assert found == parsed


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_no_line_breaks_a_switch(line: str) -> None:
    for kind in ("ios", "eos"):
        bench = Bench(kind)
        bench.type(line)
        bench = Bench(kind)
        bench.type("configure terminal", line, f"interface {PORTS[kind][0]}", line)


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("frobnicate", ["% Unknown command or computer name, or unable to find computer address"]),
        ("show frobnicate", ["            ^", "% Invalid input detected at '^' marker.", ""]),
        ("show", ["% Incomplete command.", ""]),
        ("c", ['% Ambiguous command:  "c"']),
    ],
)
def test_ios_is_wrong_in_its_own_words(ios: Bench, line: str, printed: list[str]) -> None:
    assert ios.type(line)[-len(printed) :] == printed


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("frobnicate x", "% Invalid input (at token 0: 'frobnicate')"),
        ("show frobnicate", "% Invalid input (at token 1: 'frobnicate')"),
        ("show", "% Incomplete command"),
        ("co", "% Ambiguous command (at token 0: 'co')"),
    ],
)
def test_eos_is_wrong_in_its_own_words(eos: Bench, line: str, printed: str) -> None:
    assert eos.type(line) == [printed]


def test_the_caret_stands_under_the_word(ios: Bench) -> None:
    ios.type("conf t", "int gi1/0/3")
    caret, *_ = ios.type("switchport acess vlan 10")
    assert caret.index("^") == len("Switch(config-if)#switchport ")


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (["interface GigabitEthernet1/0/99"], "% Invalid input detected at '^' marker."),
        (["interface Foo1"], "% Invalid input detected at '^' marker."),
        (["no interface Gi1/0/3"], "% Removal of physical interfaces is not permitted"),
        (["no vlan 1"], "%Default VLAN 1 may not be deleted."),
        (["vlan 1002"], "% Default VLAN may not be changed."),
        (
            ["vlan 10", "name a", "vlan 20", "name a"],
            "%VLAN #10 and #20 have an identical name: a",
        ),
        (["int gi1/0/1", "switchport access vlan 7"], "% Access VLAN does not exist. Creating"),
        (["int gi1/0/1", "channel-group 5 mode active"], "Creating a port-channel interface"),
        (["int gi1/0/1", "spanning-tree portfast"], "%Warning: portfast should only be enabled"),
    ],
)
def test_what_an_ios_switch_says_to_configuration(
    ios: Bench, lines: list[str], printed: str
) -> None:
    said = ios.type("configure terminal", *lines)
    assert any(line.startswith(printed) for line in said), said


def test_prompts_show_the_mode_and_long_names_are_cut_in_configuration(ios: Bench) -> None:
    assert ios.session.prompt == "Switch#"
    ios.type("conf t")
    assert ios.session.prompt == "Switch(config)#"
    for line, prompt in (
        ("int gi1/0/1", "(config-if)#"),
        ("vlan 10", "(config-vlan)#"),
        ("archive", "(config-archive)#"),
        ("ip access-list standard x", "(config-std-nacl)#"),
        ("exit", "(config)#"),
        ("hostname a-name-of-25-characters-x", "a-name-of-25-cha(config)#"),
        ("end", "a-name-of-25-characters-x#"),
    ):
        ios.type(line)
        assert ios.session.prompt.endswith(prompt)


def test_prompts_of_eos_name_place_and_session(eos: Bench) -> None:
    eos.type("configure session phonerack-change")
    assert eos.session.prompt == "localhost(config-s-phoner)#"
    eos.type("interface Et3")
    assert eos.session.prompt == "localhost(config-s-phoner-if-Et3)#"
    eos.type("vlan 10")
    assert eos.session.prompt == "localhost(config-s-phoner-vlan-10)#"


def test_enable_asks_for_a_password_three_times() -> None:
    bench = Bench()
    bench.device.enable_password = "secret"
    bench.session = Session(bench.device, "admin")
    assert bench.session.prompt == "Switch>"
    assert bench.type("show running-config")[-2] == "% Invalid input detected at '^' marker."
    bench.type("enable", "x", "y")
    assert bench.type("z") == ["% Bad secrets", ""]
    bench.type("enable", "secret")
    assert bench.session.prompt == "Switch#"


# --- what is kept ---------------------------------------------------------------------------------


def test_vlans_of_a_vtp_server_are_not_shown_and_survive_everything(ios: Bench) -> None:
    ios.type("conf t", "vlan 10", "name phones", "end")
    assert "vlan 10" not in ios.shown
    assert any(line.startswith("10   phones") for line in ios.type("show vlan brief"))
    ios.device.power_cycle("test")
    assert ios.device.running.vlans == {10: "phones"}
    ios.type("conf t", "vtp mode transparent", "end")
    assert "vlan 10\n name phones" in ios.shown


def test_what_is_not_saved_is_gone_after_a_reload(ios: Bench) -> None:
    ios.type("conf t", "hostname one", "end", "write memory", "conf t", "hostname two", "end")
    ios.device.power_cycle("test")
    assert ios.device.running.hostname == "one"
    assert ios.device.down
    ios.wait(BOOT_SECONDS)
    assert not ios.device.down


def test_saving_may_ask_first() -> None:
    bench = Bench(knobs=Knobs(asks_before_saving=True))
    bench.type("conf t", "hostname one", "end", "write memory")
    assert bench.session.prompt == "Overwrite the previous NVRAM configuration?[confirm]"
    assert bench.type("") == ["Building configuration...", "[OK]"]
    assert bench.device.saved


def test_long_lists_of_vlans_go_on_in_lines_of_add(ios: Bench) -> None:
    ios.type("conf t", "int gi1/0/1", "switchport trunk allowed vlan " + ",".join("2468"))
    ios.type("switchport trunk allowed vlan add 100,102,104,106,108,110,112,114")
    assert " switchport trunk allowed vlan add " in ios.shown


def test_no_before_a_list_allows_everything(ios: Bench) -> None:
    ios.type("conf t", "int gi1/0/1", "switchport trunk allowed vlan 10,20")
    ios.type("no switchport trunk allowed vlan 10")
    assert "allowed" not in ios.shown


# --- timers ---------------------------------------------------------------------------------------


def test_a_revert_timer_needs_an_archive(ios: Bench) -> None:
    assert ios.type("configure terminal revert timer 5") == [
        "%Turn config archive on before using Rollback Confirmed Change"
    ]
    assert ios.session.prompt == "Switch#"


def armed(bench: Bench, minutes: int = 5) -> None:
    bench.type("conf t", "archive", "path flash:x", "end", f"conf t revert timer {minutes}")
    bench.type("hostname changed", "end")


def test_a_change_that_nobody_confirms_is_taken_back(ios: Bench) -> None:
    armed(ios)
    ios.wait(299)
    assert ios.device.running.hostname == "changed"
    assert ios.type("show archive config rollback timer")[-2] == "Timer value: 5 min"
    ios.wait(1)
    assert ios.device.running.hostname == "Switch"
    assert ios.device.running.archive_path == "flash:x"
    assert ios.type("configure confirm") == ["%No Rollback Confirmed Change pending"]


def test_a_change_that_is_confirmed_stays(ios: Bench) -> None:
    armed(ios)
    assert ios.type("configure confirm") == []
    ios.wait(3600)
    assert ios.device.running.hostname == "changed"


def test_a_change_can_be_taken_back_at_once(ios: Bench) -> None:
    armed(ios)
    assert "Rollback Done" in ios.type("configure revert now")
    assert ios.device.running.hostname == "Switch"


def test_a_session_that_stays_in_configuration_goes_on_with_what_came_back(ios: Bench) -> None:
    ios.type("conf t", "archive", "path flash:x", "end", "conf t revert timer 1", "hostname two")
    ios.wait(60)
    ios.type("vtp mode transparent")
    assert ios.device.running.hostname == "Switch"
    assert ios.device.running.vtp == "transparent"


def test_a_reload_in_some_minutes_asks_warns_and_comes(ios: Bench) -> None:
    heard: list[str] = []
    ios.device.on_message.append(heard.append)
    ios.type("conf t", "hostname changed", "end", "reload in 10")
    assert ios.session.prompt == "System configuration has been modified. Save? [yes/no]: "
    ios.type("maybe", "no")
    assert ios.session.prompt == "Proceed with reload? [confirm]"
    ios.type("")
    ios.wait(301)
    assert [text.split("---")[1] for text in heard] == [
        " SHUTDOWN in 0:10:00 ",
        " SHUTDOWN in 0:05:00 ",
    ]
    ios.wait(299)
    assert ios.device.running.hostname == "Switch"
    assert ios.device.log == ["went down: reload"]


def test_a_reload_can_be_cancelled(ios: Bench) -> None:
    ios.type("reload in 10", "", "reload cancel")
    ios.wait(3600)
    assert ios.device.log == []
    assert ios.type("show reload") == ["No reload is scheduled."]


def test_an_eos_session_changes_nothing_until_it_is_committed(eos: Bench) -> None:
    eos.type("configure session one", "hostname changed", "vlan 10", "name phones")
    assert eos.device.running.hostname == "localhost"
    diff = eos.type("show session-config diffs")
    assert "-hostname localhost" in diff
    assert "+vlan 10" in diff
    eos.type("commit")
    assert eos.device.running.hostname == "changed"
    assert eos.session.prompt == "changed#"
    assert eos.device.sessions == {}


def test_a_timed_commit_is_confirmed_from_outside_or_taken_back(eos: Bench) -> None:
    eos.type("configure session one", "hostname changed", "commit timer 00:05:00")
    assert "pendingCommitTimer" in " ".join(eos.type("show configuration sessions"))
    assert eos.type("configure session one")[0].startswith("% Cannot enter session one")
    eos.type("configure session two", "hostname other")
    assert "is pending commit timer" in eos.type("commit")[0]
    eos.type("end", "configure session one commit")
    eos.wait(3600)
    assert eos.device.running.hostname == "changed"

    eos.type("configure session three", "hostname again", "commit timer 00:00:30")
    eos.wait(30)
    assert eos.device.running.hostname == "changed"
    eos.type("configure session four", "hostname more", "commit timer 00:00:30")
    eos.type("configure session four abort")
    assert eos.device.running.hostname == "changed"


def test_a_switch_that_feeds_nobody_does_not_take_lines_that_say_how() -> None:
    ios, eos = Bench("ios"), Bench("eos")
    ios.type("conf t", "interface gi1/0/1")
    (*_, caret, refused, _) = ios.type("power inline never")
    assert (caret.strip(), refused) == ("^", "% Invalid input detected at '^' marker.")
    unavailable = "% Unavailable command (not supported on this hardware platform)"
    assert eos.type("show poe") == [unavailable]
    eos.type("conf t", "interface et1")
    assert eos.type("poe disabled") == [unavailable]
    assert eos.type("no poe disabled") == [unavailable]
    assert eos.device.running.interfaces["Ethernet1"].other == ()
    feeding = Bench("eos", knobs=Knobs(poe_watts=370.0))
    feeding.type("conf t", "interface et1")
    assert feeding.type("poe disabled") == []
    assert any(line.startswith("Et1 ") for line in feeding.type("show poe"))
    assert "   poe disabled" in feeding.type("show running-config")


@pytest.mark.parametrize(("kind", "short"), [("ios", "Gi1/0/"), ("eos", "Et")])
def test_counters_of_ports_show_what_the_data_plane_counts(kind: Kind, short: str) -> None:
    here = Bench(kind)
    here.network.traffic[End("sw1", PORTS[kind][1])] = Counters(
        octets_in=1500, frames_in=3, octets_out=640, frames_out=10
    )
    printed = here.type("show interfaces counters")
    rows = [line.split() for line in printed if line.strip()]
    ways = [row[1:] for row in rows if row[0] == "Port"]
    assert ways == [["InOctets", "InUcastPkts"], ["OutOctets", "OutUcastPkts"]]
    assert [row[1:] for row in rows if row[0] == f"{short}2"] == [["1500", "3"], ["640", "10"]]
    assert [row[1:] for row in rows if row[0] == f"{short}3"] == [["0", "0"], ["0", "0"]]
    assert len(rows) == 2 * (1 + len(PORTS[kind]))
