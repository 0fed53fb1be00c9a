"""Secrets are known to the switch and to one object here, and stand nowhere else."""

from __future__ import annotations

import pytest
from conftest import make_case, small_rack
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.switches.errors import RefusedError
from fleetctl.switches.secrets import Secrets, environment

IOS = """\
enable secret 5 $1$abcd$0123456789abcdefghijk.
username admin privilege 15 secret 9 $9$nhEmQVczB7dqsO$X.HsgL6x1il0RxkOSSvyQYwucySCt7qFm4v7pqCxkKM
username guest password 0 letmein
snmp-server community Public1 RO phonerack-snmp
snmp-server user watch group v3 auth sha OneSecret priv aes 128 OtherSecret
snmp-server host 10.0.0.9 version 2c Trap2 udp-port 162
tacacs server one
 key 7 070C285F4D06
radius-server key SharedOne
ntp authentication-key 1 md5 01100F175804 7
line vty 0 4
 password 7 05080F1C2243
"""
SECRETS = (
    *("$1$abcd$0123456789abcdefghijk.", "nhEmQVczB7dqsO", "letmein", "Public1", "OneSecret"),
    *("OtherSecret", "Trap2", "070C285F4D06", "SharedOne", "05080F1C2243"),
    "01100F175804",
)


EOS = """\
hostname sw1
username admin privilege 15 role network-admin secret sha512 $6$eos$hAsHeDwOrDs
enable password sha512 $6$enable$AnOtherHash
snmp-server community Public1 ro phonerack-snmp
snmp-server user watch group v3 localized f5717f auth sha OneSecret priv aes OtherSecret
snmp-server host 10.0.0.9 version 2c Trap2
radius-server host 10.0.0.8 key 7 070C285F4D06
tacacs-server key 7 05080F1C2243
ntp authentication-key 1 md5 7 NtpSecret0
router bgp 65000
   neighbor 10.0.0.7 password 7 BgpSecret0
"""
EOS_SECRETS = (
    *("$6$eos$hAsHeDwOrDs", "$6$enable$AnOtherHash", "Public1", "OneSecret", "OtherSecret"),
    *("Trap2", "070C285F4D06", "05080F1C2243", "NtpSecret0", "BgpSecret0"),
)


def test_every_kind_of_secret_of_eos_is_concealed() -> None:
    secrets = Secrets({})
    shown = secrets.conceal(EOS)
    for secret in EOS_SECRETS:
        assert secret not in shown
    for plain in ("role network-admin secret sha512 <", "host 10.0.0.8 key 7 <", "privilege 15"):
        assert plain in shown
    assert "\n".join(secrets.reveal(line) for line in shown.splitlines()) + "\n" == EOS
    assert secrets.conceal(shown) == shown


def test_a_marker_of_another_run_is_no_secret_and_is_noticed_as_lost() -> None:
    secrets = Secrets({"snmp_community": "Public1"})
    line = "snmp-server community {} RO phonerack-snmp"
    assert secrets.lost_in(line.format("<hidden-3>")) == "<hidden-3>"
    assert secrets.lost_in(line.format("<snmp_community>")) is None
    assert secrets.lost_in(line.format("Public1")) is None
    assert secrets.lost_in("description <hidden-3>") is None


def test_every_kind_of_secret_in_a_configuration_is_concealed() -> None:
    secrets = Secrets({})
    shown = secrets.conceal(IOS)
    for secret in SECRETS:
        assert secret not in shown
    for plain in ("username admin privilege 15 secret 9 <", "udp-port 162", "server one", "watch"):
        assert plain in shown
    assert "\n".join(secrets.reveal(line) for line in shown.splitlines()) + "\n" == IOS
    assert secrets.conceal(shown) == shown
    for secret in SECRETS:
        assert secret not in repr(secrets)
        assert secret not in str(vars(type(secrets)))


def test_a_known_secret_stands_under_its_name() -> None:
    secrets = Secrets({"snmp_community": "Public1"})
    assert repr(secrets) == "Secrets(<snmp_community>)"
    assert "snmp-server community <snmp_community> RO" in secrets.conceal(IOS)


words = st.text(st.characters(codec="ascii", exclude_categories=("Z", "C")), min_size=4)


@given(words.filter(lambda word: "<" not in word))
def test_a_secret_in_any_message_becomes_its_marker(secret: str) -> None:
    secrets = Secrets({"switch_password": secret})
    for message in (f"% Bad secret {secret}", f"sent {secret}, got nothing", secret):
        scrubbed = secrets.scrub(message)
        assert "<switch_password>" in scrubbed
        assert secret not in scrubbed.replace("<switch_password>", "")


def test_a_secret_comes_from_the_first_source_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH_PASSWORD", "from-the-environment")
    vault = {"snmp_community": "from-the-vault"}.get
    found = Secrets.find("sw1", ["switch_password", "snmp_community"], [vault, environment])
    assert found.value("switch_password") == "from-the-environment"
    assert found.value("snmp_community") == "from-the-vault"


def test_a_secret_that_nobody_has_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWITCH_PASSWORD", raising=False)
    with pytest.raises(RefusedError, match="export SWITCH_PASSWORD"):
        Secrets.find("sw1", ["switch_password"], [environment])


@pytest.mark.parametrize("value", ["what?", "two words", "tab\there", 'quo"te', "naïve", "<x>"])
def test_a_secret_that_no_command_line_can_carry_is_refused_unseen(value: str) -> None:
    with pytest.raises(RefusedError) as caught:
        Secrets({"snmp_community": value}).require_plain("sw1", "snmp_community")
    assert value not in str(caught.value)


def test_the_community_is_in_no_diff_and_a_new_one_replaces_it() -> None:
    case = make_case("cisco_ios", small_rack("cisco_ios", snmp="snmp_community"))
    old, new = Secrets({"snmp_community": "OldOne"}), Secrets({"snmp_community": "NewOne"})
    case.switch.type(old.reveal(line) for line in case.plan().commands)
    case.switch.type(["vtp mode transparent"])
    assert "snmp-server community OldOne RO phonerack-snmp" in case.switch.running()

    running = case.platform.read(old.conceal(case.switch.running()), case.intent)
    from fleetctl.switches.plan import plan_change

    assert plan_change(case.platform, case.intent, running).commands == ()

    running = case.platform.read(new.conceal(case.switch.running()), case.intent)
    change = plan_change(case.platform, case.intent, running)
    assert change.commands == (
        "no snmp-server community <hidden-2> RO phonerack-snmp",
        "snmp-server community <snmp_community> RO phonerack-snmp",
    )
    assert "OldOne" not in str(change)
    assert "NewOne" not in str(change)
    case.switch.type(new.reveal(line) for line in change.commands)
    assert list(case.switch.settings.snmp_communities) == ["NewOne"]
