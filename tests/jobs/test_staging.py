"""Data to phones: only what is lacking, only where there is room, and never half of it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetctl.jobs import broadcast, onphone, staging
from fleetctl.jobs.staging import Need, StageRoom, StagingError
from fleetctl.provision import data
from fleetctl.rack import Network, Phone, Rack
from fleetctl.remote import Fault, PhoneError, Result
from fleetctl.state import State, derive
from trainer.errors import TrainerError
from trainer.formats import DataSpec, ModelSpec, OptimizerSpec, Plan, StoreOrder
from trainer.store import Store

PHONES = ("phone001", "phone002", "phone003")
RACK = Rack(
    name="r",
    network=Network(IPv4Network("10.0.0.0/24"), "ethernet"),
    phones={name: Phone(name, f"10.0.0.{n}") for n, name in enumerate(PHONES, 11)},
)


class Phones:
    """Phones whose data folders are folders here; `sent` is what was copied to them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.sent: list[tuple[str, str]] = []
        self.lost: set[str] = set()
        self.lost_in_copy: set[str] = set()
        self.broken_place: set[str] = set()
        self.free_bytes: dict[str, int] = {}

    def error(self, name: str) -> PhoneError:
        return PhoneError(name, Fault.LOST, f"{name} was lost")

    async def run(self, names: Any, command: str, stdin: str = "", **_: Any) -> dict[str, Result]:
        return {name: self._answer(name, command, stdin) for name in names}

    def _answer(self, name: str, command: str, stdin: str) -> Result:
        if name in self.lost:
            return Result(None, error=self.error(name))
        what = command.partition("trainer.store ")[2].split()
        order = StoreOrder.from_json(stdin)
        store = Store(self.home / name, order)
        if what[0] == "place" and name in self.broken_place:
            return Result(1, stderr="no inode left")
        try:
            if what[0] == "place":
                store.place(order.files)
            elif what[0] == "prepare":
                store.prepare()
            found = store.survey(full="--full" in what)
        except TrainerError as error:
            return Result(1, stderr=str(error))
        text = found.to_json()
        if name in self.free_bytes:
            text = text.replace(str(found.free_bytes), str(self.free_bytes[name]))
        return Result(0, stdout=text)

    async def put(self, names: Any, *_: Any, **__: Any) -> dict[str, PhoneError | None]:
        return {name: self.error(name) if name in self.lost else None for name in names}

    async def put_each(self, name: str, local: Any, folder: str, **_: Any) -> PhoneError | None:
        target = self.home / name / Path(folder).name
        target.mkdir(parents=True, exist_ok=True)
        for path in local:
            if name in self.lost_in_copy and len([s for s in self.sent if s[0] == name]) == 1:
                return self.error(name)
            shutil.copy(path, target / path.name)
            self.sent.append((name, path.name))
        return None


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    with State(tmp_path / "state.db") as state:
        yield state


@pytest.fixture
def phones(tmp_path: Path) -> Phones:
    return Phones(tmp_path / "phones")


@pytest.fixture
def room(tmp_path: Path, state: State, phones: Phones) -> StageRoom:
    images = np.random.default_rng(0).integers(0, 256, (900, 1, 28, 28), np.uint8)
    np.savez(tmp_path / "some.npz", x=images, y=np.arange(900) % 3)
    data.add(data.Wish("some", tmp_path / "some.npz"), tmp_path / "data")
    fleet: Any = phones
    return StageRoom(fleet, RACK, state, tmp_path / "data", "0.1", lambda _: None)


def a_plan(stage: Any = "all", phones: tuple[str, ...] = PHONES) -> Plan:
    return Plan(
        run="run-1",
        phones=phones,
        samples_per_rank=(1,) * len(phones),
        model=ModelSpec("digits-cnn"),
        data=DataSpec("some", "some", stage=stage),
        epochs=1,
        optimizer=OptimizerSpec("sgd", {"lr": 0.1}),
    )


def stage(room: StageRoom, plan: Plan) -> staging.Staged:
    return asyncio.run(staging.stage_data(room, plan))


def files(room: StageRoom) -> list[str]:
    manifest = staging.read_data(room.data, "some").manifest
    return [shard.file for shard in manifest.shards]


def test_each_phone_gets_all_of_it_once_and_it_is_noted(room, phones, state) -> None:
    assert stage(room, a_plan()).sent_to == PHONES
    assert sorted(phones.sent) == sorted((p, f) for p in PHONES for f in files(room))
    phones.sent.clear()
    again = stage(room, a_plan())
    assert (again.sent_to, again.sent_bytes, phones.sent) == ((), 0, [])
    held = state.holdings()
    assert [(h.phone, h.files, h.of_files) for h in held] == [
        (phone, len(files(room)), len(files(room))) for phone in PHONES
    ]
    assert {h.manifest for h in held} == {staging.read_data(room.data, "some").sha256}


def test_only_what_went_bad_is_sent_again(room, phones) -> None:
    stage(room, a_plan())
    bad = phones.home / "phone002/some" / files(room)[1]
    os.truncate(bad, 20)
    (phones.home / "phone003/some" / files(room)[0]).unlink()
    phones.sent.clear()
    assert stage(room, a_plan()).sent_to == ("phone002", "phone003")
    assert sorted(phones.sent) == [("phone002", files(room)[1]), ("phone003", files(room)[0])]


def test_a_share_is_less_than_all_and_two_neighbours_may_meet_in_one_shard(room, phones) -> None:
    stage(room, a_plan("share"))
    for phone in PHONES:
        assert 0 < len([s for s in phones.sent if s[0] == phone]) < len(files(room))
    assert {file for _, file in phones.sent} == set(files(room))
    assert len(phones.sent) <= len(files(room)) + 2 * (len(PHONES) - 1)
    # With other phones the shares are others; what is there already is not sent again.
    before = set(phones.sent)
    stage(room, a_plan("share", PHONES[:2]))
    assert len(set(phones.sent)) == len(phones.sent)
    assert set(phones.sent) > before
    stage(room, a_plan("all"))
    assert sorted(phones.sent) == sorted((p, f) for p in PHONES for f in files(room))


def test_an_older_version_is_replaced_once_the_new_one_is_whole(room, phones, tmp_path) -> None:
    stage(room, a_plan())
    older = sorted(p.read_bytes() for p in (phones.home / "phone001/some").glob("*.shard"))
    data.add(data.Wish("some", tmp_path / "some.npz", seed=1), room.data)
    phones.lost_in_copy = {"phone001"}
    phones.sent.clear()
    with pytest.raises(StagingError, match="phone001 was lost"):
        stage(room, a_plan())
    still = sorted(p.read_bytes() for p in (phones.home / "phone001/some").glob("*.shard"))
    assert still == older
    phones.lost_in_copy, first = set(), phones.sent.copy()
    phones.sent.clear()
    stage(room, a_plan())
    assert sorted([*first, *phones.sent]) == sorted((p, f) for p in PHONES for f in files(room))
    assert [p.name for p in (phones.home / "phone001").iterdir()] == ["some"]


def test_a_phone_that_is_lost_is_named_and_becomes_suspect(room, phones, state) -> None:
    phones.lost_in_copy = {"phone002"}
    with pytest.raises(StagingError) as caught:
        stage(room, a_plan())
    assert "phone002 was lost; what has arrived is kept on phone002, so launch again" in str(
        caught.value
    )
    health = state.phones()["phone002"].health
    assert health is not None
    assert (health.status, health.message) == (
        "CRITICAL",
        "phone002 was lost (while data was brought to it)",
    )
    assert set(state.phones()) == {"phone002"}
    phones.lost = {"phone003"}
    with pytest.raises(StagingError, match="phone003 was lost"):
        stage(room, a_plan())


def test_a_phone_that_is_lost_while_the_run_folder_comes_is_to_blame(phones: Any) -> None:
    phones.lost = {"phone002"}
    with pytest.raises(StagingError) as caught:
        asyncio.run(staging.stage_folder(phones, phones.home, "runs/run-1", PHONES))
    assert caught.value.culprits == {"phone002": "phone002 was lost"}


def test_disks_that_are_too_small_are_all_named_before_anything_is_sent(room, phones) -> None:
    spare = RACK.thresholds.min_free_disk_bytes
    phones.free_bytes = {"phone001": spare + 10, "phone003": 10}
    with pytest.raises(StagingError) as caught:
        stage(room, a_plan())
    whole = sum(staging.read_data(room.data, "some").sizes.values())
    for phone in ("phone001", "phone003"):
        assert f"{phone}: {whole:,} bytes of data set some are to come" in str(caught.value)
    assert f"only {spare + 10:,} are free" in str(caught.value)
    assert "phone002" not in str(caught.value)
    assert caught.value.culprits == {}, "too large for most: that is the data set's doing"
    assert phones.sent == []
    assert not phones.home.exists()


def test_the_few_whose_disk_is_too_small_are_left_out_rather_than_end_the_run(
    room, phones, state
) -> None:
    phones.free_bytes = {"phone003": 10}
    with pytest.raises(StagingError) as caught:
        stage(room, a_plan())
    assert [*caught.value.culprits] == ["phone003"]
    assert "only 10 are free" in caught.value.culprits["phone003"]
    assert derive(state.phones()["phone003"], 0.0) == "suspect"
    stage(room, a_plan(phones=PHONES[:2]))


@pytest.mark.parametrize(
    ("broken", "culprits"),
    [(["phone002"], {"phone002": "phone002: exit code 1: no inode left"}), (PHONES, {})],
)
def test_one_that_cannot_put_the_data_in_its_place_is_left_out_unless_most_cannot(
    room, phones, broken, culprits
) -> None:
    phones.broken_place = {*broken}
    with pytest.raises(StagingError, match="no inode left") as caught:
        stage(room, a_plan())
    assert caught.value.culprits == culprits


def test_a_full_check_finds_what_no_size_tells_and_notes_it(room, phones, state) -> None:
    stage(room, a_plan())
    path = phones.home / "phone002/some" / files(room)[0]
    status, content = path.stat(), bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    on_controller = staging.read_data(room.data, "some")

    def whole(*, full: bool) -> list[int]:
        asked = staging.check_phones(room.fleet, state, on_controller, PHONES, full=full)
        asyncio.run(asked)
        return [held.files for held in state.holdings()]

    total = len(files(room))
    assert whole(full=False) == [total] * 3
    assert whole(full=True) == [total, total - 1, total]


def test_a_damaged_or_missing_set_on_the_controller_is_named_with_its_cure(room) -> None:
    cure = "make it anew with `fleetctl data add some`"
    shard = room.data / "some" / files(room)[0]
    shard.write_bytes(b"")
    with pytest.raises(StagingError, match=f"is corrupt: its checksum does not match; {cure}"):
        stage(room, a_plan())
    shard.unlink()
    with pytest.raises(StagingError, match=f"lacks .*shard; {cure}"):
        stage(room, a_plan())
    shutil.rmtree(room.data / "some")
    with pytest.raises(StagingError, match=r"lacks .*manifest\.json"):
        stage(room, a_plan())


def need(*lacking: str) -> Need:
    return Need(lacking, lacking, placed=False, free_bytes=10**12)


def test_many_copies_of_much_are_broadcast_and_the_rest_is_copied(room, monkeypatch) -> None:
    on_controller = staging.read_data(room.data, "some")
    everything = need(*files(room))
    whole = sum(on_controller.sizes.values())
    monkeypatch.setattr(staging, "BROADCAST_FROM_BYTES", 2 * whole)
    assert staging.is_broadcast(on_controller, dict.fromkeys(PHONES, everything))
    assert not staging.is_broadcast(on_controller, dict.fromkeys(PHONES[:2], everything))
    apart = {p: need(f) for p, f in zip(PHONES, files(room), strict=False)}
    monkeypatch.setattr(staging, "BROADCAST_FROM_BYTES", 1)
    assert not staging.is_broadcast(on_controller, apart)


def test_the_broadcast_s_plan_says_who_lacks_which_file(room) -> None:
    on_controller = staging.read_data(room.data, "some")
    first, second, third, *_ = files(room)
    waiting = {PHONES[0]: need(third), PHONES[2]: need(first, third)}
    plan = broadcast.stage_plan(on_controller, "run-1", waiting)
    assert plan.phones == (PHONES[0], PHONES[2])
    assert [(f.file, f.lacking) for f in plan.files] == [(first, (1,)), (third, (0, 1))]
    assert second not in str(plan.files)
    assert [f.size_bytes for f in plan.files] == [on_controller.sizes[first]] * 2


def test_the_staging_has_a_folder_of_its_own_and_the_run_s_mark() -> None:
    script = onphone.start_script("run-1", ["mpirun"], "5.0", "10.0.0.11", stage=True)
    assert f"cd {onphone.RUNS}/run-1.stage" in script
    assert "PHONERACK_RUN=run-1\n" in script
    assert "PHONERACK_RUN=run-1 " in onphone.start_command("run-1", stage=True)
    assert f"{onphone.RUNS}/run-1.stage" in onphone.end_mpirun("run-1", stage=True)
