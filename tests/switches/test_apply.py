"""A switch brought to its configuration over ssh, or left as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from conftest import KINDS
from lab import COMMUNITY, PASSWORD

from fleetctl.switches.apply import Application
from fleetctl.switches.errors import SwitchError
from fleetctl.switches.job import Report

type Make = Callable[..., Any]
platforms = pytest.mark.parametrize("name", list(KINDS))


def ok(answers: list[Report | SwitchError]) -> Report:
    (answer,) = answers
    assert isinstance(answer, Report), answer
    return answer


def failure(answers: list[Report | SwitchError]) -> str:
    (answer,) = answers
    assert isinstance(answer, SwitchError), answer
    return str(answer)


@platforms
def test_a_new_switch_is_configured_saved_and_then_left_alone(lab: Make, name: str) -> None:
    rig = lab(name)
    report = ok(rig.run())
    assert report.result == "changed"
    settings = rig.settings()
    assert settings.hostname == "sw1"
    assert settings.vlans == {10: "phones", 20: "cameras"}
    assert rig.startup() == settings
    assert rig.reachable() == set(rig.rack.phones)
    if name == "cisco_ios":
        assert settings.archive_path == "flash:phonerack"
    # Nothing is left armed.
    rig.look(lambda device: setattr(device, "clock", lambda now=device.clock: now() + 9e6))
    assert rig.settings() == settings

    again = ok(rig.run())
    assert again.result == "unchanged"
    assert again.change.commands == ()
    assert rig.settings() == settings


@platforms
def test_a_dry_run_tells_and_changes_nothing(lab: Make, name: str) -> None:
    rig = lab(name)
    before = rig.settings()
    report = ok(rig.run(dry=True))
    assert report.result == "would change"
    _, after = report.change.diff_texts()
    assert "description phone003" in after
    assert rig.settings() == rig.startup() == before
    assert rig.backups == []


@platforms
def test_phones_stay_reachable_and_the_old_configuration_is_kept_as_a_backup(
    lab: Make, name: str
) -> None:
    rig = lab(name)
    rig.settle()
    port = rig.job("sw1").intent.ports[8].interface
    rig.type(f"interface {port}\nswitchport trunk allowed vlan 10,30\nvlan 30\nname cellar")
    report = ok(rig.run())
    assert "switchport trunk allowed vlan add 20" in report.change.commands
    assert "switchport trunk allowed vlan remove 30" in report.change.commands
    before, after = [text for _, text in rig.backups][-2:]
    assert "name cellar" in before
    assert "name cellar" not in after


@platforms
def test_a_rejected_line_names_port_line_and_text_and_nothing_stays(lab: Make, name: str) -> None:
    rig = lab(name, reject="phone003")
    old = rig.settings()
    message = failure(rig.run())
    interface = rig.job("sw1").intent.ports[2].interface
    assert f"sw1: port 3 ({interface}, phone003): it rejected `description phone003`" in message
    assert "% Invalid input" in message
    assert "the old configuration is back" in message
    now = rig.settings()
    if name == "cisco_ios":  # what it was prepared with stays, and the message says so
        assert "but for `vtp mode transparent`, `archive`, `path flash:phonerack`" in message
        assert (now.archive_path, now.vtp) == ("flash:phonerack", "transparent")
        now.archive_path, now.vtp = old.archive_path, old.vtp
    assert now == old
    assert "phone001" not in str(rig.startup())


@platforms
def test_a_change_that_cuts_phones_off_is_taken_back_and_names_them(lab: Make, name: str) -> None:
    rig = lab(name)
    rig.settle()
    port = rig.job("sw1").intent.ports[1].interface
    rig.type(f"interface {port}\ndescription wrong")
    old = rig.settings()
    gone = iter([set(rig.rack.phones)])  # before the change all are there, afterwards one is not

    def reachable() -> set[str]:
        return next(gone, set(rig.rack.phones) - {"phone002"})

    message = failure(rig.run(reachable=reachable))
    assert "no longer reachable after the change: phone002" in message
    assert "the old configuration is back" in message
    assert rig.settings() == old == rig.startup()


@platforms
def test_a_switch_that_shows_something_else_than_it_was_told_is_put_back(
    lab: Make, name: str
) -> None:
    rig = lab(name)
    rig.settle()
    port = rig.job("sw1").intent.ports[1].interface
    rig.type(f"interface {port}\nno spanning-tree bpduguard")
    old = rig.settings()
    from standin.switches.editor import Editor

    kind, key = KINDS[name], "spanning-tree bpduguard enable"
    table = Editor.actions[kind, "config-if"]
    deaf = table[key]
    table[key] = lambda *_: None
    try:
        message = failure(rig.run())
    finally:
        table[key] = deaf
    assert "it does not show what it was told" in message
    assert f"- interface {port}: spanning-tree bpduguard enable" in message
    assert rig.settings() == old


def test_lines_of_a_person_that_were_never_saved_are_saved_with_a_note(lab: Make) -> None:
    rig = lab()
    rig.settle()
    rig.look(lambda device: setattr(device.startup, "hostname", "old"))
    report = ok(rig.run())
    assert report.result == "unchanged"
    assert report.notes == ("its running configuration was right but not saved",)
    assert rig.startup().hostname == "sw1"


def test_the_first_backup_of_a_new_ios_is_what_came_from_the_factory(lab: Make) -> None:
    rig = lab(reject="phone003")
    failure(rig.run())
    first, prepared = [text for _, text in rig.backups]
    assert "archive" not in first
    assert "vtp mode" not in first
    assert "path flash:phonerack" in prepared
    assert "phone001" not in prepared


def test_what_a_switch_was_prepared_with_is_told_even_if_nothing_else_was_begun(
    lab: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(application: Application, _: int) -> None:
        raise SwitchError(application.name, "it cannot be armed", "see its manual")

    rig = lab()
    monkeypatch.setattr(Application, "_arm", refuse)
    message = failure(rig.run())
    assert "nothing was changed, but for `vtp mode transparent`" in message


def test_an_ios_switch_is_not_prepared_while_it_has_unsaved_changes(lab: Make) -> None:
    rig = lab()
    rig.look(lambda device: setattr(device.running, "hostname", "never-saved"))
    message = failure(rig.run())
    assert "changes that were never saved" in message
    assert rig.settings().hostname == "never-saved"
    assert rig.look(lambda device: device.reload_at) is None


def test_a_change_that_waits_for_somebody_is_not_touched(lab: Make) -> None:
    rig = lab()
    rig.type("archive\npath flash:x")
    rig.look(lambda device: device.arm(120))
    message = failure(rig.run())
    assert "a change waits there already under a revert timer" in message


def test_an_ios_without_revert_timer_is_guarded_by_a_reload(lab: Make) -> None:
    rig = lab(revert_timer=False)
    assert ok(rig.run()).result == "changed"
    assert rig.look(lambda device: device.reload_at) is None
    assert rig.startup() == rig.settings()

    rig.look(lambda device: setattr(device.knobs, "reject", "phone003"))
    rig.type("interface gi1/0/3\nno description\ninterface gi1/0/2\nno description")
    old = rig.settings()
    message = failure(rig.run())
    assert "the old configuration is back" in message
    assert rig.settings() == old
    assert rig.look(lambda device: device.log)[-1] == "went down: reload"


@platforms
@pytest.mark.parametrize(
    "knobs",
    [
        {"latency_seconds": 0.02},
        {"echo_twice": True},
        {"paging": True},
        {"sha1_only": True},
        {"asks_before_saving": True},
    ],
    ids=lambda knobs: next(iter(knobs)),
)
def test_a_troublesome_switch_is_configured_all_the_same(
    lab: Make, name: str, knobs: dict[str, Any]
) -> None:
    rig = lab(name, **knobs)
    assert ok(rig.run()).result == "changed"
    assert rig.startup().hostname == "sw1"


def test_a_long_hostname_that_is_cut_in_prompts_is_no_trouble(lab: Make) -> None:
    rig = lab(config_prompt_chars=16)
    rig.type("hostname a-name-of-20-chars-xy")
    assert ok(rig.run()).result == "changed"
    assert rig.settings().hostname == "sw1"


def test_a_switch_that_is_slower_than_its_timer_allows_is_given_up_in_time(
    lab: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = lab()
    rig.settle()
    rig.type("\n".join(f"interface gi1/0/{port}\nno description" for port in range(1, 5)))
    old = rig.settings()
    rig.look(lambda device: setattr(device.knobs, "latency_seconds", 0.1))
    # The shortest timer that there is: a minute, of which 20 seconds are for typing.
    monkeypatch.setattr("fleetctl.switches.apply._SECONDS_A_LINE", -0.62)
    message = failure(rig.run())
    assert "too slowly for its timer" in message
    assert "the old configuration is back" in message
    assert rig.settings() == old


@platforms
def test_secrets_stand_nowhere_but_on_the_switch(
    lab: Make, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(0)
    rig = lab(name)
    report = ok(rig.run())
    settings = rig.settings()
    assert list(settings.snmp_communities) == [COMMUNITY]
    rig.look(lambda device: setattr(device.knobs, "reject", "community"))
    rig.secrets["snmp_community"] = "Another-0ne"
    message = failure(rig.run())
    everything = [report, report.change.diff_texts(), message, rig.said, rig.backups]
    out, err = capfd.readouterr()
    ours = [record for record in caplog.records if not record.name.startswith(("paramiko", "asyn"))]
    logged = " ".join(f"{record.getMessage()} {record.exc_text}" for record in ours)
    for secret in (PASSWORD, COMMUNITY, "Another-0ne"):
        assert secret not in f"{everything}{out}{err}"
        assert secret not in logged
    assert list(rig.settings().snmp_communities) == [COMMUNITY]


def test_wrong_passwords_unknown_and_changed_host_keys_are_told_apart(lab: Make) -> None:
    rig = lab()
    rig.secrets["switch_password"] = "wrong-one"
    assert "does not let admin in with the secret `switch_password`" in failure(rig.run())
    rig.secrets["switch_password"] = PASSWORD

    known = rig.targets["sw1"].known_hosts
    text = known.read_text()
    known.write_text("")
    assert "the host key of 127.0.0.1 is not known" in failure(rig.run())
    import asyncssh

    other = asyncssh.generate_private_key("ssh-rsa", key_size=1024).export_public_key().decode()
    known.write_text(f"{text.split()[0]} {other}")
    assert "another host key than recorded answers" in failure(rig.run())
    known.write_text(text)
    assert ok(rig.run()).result == "changed"


def test_a_user_without_rights_needs_the_enable_secret(lab: Make) -> None:
    rig = lab()
    rig.look(lambda device: setattr(device, "enable_password", "En4ble-it"))
    assert "user admin is not privileged" in failure(rig.run())
    rig.targets["sw1"] = replace(rig.targets["sw1"], enable="switch_enable")
    rig.secrets["switch_enable"] = "wrong"
    assert "does not take the secret `switch_enable`" in failure(rig.run())
    rig.secrets["switch_enable"] = "En4ble-it"
    assert ok(rig.run()).result == "changed"


def test_nobody_there_is_told_with_the_address(lab: Make) -> None:
    rig = lab()
    rig.targets["sw1"] = replace(rig.targets["sw1"], port=1)
    assert "no connection to 127.0.0.1 port 1" in failure(rig.run())
