"""Buckets that were written by a clock that was ahead: brought back to now, when they are read.

The problem: a balance counts from the anchor, so tokens that were taken while the clock was a year ahead had been
minted in that year. Once the clock is right again, the bucket looks as if it owed all of them, and no call passes for a
year; nothing in the item tells that from a debt. The choice: each bucket's row has the instant of its last write. If
that lies ahead, the balance of that instant becomes the balance of now: nothing is minted, and nothing is owed that was
not. Slots and windows that began ahead begin now.
"""

from ...operations.values import Item
from ...rules.balances import refill_bucket
from ...schema.attributes import CONFIG_READ_AT, TTL, bucket_attributes
from ...schema.items import anchor_attributes, read_bucket
from ...schema.record import UNREADABLE


def brought_back(item: Item, written_ms: int, now_ms: int) -> Item:
    """Return a bucket that was written ahead as if it had been written now; a damaged one as it is."""
    try:
        state = read_bucket(item)
        now = {CONFIG_READ_AT: min(item[CONFIG_READ_AT], now_ms), **anchor_attributes(state.limits, now_ms)}
        for name, shard_limit in state.shard_limits.items():
            at = bucket_attributes(name)
            if name not in state.slots:
                now[at.tokens] = refill_bucket(shard_limit, item[at.tokens], written_ms)
            now |= {begin: min(item[begin], now_ms) for begin in (at.epoch_began, at.begun) if begin in item}
    except UNREADABLE:
        return item
    if TTL in item:  # as long a life as it had
        now[TTL] = item[TTL] - (written_ms - now_ms) // 1000
    return {**item, **now}
