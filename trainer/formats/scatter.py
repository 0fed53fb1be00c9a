"""Which samples and shards of a data set a phone needs in a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.formats.plan import Plan
from trainer.formats.stored import DataManifest, Shard
from trainer.shares import equal_shares, largest_remainder, part_of


def needed_shards(manifest: DataManifest, plan: Plan, rank: int) -> tuple[Shard, ...]:
    """What must lie on the phone of `rank`: all shards, or under `stage: share` those that hold
    its training samples and its part of the test set. Two neighbours may both need the shard in
    which the part of one ends and that of the other begins."""
    if plan.data.stage == "all":
        return manifest.shards
    train = held_samples(manifest.train_samples, plan.samples_per_rank, rank)
    test = slice(0, manifest.test_samples)
    if plan.exchange.enabled:
        test = part_of(equal_shares(manifest.test_samples, len(plan.phones)), rank)
    return (*overlapping(manifest.train, train), *overlapping(manifest.test, test))


def held_samples(samples: int, shares: Sequence[int], rank: int) -> slice:
    """The training samples of which a rank is the only user under `stage: share`."""
    return part_of(largest_remainder(samples, shares), rank)


def overlapping(shards: Sequence[Shard], samples: slice) -> tuple[Shard, ...]:
    """The shards that hold samples `start` to `stop` of their split."""
    found, first = [], 0
    for shard in shards:
        end = first + shard.samples
        if max(first, samples.start) < min(end, samples.stop):
            found.append(shard)
        first = end
    return tuple(found)
