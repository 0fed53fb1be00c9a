"""A rack on paper, its databases, and jobs in its queue."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleetctl.jobs.choose import read_wish
from fleetctl.jobs.jobfile import Job
from fleetctl.jobs.launch import Request
from fleetctl.jobs.runs import RunFolder
from fleetctl.rack import Rack, RackPaths, load_rack
from fleetctl.serve.enqueue import enqueue
from fleetctl.serve.queue import Entry, Queue
from fleetctl.state import State
from trainer.formats import DataManifest, Shard

RACK = """\
rack: paper
network: {cidr: 10.9.0.0/24, medium: ethernet, controller: 10.9.0.1}
switches: {sw1: {ports: 8}, sw2: {ports: 8}}
phones:
  - {names: "phone[001-004]", switch: sw1, ports: 1-4, addresses: 10.9.0.11-14}
  - {names: "phone[005-008]", switch: sw2, ports: 1-4, addresses: 10.9.0.15-18}
"""


@dataclass
class Paper:
    """The rack's folder, with everything in it that a controller keeps."""

    rack_file: Path
    paths: RackPaths
    state: State
    queue: Queue
    said: list[str] = field(default_factory=list)

    @property
    def rack(self) -> Rack:
        return load_rack(self.rack_file)

    def enqueue(self, phones: str = "4", name: str | None = None, **job: object) -> Entry:
        return self._enqueue({"name": "digits", "command": ["true"], "phones": phones, **job}, name)

    def enqueue_training(self, phones: str = "4", **job: object) -> Entry:
        """A training of a data set of noughts."""
        shard = self.paths.data / "noughts" / "train.bin"
        shard.parent.mkdir(parents=True, exist_ok=True)
        shard.write_bytes(b"0")
        shards = (Shard(shard.name, 64, hashlib.sha256(b"0").hexdigest()),)
        manifest = DataManifest("noughts", 10, (1, 8, 8), "uint8", 0, shards, shards)
        manifest.write(shard.with_name("manifest.json"))
        train = {
            "model": "digits-cnn",
            "data": "noughts",
            "epochs": 1,
            "global_batch": 64,
            "optimizer": {"name": "sgd", "lr": 0.1},
        }
        return self._enqueue({"name": "digits", "train": train, "phones": phones, **job}, None)

    def _enqueue(self, job: dict[str, object], name: str | None) -> Entry:
        asked = Job.model_validate(job)
        wish = read_wish(self.rack, asked.phones, {}, minimum=asked.minimum, spares=asked.spares)
        request = Request(asked, wish, name=name)
        return enqueue(self.rack, self.paths, self.queue, request, "ada")

    def run(self, name: str) -> RunFolder:
        return RunFolder(self.paths.runs / name)


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Paper]:
    monkeypatch.setenv("PHONERACK_HOME", str(tmp_path / "home"))
    rack_file = tmp_path / "paper.yml"
    rack_file.write_text(RACK)
    rack = load_rack(rack_file)
    paths = RackPaths(rack.name)
    paths.ensure()
    with State(paths.state_db) as state, Queue(paths.queue_db) as queue:
        for phone in rack.phones:
            state.record_health(phone, "OK")
        state.record_contact(dict.fromkeys(rack.phones, True))
        yield Paper(rack_file, paths, state, queue)
