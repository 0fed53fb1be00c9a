"""An enrolment by USB that was cut off is completed by the same command, wherever it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from enrol_bench import IP, MAC, OPENED, Cut, Phone, Table, public_key

from fleetctl.remote.adb import Said
from fleetctl.state import Health, PhoneFacts, State


def cuts(
    home: Path, table: Callable[[Path], Table], *serials: str, **options: Any
) -> Iterator[Table]:
    """A table after each way to stop in the command, with everything as it was left there."""
    whole = table(home / "whole")
    with whole.stopping(None):
        whole.enroll(*serials, **options)
    assert len(whole.effects) > 3
    for place in range(len(whole.effects)):
        cut = table(home / str(place))
        with cut.stopping(place), pytest.raises(Cut):
            cut.enroll(*serials, **options)
        yield cut


def test_cut_off_anywhere_the_same_command_completes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def table(home: Path) -> Table:
        return Table(home, monkeypatch, [Phone("R1", public_key(1))])

    for cut in cuts(tmp_path, table):
        (report,) = cut.enroll().values()
        assert report.end in ("enrolled", "known"), (cut.effects, report)
        assert report.name == "phone001"
        (phone,) = cut.phones
        assert phone.listens, cut.effects
        entry = cut.lock()["phone001"]
        assert (entry.serial, entry.adb_open) == ("R1", True)
        assert cut.register.host_keys() == {"phone001": public_key(1)}
        assert cut.certificate("phone001"), cut.effects


def test_on_wifi_it_is_met_there_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def table(home: Path) -> Table:
        return Table(home, monkeypatch, [Phone("R1", public_key(1), wifi=IP)], "wifi")

    for cut in cuts(tmp_path, table):
        (report,) = cut.enroll().values()
        assert report.end in ("enrolled", "known"), (cut.effects, report)
        entry = cut.lock()["phone001"]
        assert (entry.mac, entry.address) == (MAC, "10.1.0.9"), cut.effects
        assert report.address == "10.1.0.9"
        assert not cut.phones[0].listens


def test_a_phone_that_waits_for_the_wire_is_armed_again_without_being_set_up_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As one that has restarted on the table, which has closed its adb."""
    table = Table(tmp_path, monkeypatch, [Phone("R1", public_key(1))])
    table.enroll()
    (phone,) = table.phones
    phone.listens = False
    report = table.enroll()["R1"]
    assert (report.end, report.step) == ("known", "done")
    assert phone.listens
    assert phone.set_up == 1


def test_a_phone_that_was_met_on_the_wire_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = Table(tmp_path, monkeypatch, [Phone("R1", public_key(1))])
    table.enroll()
    met = replace(table.lock()["phone001"], adb_open=False, mac=MAC, address="10.1.0.9")
    table.register.enrol("phone001", met, public_key(1))
    table.phones[0].listens = False
    report = table.enroll()["R1"]
    assert (report.end, report.address) == ("known", "10.1.0.9")
    assert not table.phones[0].listens


@pytest.mark.parametrize(
    "said", [Said(1, "", "error: device offline"), Said(0, "", "adb: no reply")]
)
def test_adb_that_does_not_open_is_no_enrolment_and_the_next_try_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: Said
) -> None:
    table = Table(tmp_path, monkeypatch, [Phone("R1", public_key(1), said=said)])
    report = table.enroll()["R1"]
    assert report.end == "failed"
    assert "does not open on the network" in report.reason
    assert table.enroll()["R1"].end == "failed"
    table.phones[0].said = OPENED
    assert table.enroll()["R1"].end == "known"


def test_a_replacement_that_was_cut_off_is_completed_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """NEW takes the place of OLD, which was found hung; nothing of OLD is ever taken for NEW's."""

    def table(home: Path) -> Table:
        made = Table(home, monkeypatch, [Phone("OLD", public_key(1))])
        made.enroll()
        made.phones = [Phone("NEW", public_key(2))]
        with State(made.paths.state_db) as state:
            state.record_health("phone001", "CRITICAL", "hung")
        return made

    def health(table: Table) -> Health | None:
        with State(table.paths.state_db) as state:
            return state.phones().get("phone001", PhoneFacts()).health

    for cut in cuts(tmp_path, table, "NEW", replace="phone001"):
        if cut.lock()["phone001"].serial == "NEW":
            assert health(cut) is None, cut.effects
            assert cut.register.host_keys().get("phone001") != public_key(1)
        report = cut.enroll("NEW", replace="phone001")["NEW"]
        assert report.end == "enrolled", (cut.effects, report)
        assert cut.lock()["phone001"].serial == "NEW"
        assert cut.phones[0].listens
        assert cut.register.host_keys() == {"phone001": public_key(2)}
        assert cut.register.is_revoked(public_key(1))
        assert not cut.register.is_revoked(public_key(2))
        assert cut.certificate("phone001")
        assert health(cut) is None, cut.effects
