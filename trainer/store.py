"""The data sets on a phone: what is whole, and how a new version takes its place.

`data/NAME` is what runs read. A version on its way lies in `data/.NAME.CHECKSUM.part`, the
checksum being its manifest's, until all of it is there; so whatever is broken off goes on later,
and the older version stays until the new one is whole.

    python -m trainer.store survey|prepare|place [--full] < order.json
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from trainer.errors import TrainerError
from trainer.files import sync_all, sync_folder, write_atomic
from trainer.formats import (
    MANIFEST,
    DataManifest,
    Holdings,
    StoreOrder,
    Survey,
    record,
    verify,
)

INCOMING = ".incoming"
"""Ends the name of a file that is not whole yet."""


class StoreError(TrainerError):
    """A data set cannot take its place; names file and reason."""


class Store:
    """One version of one data set below `root`."""

    def __init__(self, root: Path, order: StoreOrder) -> None:
        self._text = order.manifest.encode()
        self.manifest = DataManifest.from_json(self._text, MANIFEST)
        self.folder = root / order.name
        version = hashlib.sha256(self._text).hexdigest()[:16]
        self.part = root / f".{order.name}.{version}.part"
        # Not of a data set whose name goes on after the dot.
        self._versions = f".{order.name}.{'?' * len(version)}.*"
        for shard in self.manifest.shards:
            if Path(shard.file).name != shard.file:
                raise StoreError(f"{shard.file!r} is no name of a file in one folder")

    @property
    def placed(self) -> bool:
        try:
            return (self.folder / MANIFEST).read_bytes() == self._text
        except OSError:
            return False

    def prepare(self) -> None:
        """Remove what other versions, and a broken off staging of this one, left half done."""
        for path in self.part.parent.glob(self._versions):
            if path != self.part:
                shutil.rmtree(path, ignore_errors=True)
        whole = {shard.file for shard in self.manifest.shards}
        for path in self.part.iterdir() if self.part.is_dir() else ():
            if path.name not in whole and path.suffix in (INCOMING, ".part"):
                path.unlink()

    def whole(self, *, full: bool = False) -> dict[str, Path]:
        """The files that are held, and where; each by its checksum, if it was not verified before
        and stayed as it was, or in any case if `full`."""
        shards = self.manifest.shards
        placed = verify(self.folder, shards, full=full).whole if self.placed else {}
        rest = [shard for shard in shards if shard.file not in placed]
        beside = verify(self.part, rest, full=full).whole if self.part.is_dir() else {}
        return {name: self.folder / name for name in placed} | {
            name: self.part / name for name in beside
        }

    def survey(self, *, full: bool = False) -> Survey:
        found = self.whole(full=full)
        place = self.folder.parent
        while not place.exists():
            place = place.parent
        disk = os.statvfs(place)
        return Survey(
            whole=tuple(found),
            placed=self.placed and all(path.parent == self.folder for path in found.values()),
            free_bytes=disk.f_bavail * disk.f_frsize,
        )

    def place(self, files: Collection[str]) -> None:
        """Put this version in its place, where it must hold `files`. Raises StoreError."""
        if self.part.is_dir():
            sync_all(self.part)  # before anything is recorded as verified
        found = self.whole()
        if absent := [name for name in files if name not in found]:
            raise StoreError(
                f"{len(absent)} of {len(files)} files did not arrive whole, such as {absent[0]}"
            )
        if self.placed:
            # Runs read this folder meanwhile: each file is replaced at one moment.
            for path in found.values():
                path.replace(self.folder / path.name)
            record(self.folder, Holdings.of(self.part).files)
        else:
            self.part.mkdir(parents=True, exist_ok=True)
            write_atomic(self.part / MANIFEST, self._text)
            old = self.part.with_suffix(".old")
            if self.folder.exists():
                self.folder.rename(old)
            self.part.rename(self.folder)
            shutil.rmtree(old, ignore_errors=True)
        sync_folder(self.folder.parent)
        shutil.rmtree(self.part, ignore_errors=True)


def data_root() -> Path:
    return Path.home() / "phonerack" / "data"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.store", description=__doc__)
    parser.add_argument("what", choices=("survey", "prepare", "place"), help="all tell the survey")
    parser.add_argument("--full", action="store_true", help="read all files")
    options = parser.parse_args()
    try:
        order = StoreOrder.from_json(sys.stdin.buffer.read(), "order")
        store = Store(data_root(), order)
        if options.what == "place":
            store.place(order.files)
        elif options.what == "prepare":
            store.prepare()
        print(store.survey(full=options.full).to_json())
    except (TrainerError, OSError) as error:
        print(f"data set: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
