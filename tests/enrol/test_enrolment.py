"""From a box of phones to ssh over the wire, as an operator meets it, by the real adb.

The rack's network is served by somebody else's DHCP, as at home. The whole way happens once, in the
fixture; the tests look at what it has left.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from box import Box
from kept_settings import kept

from fleetctl.errors import ExitCode
from fleetctl.provision.android import UNSET, Profile, wishes

pytestmark = pytest.mark.standin

GOOD, LOCKED, TOO_OLD = ["phone001", "phone002"], "phone003", "phone004"
LEVELS = {"phone001": 31, "phone002": 28, LOCKED: 33, TOO_OLD: 27}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    made = Box(tmp_path_factory.mktemp("enrol"), 200)
    made.write(phones=4, medium="ethernet", dhcp="theirs", levels=LEVELS)
    try:
        made.must("standin", "up", "--boxed")
        by_usb(made)
        made.must("standin", "plug", "@phones", "hub")
        with made.dhcp():
            made.said["wire"] = made.run("enroll", "--wire", "--wait", "120", "-o", "json")
        yield made
    finally:
        made.run("standin", "down")


def by_usb(box: Box) -> None:
    """All that is done while the phones hang on the controller, the mistakes included."""
    box.said["unauthorized"] = box.run("enroll", "--wait", "0", "-o", "json")
    box.said["no apks"] = box.enroll_accepting("@phones")
    box.apks()
    box.apks("--signer", "somebody-else", "--debuggable")
    box.said["other signer"] = box.run("enroll")
    for file in (box.folder / "apks").glob("*_debug.apk"):
        file.unlink()
    box.must("standin", "lock", "--pin", LOCKED)
    box.said["usb"] = box.run("enroll", "-o", "json")
    box.must("standin", "plug", TOO_OLD, "nothing")
    box.must("standin", "unlock", LOCKED)
    box.said["again"] = box.run("enroll", "-o", "json")


def test_a_phone_that_nobody_has_accepted_needs_hands_and_says_which(box: Box) -> None:
    done = box.said["unauthorized"]
    assert done.returncode == ExitCode.SOME_PHONES_FAILED
    for report in box.reports("unauthorized").values():
        assert report["end"] == "needs-hands"
        assert "accept its dialog" in report["reason"]


def test_missing_apps_and_apps_of_two_signers_change_nothing(box: Box) -> None:
    missing, mixed = box.said["no apks"], box.said["other signer"]
    assert missing.returncode == mixed.returncode == ExitCode.BAD_INPUT
    assert "com.termux.boot: no package in" in missing.stderr
    assert "signed by different keys" in mixed.stderr


def test_a_locked_phone_needs_hands_an_unfit_one_is_refused_and_both_stop_nobody(box: Box) -> None:
    assert box.said["usb"].returncode == ExitCode.SOME_PHONES_FAILED
    assert box.ends("usb") == {
        **dict.fromkeys(GOOD, "enrolled"),
        LOCKED: "needs-hands",
        TOO_OLD: "refused",
    }
    assert "unlock it, remove the PIN" in box.reports("usb")[LOCKED]["reason"]
    assert "Android 9 (28) is the least" in box.reports("usb")[TOO_OLD]["reason"]


def test_a_second_run_does_what_is_left_and_leaves_the_rest_alone(box: Box) -> None:
    assert box.said["again"].returncode == ExitCode.DONE
    assert box.ends("again") == {**dict.fromkeys(GOOD, "known"), LOCKED: "enrolled"}
    (remark,) = box.reports("again")[LOCKED]["remarks"]
    assert "lock_screen" in remark


def test_the_lock_file_has_serial_api_level_adapter_and_address(box: Box) -> None:
    assert list(box.lock) == [*GOOD, LOCKED]
    for name, place in box.lock.items():
        assert place["serial"].startswith("R58M")
        assert place["api_level"] == LEVELS[name]
        assert place["mac"].startswith("02:")
        assert place["address"].startswith(f"{box.network}.")
    assert len({place["mac"] for place in box.lock.values()}) == 3


def test_each_phone_is_met_again_on_the_wire_by_its_host_key(box: Box) -> None:
    assert box.said["wire"].returncode == ExitCode.DONE, box.said["wire"].stderr
    assert set(box.ends("wire").values()) == {"enrolled"}


@pytest.mark.parametrize("phone", [*GOOD, LOCKED])
def test_android_is_as_the_rack_wants_it(box: Box, phone: str) -> None:
    state = box.android(phone)
    profile = Profile(LEVELS[phone], "samsung", services=f"{box.network}.2", wired=True)
    wanted = {wish.name: wish.value for wish in wishes(profile)}
    if phone == LOCKED:
        # Whoever has removed its PIN has left it to be swiped.
        del wanted["lock_screen/disabled"]
    assert {wish.name: kept(state, wish) for wish in wishes(profile) if wish.name in wanted} == (
        wanted
    )
    # Nobody in this rack serves time.
    assert wanted["global/ntp_server"] == UNSET
    assert state.wake_locks


def test_adb_has_left_the_network(box: Box) -> None:
    assert [box.android(phone).adb_tcp_port for phone in box.lock] == [0, 0, 0]


def test_the_phone_comes_back_by_itself_after_a_reboot_with_the_key_that_is_known(box: Box) -> None:
    with box.dhcp():
        box.must("standin", "fault", "phone002", "reboot")
        said = box.ssh(
            "phone002", "cat ~/.termux/boot/phonerack; sv status $PREFIX/var/service/sshd"
        )
    assert "termux-wake-lock" in said
    assert "run: " in said
