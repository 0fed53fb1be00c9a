"""Versions of a data set on a phone: the old one stays until the new one is whole."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from test_stage import a_set

from trainer import store as store_module
from trainer.formats import HELD, MANIFEST, StoreOrder, Survey
from trainer.store import Store, StoreError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    a_set(tmp_path / "controller", [9, 9, 9])
    return tmp_path / "controller"


def order_of(source: Path) -> StoreOrder:
    return StoreOrder("d", (source / MANIFEST).read_text())


def placed(root: Path, source: Path) -> Store:
    store = Store(root, order_of(source))
    store.prepare()
    store.part.mkdir(parents=True, exist_ok=True)
    for shard in store.manifest.shards:
        shutil.copy(source / shard.file, store.part / shard.file)
    store.place([shard.file for shard in store.manifest.shards])
    return store


def test_a_set_whose_name_goes_on_after_a_dot_keeps_what_is_on_its_way(tmp_path, source) -> None:
    version = "0123456789abcdef"
    other, old = (tmp_path / "phone" / f".{name}.{version}.part" for name in ("d.b", "d"))
    other.mkdir(parents=True)
    old.mkdir()
    Store(tmp_path / "phone", order_of(source)).prepare()
    assert [path.name for path in (tmp_path / "phone").iterdir()] == [other.name]


def test_an_incomplete_version_takes_no_place_and_the_old_one_stays(tmp_path, source) -> None:
    old = placed(tmp_path / "phone", source)
    before = {path.name: path.read_bytes() for path in old.folder.iterdir()}
    newer = tmp_path / "newer"
    a_set(newer, [5, 6])
    store = Store(tmp_path / "phone", order_of(newer))
    store.prepare()
    store.part.mkdir(parents=True, exist_ok=True)
    files = [shard.file for shard in store.manifest.shards]
    shutil.copy(newer / files[0], store.part / files[0])
    assert not store.survey().placed
    with pytest.raises(StoreError, match=r"1 of 2 files did not arrive whole, such as n1-"):
        store.place(files)
    assert {path.name: path.read_bytes() for path in old.folder.iterdir()} == before
    shutil.copy(newer / files[1], store.part / files[1])
    store.place(files)
    assert store.survey().placed
    assert sorted(path.name for path in (tmp_path / "phone").iterdir()) == ["d"]
    assert {p.name for p in store.folder.iterdir()} == {*files, MANIFEST, HELD}


def test_a_file_that_went_bad_is_replaced_alone(tmp_path, source) -> None:
    store = placed(tmp_path / "phone", source)
    file = store.manifest.shards[1].file
    others = {p: p.stat().st_mtime_ns for p in store.folder.glob("*.shard") if p.name != file}
    os.truncate(store.folder / file, 30)
    assert file not in store.survey().whole
    store.prepare()
    store.part.mkdir(parents=True, exist_ok=True)
    shutil.copy(source / file, store.part / file)
    assert store.survey().placed is False
    store.place([shard.file for shard in store.manifest.shards])
    assert len(store.survey().whole) == 3
    assert {p: p.stat().st_mtime_ns for p in others} == others


def test_a_bit_that_flips_without_a_trace_is_found_by_a_full_survey(tmp_path, source) -> None:
    store = placed(tmp_path / "phone", source)
    path = store.folder / store.manifest.shards[0].file
    status = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(store.survey().whole) == 3
    assert len(store.survey(full=True).whole) == 2


def test_a_crash_between_old_and_new_loses_neither(tmp_path, source) -> None:
    store = placed(tmp_path / "phone", source)
    files = [shard.file for shard in store.manifest.shards]
    store.folder.rename(store.part)  # as after the first of the two renames
    found = store.survey()
    assert (sorted(found.whole), found.placed) == (sorted(files), False)
    store.prepare()
    store.part.mkdir(parents=True, exist_ok=True)
    store.place(files)
    assert store.survey().placed


def test_a_part_may_take_its_place_and_be_completed_later(tmp_path, source) -> None:
    store = Store(tmp_path / "phone", order_of(source))
    files = [shard.file for shard in store.manifest.shards]
    for wanted in (files[:1], files):
        store.prepare()
        store.part.mkdir(parents=True, exist_ok=True)
        for file in wanted:
            if file not in store.survey().whole:
                shutil.copy(source / file, store.part / file)
        store.place(wanted)
        found = store.survey()
        assert (sorted(found.whole), found.placed) == (sorted(wanted), True)


def test_the_command_answers_in_json_and_refuses_in_words(
    tmp_path, source, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def said(what: str, order: str) -> int:
        monkeypatch.setattr(sys, "argv", ["store", what])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(order.encode())))
        return store_module.main()

    order = order_of(source)
    assert said("survey", order.to_json()) == 0
    survey = Survey.from_json(capsys.readouterr().out)
    assert (survey.whole, survey.placed) == ((), False)
    assert survey.free_bytes > 0
    assert not (tmp_path / "home").exists()
    placing = StoreOrder(order.name, order.manifest, ("n0-000.shard",))
    assert said("place", placing.to_json()) == 1
    assert "1 of 1 files did not arrive whole" in capsys.readouterr().err
    evil = json.loads(order.manifest)
    evil["train"][0]["file"] = "../../x"
    assert said("survey", StoreOrder("d", json.dumps(evil)).to_json()) == 1
    assert "is no name of a file in one folder" in capsys.readouterr().err
