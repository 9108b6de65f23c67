"""The verification of a life: its ledger agrees with the table, and its bucket serves another process.

Lives here: what has to be true after each life. Never: what was done to it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from support.integration.bucket_shards import BucketShards, Reader
from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository

from .ledger import read
from .life import Life
from .place import REGION, TABLE
from .plans import both

ANSWER_SECONDS = 30.0  # on a busy machine; a healthy store answers in milliseconds


def verify(life: Life, store_url: str) -> int:
    """Add the violations to the life; returns how many tokens are taken that ought to be given back."""
    life.proxy.use("healthy")
    life.proxy.settle()
    with SyncRepository.open(stack=TABLE, endpoint_url=store_url, region=REGION, read_timeout=30) as repository:
        reader = Reader(store_url, TABLE, repository.namespace_id)
        try:
            left_behind = _check_ledger(life, reader)
            _check_another_process(life, SyncRateLimiter(repository), reader)
        finally:
            reader.close()
    return left_behind


def counted(violations: Sequence[str]) -> Sequence[str]:
    """Each violation once, with how often it was noted."""
    return [f"{times} x {what}" if times > 1 else what for what, times in Counter(violations).items()]


def _check_ledger(life: Life, reader: Reader) -> int:
    reading = read(Path(life.place.ledger))
    life.violations += counted(reading.violations)
    if life.hung and reading.last_mark:
        life.violation(f"last noted: {reading.last_mark}")
    left_behind = 0
    for entity_id, sums in reading.buckets.items():
        for limit in ("all", "rate"):
            taken = _read_when_settled(reader, entity_id, life.place.resource, limit).consumed / 1000
            if not sums.least <= taken <= sums.most:
                life.violation(f"{entity_id} {limit}: the table took {taken:g}, not {sums.least} to {sums.most}")
        bucket = _read_when_settled(reader, entity_id, life.place.resource, "all")
        _check_none_minted(life, entity_id, bucket, sums.least)
        left_behind += round(bucket.consumed / 1000) - sums.due
    if life.gives_back and left_behind:
        life.violation(f"{left_behind} tokens of calls that were cut off did not come back")
    parent = life.place.more.get("parent")
    if parent:
        _check_parent(life, reader, parent)
    return left_behind


def _check_none_minted(life: Life, entity_id: str, bucket: BucketShards, admitted: int) -> None:
    """The limit ``all`` is refilled in ten years: the tokens that were admitted were there at the beginning."""
    if not bucket.shards:
        return
    held = sum(shard.tokens for shard in bucket.shards) + bucket.consumed
    if held > bucket.ceiling + 1000:
        life.violation(f"{entity_id}: {held} millitokens of {bucket.ceiling}")
    if admitted * 1000 > bucket.ceiling + 1000 + _debt(bucket):
        life.violation(f"{entity_id}: {admitted} admitted of {bucket.ceiling // 1000}")


def _debt(bucket: BucketShards) -> int:
    return -min(0, sum(shard.tokens for shard in bucket.shards))  # what `lease.adjust` takes may be owed


def _check_parent(life: Life, reader: Reader, parent: str) -> None:
    sums = read(Path(life.place.ledger)).buckets[life.place.entity_id]
    taken = _read_when_settled(reader, parent, life.place.resource, "all").consumed / 1000
    if not sums.least <= taken <= sums.most:
        life.violation(f"parent {parent}: the table took {taken:g}, not {sums.least} to {sums.most}")


def _read_when_settled(reader: Reader, entity_id: str, resource: str, limit: str) -> BucketShards:
    bucket: BucketShards | None = None
    while bucket != (bucket := reader.read(entity_id, resource, limit)):
        time.sleep(0.02)
    return bucket


def _check_another_process(life: Life, limiter: SyncRateLimiter, reader: Reader) -> None:
    """A process that has just opened is served, and refused only where there are no tokens."""
    place, begun = life.place, time.monotonic()
    before = _read_when_settled(reader, place.entity_id, place.resource, "all")
    try:
        with limiter.acquire(place.entity_id, place.resource, both(1)):
            pass
    except RateLimitExceeded as refusal:
        short = {(status.entity_id, status.limit_name) for status in refusal.violations}
        if (place.entity_id, "all") in short and _has_a_token(before):
            life.violation(f"another process was refused, though there is {before}")
    except Exception as error:  # noqa: BLE001 - any other error is a violation
        life.violation(f"another process was told {error!r}")
    if time.monotonic() - begun > ANSWER_SECONDS:
        life.violation(f"another process waited for {time.monotonic() - begun:.1f} s")


def _has_a_token(bucket: BucketShards) -> bool:
    return sum(shard.tokens for shard in bucket.shards) >= 1000
