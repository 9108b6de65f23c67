"""What a write gives the item of a bucket shard: ``items`` reads it back."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..rules.balances import limit_share
from ..rules.registry import rule_of
from ..values.limits import MILLI, Limit
from .attributes import ACQUIRES, CONFIG_READ_AT, SHARD_COUNT, TTL, bucket_attributes
from .items import ONE_WRITE, WRITES, BucketId, Item, anchor_attributes
from .limit_fields import limit_fields


class LimitBalance(NamedTuple):
    """One limit of a new bucket item: its tokens, and the tokens consumed, in millitokens; its ``schedule_id``; and the
    ``fraction`` of a slow limit whose tokens are not whole at the anchor.
    """

    limit: Limit
    tokens: int
    consumed: int = 0
    schedule_id: str = ""
    fraction: int | None = None


def bucket_item(
    bucket: BucketId,
    parent_link: Mapping[str, Any],
    balances: Iterable[LimitBalance],
    *,
    shard_count: int,
    anchor_ms: int,
    config_read_at_ms: int,
    spread: bool,
    expires_at: int | None = None,
) -> Item:
    """Return the item of a new bucket shard, with its entity's ``parent_link``; ``expires_at`` is in epoch seconds.

    ``spread``: its index rows have a suffix, as the table's schema says.
    """
    item: Item = {
        **bucket.attributes(spread=spread),
        **parent_link,
        SHARD_COUNT: shard_count,
        CONFIG_READ_AT: config_read_at_ms,
        ACQUIRES: 0,
        WRITES: ONE_WRITE,
    }
    balances = tuple(balances)
    item |= anchor_attributes((each.limit for each in balances), anchor_ms)
    for limit, tokens, consumed, schedule_id, fraction in balances:
        at = bucket_attributes(limit.name)
        item |= {at.tokens: tokens, at.consumed: consumed, **rule_attributes(limit)}
        if (rule := rule_of(limit)).unit(shard_count):
            whole = rule.remainder(anchor_ms, bucket.shard, shard_count)
            item[at.fraction] = whole if fraction is None else fraction
        if schedule_id:
            item[at.schedule_id] = schedule_id
        if limit.has_slots:
            held = limit_share(limit, limit.ceiling_milli, bucket.shard, shard_count) - tokens
            item |= slot_attributes(limit, anchor_ms, held)
    if expires_at is not None:
        item[TTL] = expires_at
    return item


def slot_attributes(limit: Limit, now_ms: int, held: int) -> Item:
    """Return the attributes of slots in a new bucket, or of a limit that is new to it: its first epoch begins."""
    even, odd = (0, held) if now_ms % 2 else (held, 0)
    return dict(zip(bucket_attributes(limit.name).slots, (now_ms, now_ms, even, odd), strict=True))


def rule_attributes(limit: Limit) -> Item:
    """Return the attributes of a bucket item that hold the rule: in thousandths, the burst only if it is not the
    capacity.
    """
    return limit_fields(limit, bucket_attributes(limit.name), unit=MILLI, burst=limit.capacity)
