"""The stand-in switch: what it takes and refuses, its timers, and what it does to its ports."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standin.switches.device import BOOT_SECONDS, Device, Knobs
from standin.switches.editor import Kind
from standin.switches.grammar import Ambiguous, Incomplete, Invalid, Match, parse, patterns
from standin.switches.plane import End, MemoryNetwork
from standin.switches.session import Session
from standin.switches.terminal import Terminal

PORTS: dict[Kind, tuple[str, ...]] = {
    "ios": tuple(f"GigabitEthernet1/0/{n}" for n in range(1, 10)),
    "eos": tuple(f"Ethernet{n}" for n in range(1, 10)),
}
PHONE, OTHER, FAR = "02:00:5e:10:00:01", "02:00:5e:10:00:02", "02:00:5e:10:00:03"


@dataclass
class Bench:
    """A switch with a person at it and a clock that the test turns."""

    kind: Kind = "ios"
    knobs: Knobs = field(default_factory=Knobs)
    network: MemoryNetwork = field(default_factory=MemoryNetwork)
    name: str = "sw1"
    now: float = 0.0

    def __post_init__(self) -> None:
        self.device = Device(
            *(self.kind, PORTS[self.kind], self.network.plane(self.name), {"admin": "pw"}),
            lambda: self.now,
            self.knobs,
        )
        self.session = Session(self.device, "admin")

    def type(self, *lines: str) -> list[str]:
        """What the last line prints."""
        printed: list[str] = []
        for line in lines:
            printed = self.session.take(line)
        return printed

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.device.tick()

    @property
    def shown(self) -> str:
        return "\n".join(self.type("do show running-config" if self.session.editor else "sh run"))


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


# --- effects --------------------------------------------------------------------------------------


def two_switches() -> tuple[Bench, Bench]:
    """sw1 and sw2, joined at port 9; PHONE and OTHER at sw1, FAR at sw2."""
    one = Bench("ios")
    two = Bench("eos", network=one.network, name="sw2")
    one.network.cables.append((End("sw1", PORTS["ios"][8]), End("sw2", PORTS["eos"][8])))
    one.network.hosts |= {
        PHONE: End("sw1", PORTS["ios"][0]),
        OTHER: End("sw1", PORTS["ios"][1]),
        FAR: End("sw2", PORTS["eos"][0]),
    }
    return one, two


def test_a_new_network_lets_everybody_reach_everybody() -> None:
    one, _ = two_switches()
    assert one.network.reaches(PHONE, OTHER)
    assert one.network.reaches(PHONE, FAR)


def test_a_wrong_vlan_cuts_a_phone_off() -> None:
    one, _ = two_switches()
    one.type("conf t", "int gi1/0/1", "switchport access vlan 30")
    assert not one.network.reaches(PHONE, OTHER)
    assert one.network.reaches(OTHER, FAR)


def test_a_shutdown_takes_the_carrier() -> None:
    one, _ = two_switches()
    assert one.device.plane.linked(PORTS["ios"][0])
    one.type("conf t", "int gi1/0/1", "shutdown")
    assert not one.device.plane.linked(PORTS["ios"][0])
    row = next(
        line for line in one.type("do show interfaces status") if line.startswith("Gi1/0/1 ")
    )
    assert "disabled" in row


def test_a_trunk_without_the_vlan_splits_the_rack() -> None:
    one, two = two_switches()
    for bench in (one, two):
        port = PORTS[bench.kind]
        bench.type("conf t", "vlan 10", f"int {port[0]}", "switchport access vlan 10")
        bench.type(f"int {port[1]}", "switchport access vlan 10")
        bench.type(f"int {port[8]}", "switchport mode trunk")
    assert one.network.reaches(PHONE, FAR)
    two.type("switchport trunk allowed vlan 20")
    assert not one.network.reaches(PHONE, FAR)
    assert one.network.reaches(PHONE, OTHER)


def test_a_bundle_at_one_end_only_passes_nothing() -> None:
    one, two = two_switches()
    one.type("conf t", "int gi1/0/9", "channel-group 1 mode active")
    assert not one.network.reaches(PHONE, FAR)
    two.type("conf t", "int et9", "channel-group 1 mode active")
    assert one.network.reaches(PHONE, FAR)


def test_an_expired_timer_brings_a_phone_back() -> None:
    one, _ = two_switches()
    one.type("conf t", "archive", "path flash:x", "end", "conf t revert timer 5")
    one.type("int gi1/0/1", "shutdown")
    assert not one.network.reaches(PHONE, FAR)
    one.wait(300)
    assert one.network.reaches(PHONE, FAR)


def test_a_switch_without_power_passes_nothing_until_it_has_booted() -> None:
    one, _ = two_switches()
    one.device.power_cycle("test")
    assert not one.network.reaches(PHONE, OTHER)
    one.wait(BOOT_SECONDS)
    assert one.network.reaches(PHONE, OTHER)


def test_a_switch_managed_through_its_own_ports_can_cut_itself_off() -> None:
    one, two = two_switches()
    one.network.manager = PHONE
    assert two.device.plane.manageable()
    one.type("conf t", "int gi1/0/9", "shutdown")
    assert not two.device.plane.manageable()
    assert one.device.plane.manageable()


# --- the screen -----------------------------------------------------------------------------------


def screen(bench: Bench, keys: str) -> str:
    terminal = Terminal(bench.session)
    printed = ""
    for echo in terminal.keys(keys):
        printed += echo
        if terminal.entered is not None:
            line, terminal.entered = terminal.entered, None
            printed += terminal.answer(line)
    return printed


def test_long_output_comes_in_pages(ios: Bench) -> None:
    assert screen(ios, "show running-config\r").endswith(" --More-- ")
    whole = screen(Bench(), "show running-config\r" + " " * 2)
    assert whole.count(" --More-- ") == 2
    assert whole.endswith("end\r\nSwitch#")
    assert " --More-- " not in screen(Bench(), "terminal length 0\rshow running-config\r")


def test_a_question_mark_helps_at_once_and_is_no_part_of_the_line(ios: Bench) -> None:
    ios.type("conf t", "int gi1/0/1")
    assert "<cr>" in screen(ios, "description phone 12?\r")
    assert ios.device.running.interfaces[PORTS["ios"][0]].description == "phone 12"


def test_a_switch_that_falls_behind_prints_a_command_twice() -> None:
    bench = Bench(knobs=Knobs(echo_twice=True))
    assert screen(bench, "show reload\r").count("show reload") == 2


def test_a_password_is_not_echoed() -> None:
    bench = Bench()
    bench.device.enable_password = "secret"
    bench.session = Session(bench.device, "admin")
    assert "secret" not in screen(bench, "enable\rsecret\r")


def test_ctrl_z_ends_configuration(ios: Bench) -> None:
    assert screen(ios, "conf t\r\x1a").endswith("^Z\r\nSwitch#")
