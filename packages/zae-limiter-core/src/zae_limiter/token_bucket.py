"""The arithmetic of a token bucket whose stored balance is anchored at an instant: pure functions, without any write.

Amounts are in millitokens, instants in epoch milliseconds. ``refill_amount * t // refill_period`` is minted up to
``t``. Between two instants the difference of the two floors is minted: it telescopes, so it is exact in however many
steps it is taken. A stored balance of ``tokens`` is as of the ``anchor``; the headroom at ``now`` is ``min(ceiling,
tokens + minted(now) - minted(anchor))``. Time refills a bucket, no write has to.
"""

import math
from dataclasses import dataclass, field
from typing import Final

from .values.limits import MILLI, Limit, LimitStatus

NEVER: Final = math.inf


def share(whole: int, shard: int, shards: int) -> int:
    """Return the share that shard ``shard`` of ``shards`` has of ``whole``; the shares add up to the whole exactly."""
    return (whole + shard) // shards


@dataclass(frozen=True, slots=True)
class ShardLimit:
    """One limit on one shard of a bucket, with the anchor of its balance.

    ``ceiling_milli`` and ``minted`` are the shard's shares of the whole limit.
    """

    limit: Limit
    anchor_ms: int
    shard: int = 0
    shards: int = 1
    ceiling_milli: int = field(init=False)
    minted_at_anchor: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ceiling_milli", share(self.limit.ceiling_milli, self.shard, self.shards))
        object.__setattr__(self, "minted_at_anchor", self.minted(self.anchor_ms))

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``."""
        limit = self.limit
        return (limit.refill_amount * t_ms // limit.refill_period + self.shard) // self.shards

    def minted_since_anchor(self, now_ms: int) -> int:
        """Return the millitokens minted between the anchor and ``now_ms``; negative if the anchor lies ahead."""
        limit = self.limit
        return (limit.refill_amount * now_ms // limit.refill_period + self.shard) // self.shards - self.minted_at_anchor


def refill_bucket(shard_limit: ShardLimit, tokens_milli: int, now_ms: int) -> int:
    """Return the headroom at ``now_ms`` of a limit with ``tokens_milli`` at its anchor, in millitokens."""
    return min(shard_limit.ceiling_milli, tokens_milli + shard_limit.minted_since_anchor(now_ms))


def calculate_available(shard_limit: ShardLimit, tokens_milli: int, now_ms: int) -> int:
    """Return whole tokens at ``now_ms``, rounded down; negative in debt."""
    return refill_bucket(shard_limit, tokens_milli, now_ms) // MILLI


def would_refill_satisfy(shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int) -> bool:
    """Return whether the headroom at ``now_ms`` covers the cost."""
    return cost_milli <= refill_bucket(shard_limit, tokens_milli, now_ms)


def try_consume(shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int) -> int | None:
    """Return the stored balance (as of the anchor) after the cost is taken at ``now_ms``, ``None`` if it is not there.

    Tokens above the ceiling at ``now_ms`` are forgotten.
    """
    if not would_refill_satisfy(shard_limit, tokens_milli, cost_milli, now_ms):
        return None
    return force_consume(shard_limit, tokens_milli, cost_milli, now_ms)


def force_consume(shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int) -> int:
    """Return the stored balance (as of the anchor) after the cost is taken at ``now_ms``, even into debt."""
    return refill_bucket(shard_limit, tokens_milli, now_ms) - cost_milli - shard_limit.minted_since_anchor(now_ms)


def reached_at(shard_limit: ShardLimit, tokens_milli: int, balance_milli: int) -> int:
    """Return the first millisecond at which ``tokens_milli`` at the anchor have grown to ``balance_milli``."""
    needed = (balance_milli - tokens_milli + shard_limit.minted_at_anchor) * shard_limit.shards - shard_limit.shard
    return -(-needed * shard_limit.limit.refill_period // shard_limit.limit.refill_amount)


def calculate_retry_after(shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int) -> float:
    """Return the seconds from ``now_ms`` to the first millisecond at which the cost is covered; ``NEVER`` above the
    ceiling.
    """
    if would_refill_satisfy(shard_limit, tokens_milli, cost_milli, now_ms):
        return 0.0
    if cost_milli > shard_limit.ceiling_milli:
        return NEVER
    return (reached_at(shard_limit, tokens_milli, cost_milli) - now_ms) / 1000


def build_limit_status(
    shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int, *, entity_id: str, resource: str
) -> LimitStatus:
    """Return the status of the limit at ``now_ms``, for a request of ``cost_milli``."""
    available = calculate_available(shard_limit, tokens_milli, now_ms)
    next_milli = (max(0, available) + 1) * MILLI
    return LimitStatus(
        entity_id=entity_id,
        resource=resource,
        limit_name=shard_limit.limit.name,
        limit=shard_limit.limit,
        available=available,
        requested=cost_milli // MILLI,
        exceeded=not would_refill_satisfy(shard_limit, tokens_milli, cost_milli, now_ms),
        retry_after_seconds=calculate_retry_after(shard_limit, tokens_milli, cost_milli, now_ms),
        next_token_seconds=calculate_retry_after(shard_limit, tokens_milli, next_milli, now_ms),
    )
