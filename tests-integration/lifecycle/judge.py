"""The judge: holds the ledger of a life against the table, and asks the bucket once more.

Lives here: what has to be true after each life. Never: what was done to it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from support.integration.bucket_ledger import Ledger, Reader
from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository

from .book import read
from .life import Life
from .place import REGION, TABLE
from .plans import both

ANSWER_SECONDS = 5.0  # on a busy machine; a well store answers in milliseconds


def judge(life: Life, store_url: str) -> int:
    """Add to the life what is wrong; returns how many tokens were taken and not given back, though they ought to be."""
    life.sky.turn("fair")
    life.sky.settle()
    with SyncRepository.open(stack=TABLE, endpoint_url=store_url, region=REGION) as repository:
        reader = Reader(store_url, TABLE, repository.namespace_id)
        try:
            left_behind = _hold_against(life, reader)
            _ask_as_a_newcomer(life, SyncRateLimiter(repository), reader)
        finally:
            reader.close()
    return left_behind


def counted(wrongs: Sequence[str]) -> Sequence[str]:
    """Each kind of wrong once, with how often it was noted."""
    return [f"{times} x {what}" if times > 1 else what for what, times in Counter(wrongs).items()]


def _hold_against(life: Life, reader: Reader) -> int:
    reading = read(Path(life.place.ledger))
    life.wrongs += counted(reading.wrongs)
    if life.hung and reading.last_mark:
        life.wrong(f"last noted: {reading.last_mark}")
    left_behind = 0
    for entity_id, sums in reading.buckets.items():
        for limit in ("all", "rate"):
            taken = _settled(reader, entity_id, life.place.resource, limit).consumed / 1000
            if not sums.least <= taken <= sums.most:
                life.wrong(f"{entity_id} {limit}: the table took {taken:g}, not {sums.least} to {sums.most}")
        books = _settled(reader, entity_id, life.place.resource, "all")
        _made_none(life, entity_id, books, sums.least)
        left_behind += round(books.consumed / 1000) - sums.due
    if life.gives_back and left_behind:
        life.wrong(f"{left_behind} tokens of calls that were cut off did not come back")
    parent = life.place.more.get("parent")
    if parent:
        _parent_agrees(life, reader, parent)
    return left_behind


def _made_none(life: Life, entity_id: str, books: Ledger, admitted: int) -> None:
    """The standing limit is refilled in ten years: what was admitted was there at the beginning."""
    if not books.shards:
        return
    held = sum(shard.tokens for shard in books.shards) + books.consumed
    if held > books.ceiling + 1000:
        life.wrong(f"{entity_id}: {held} millitokens of {books.ceiling}")
    if admitted * 1000 > books.ceiling + 1000 + _debt(books):
        life.wrong(f"{entity_id}: {admitted} admitted of {books.ceiling // 1000}")


def _debt(books: Ledger) -> int:
    return -min(0, sum(shard.tokens for shard in books.shards))  # what `lease.adjust` takes may be owed


def _parent_agrees(life: Life, reader: Reader, parent: str) -> None:
    sums = read(Path(life.place.ledger)).buckets[life.place.entity_id]
    taken = _settled(reader, parent, life.place.resource, "all").consumed / 1000
    if not sums.least <= taken <= sums.most:
        life.wrong(f"parent {parent}: the table took {taken:g}, not {sums.least} to {sums.most}")


def _settled(reader: Reader, entity_id: str, resource: str, limit: str) -> Ledger:
    books: Ledger | None = None
    while books != (books := reader.read(entity_id, resource, limit)):
        time.sleep(0.02)
    return books


def _ask_as_a_newcomer(life: Life, limiter: SyncRateLimiter, reader: Reader) -> None:
    """A process that knows nothing is served, and refused only where there is nothing."""
    place, begun = life.place, time.monotonic()
    before = _settled(reader, place.entity_id, place.resource, "all")
    try:
        with limiter.acquire(place.entity_id, place.resource, both(1)):
            pass
    except RateLimitExceeded as refusal:
        short = {(status.entity_id, status.limit_name) for status in refusal.violations}
        if (place.entity_id, "all") in short and _has(before):
            life.wrong(f"a newcomer was refused, though there is {before}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is wrong
        life.wrong(f"a newcomer was told {error!r}")
    if time.monotonic() - begun > ANSWER_SECONDS:
        life.wrong(f"a newcomer waited for {time.monotonic() - begun:.1f} s")


def _has(books: Ledger) -> bool:
    return sum(shard.tokens for shard in books.shards) >= 1000
