"""The arithmetic of a stored balance that is anchored at an instant: pure functions, without any write.

The problem: time refills every bucket, but a write for each refill would cost more than the acquires. The choice: a
balance of ``tokens`` is as of an ``anchor``, and the rule says what was minted since. The headroom at ``now`` is
``min(ceiling, tokens + minted(now) - minted(anchor))``. So time refills a bucket, and no write has to. The price: a
write that adds to the balance has to bound it by the ceiling (see ``flows.bucket.batch``). The idea is that of virtual
scheduling in GCRA, ITU-T I.371 (1993), which stores an instant in place of a count.

Amounts are in millitokens, instants in epoch milliseconds.
"""

from .. import rules
from ..runtime.dataclass import dataclass, field, replace
from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI, Limit
from .registry import rule_of
from .rule import FOREVER_MS, Rule
from .slots import Lost, Slots


def share(whole: int, shard: int, shards: int) -> int:
    """Return the share that shard ``shard`` of ``shards`` has of ``whole``; the shares add up to the whole exactly."""
    return (whole + shard) // shards


def limit_share(limit: Limit, whole: int, shard: int, shards: int) -> int:
    """Return the share that a shard has of the ``whole`` of a limit. Slots are not divided: shard 0 has them all."""
    if limit._has_slots:
        return 0 if shard else whole
    return share(whole, shard, shards)


def is_quota(limit: Limit) -> bool:
    """Return whether what was used of the limit counts until a window ends, or for ever."""
    return limit.kind not in ("token_bucket", "concurrent")


def keeps_use(was: Limit, limit: Limit) -> bool:
    """Return whether a change from one limit to another keeps what was used (``quotas``), and not what is left."""
    if (was.kind == limit.kind == "token_bucket") or was._has_slots or limit._has_slots:
        return False
    return was != limit


@dataclass(slots=True)  # it is never changed; frozen, it would cost each new bucket twice the time
class ShardLimit:
    """One limit on one shard of a bucket, with the anchor of its balance.

    ``ceiling_milli`` and ``minted`` are the shard's shares of the whole limit. ``mark`` is what the
    whole limit had minted up to the anchor, if its writer stored that. ``begun_ms`` is the begin of its window, if
    that is stored. ``slots`` are those of a limit that has some: their balance is of now, whatever the anchor.
    ``missing``: the shard does not have it yet, so it begins anew at any time. ``fraction`` is that of a slow limit, as
    its item has it; without one the balance is whole at the anchor. ``unit``: the parts of a millitoken in it, 0 for a
    limit that has none. ``part`` mints what the shard gets. ``excess`` was used until a window ends, beside what the
    balance shows: only a change of the limit asks for it.
    """

    limit: Limit
    anchor_ms: int
    shard: int = 0
    shards: int = 1
    mark: int | None = None
    begun_ms: int | None = None
    slots: Slots | None = None
    missing: bool = False
    fraction: int | None = None
    excess: int = 0
    excess_until_ms: int = FOREVER_MS
    rule: Rule = field(init=False, repr=False, compare=False)
    part: Rule = field(init=False, repr=False, compare=False)
    unit: int = field(init=False, repr=False, compare=False)
    ceiling_milli: int = field(init=False)
    minted_at_anchor: int = field(init=False)

    def __post_init__(self) -> None:
        if self.slots is not None:
            rule: Rule = Lost(self.slots, self.shards)
        else:
            rule = rule_of(self.limit).since(self.anchor_ms if self.begun_ms is None else self.begun_ms)
        self.rule, self.unit = rule, rule.unit(self.shards)
        if self.fraction is None:
            self.fraction = self.whole_at(self.anchor_ms)
        self.part = rule.on_shard(self.shard, self.shards, self.fraction or 0)
        self.ceiling_milli = limit_share(self.limit, self.limit._ceiling_milli, self.shard, self.shards)
        if self.slots is not None:
            self.minted_at_anchor = 0
            return
        whole = rule.minted(self.anchor_ms) if self.mark is None else self.mark
        self.minted_at_anchor = share(whole, self.shard, self.shards)

    def __hash__(self) -> int:
        return hash((self.limit, self.anchor_ms, self.shard, self.shards, self.begun_ms, self.fraction))

    def moved(self, at_ms: int, limit: Limit | None = None, mark: int | None = None) -> "ShardLimit":
        """Return the same limit, or another one in its place, on the same shard and in the same window, as of another
        anchor: of the balance that is there then, and with the part of a millitoken that is minted beyond it.
        """
        begun_ms = self.anchor_ms if self.begun_ms is None else self.begun_ms
        limit, fraction = limit or self.limit, None
        if unit := rule_of(limit).unit(self.shards):
            fraction = rule_of(limit).remainder(at_ms, self.shard, self.shards) - self.part.beyond(at_ms, unit)
        excess = self.excess, self.excess_until_ms
        return ShardLimit(limit, at_ms, self.shard, self.shards, mark, begun_ms, None, self.missing, fraction, *excess)

    @property
    def nominal_milli(self) -> int:
        """What the shard has of which nothing was used: without what was carried over or credited."""
        limit = self.limit
        whole = limit.capacity * MILLI if is_quota(limit) else limit._ceiling_milli
        return limit_share(limit, whole, self.shard, self.shards)

    def excess_at(self, at_ms: int) -> int:
        """Return the excess of a window that has not ended."""
        return self.excess if at_ms < self.excess_until_ms else 0

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``."""
        return self.part.minted(t_ms)

    def minted_since_anchor(self, now_ms: int) -> int:
        """Return the millitokens minted between the anchor and ``now_ms``; negative if the anchor is in the future."""
        return self.part.minted(now_ms) - self.minted_at_anchor

    def moved_by_anchor(self, at_ms: int) -> int:
        """Return what the stored tokens change by if ``at_ms`` becomes the anchor, whatever the fraction: slots do not
        depend on it.
        """
        if self.slots is not None:
            return 0
        return share(self.rule.minted(at_ms), self.shard, self.shards) - self.minted_at_anchor

    def whole_at(self, t_ms: int) -> int:
        """Return the fraction of a balance that is whole at an instant."""
        return self.rule.remainder(t_ms, self.shard, self.shards) if self.unit else 0


class Move(NamedTuple):
    """What a write makes of the stored tokens ``x`` of a limit, before it takes any: ``x + moved``, or ``full`` if
    ``x + minted`` reaches the ``ceiling``. Without a ceiling they are ``x + moved``, whatever they were.

    ``minted`` comes until the anchor that the write gives the balance, ``due`` is there now: a new anchor may be a
    moment in the future. ``fraction`` and ``whole`` are those of a slow limit, below its ceiling and at it.
    """

    due: int
    minted: int
    ceiling: int | None
    moved: int
    full: int = 0
    fraction: int | None = None
    whole: int | None = None


class Begin(NamedTuple):
    """What a limit has from a write on, whatever it had: its tokens, and its fraction if it is a slow one."""

    tokens: int
    fraction: int | None = None


def stay(shard_limit: ShardLimit, now_ms: int) -> Move:
    """Return the move of a write at ``now_ms`` that leaves the anchor where it is."""
    minted, ceiling = shard_limit.minted_since_anchor(now_ms), shard_limit.ceiling_milli
    if not shard_limit.unit:
        return Move(minted, minted, ceiling, 0, ceiling - minted)
    full = ceiling - shard_limit.moved_by_anchor(now_ms)
    return Move(minted, minted, ceiling, 0, full, shard_limit.fraction, shard_limit.whole_at(now_ms))


def carry(shard_limit: ShardLimit, at_ms: int) -> Move:
    """Return the move to another anchor under the same rule, which leaves the headroom as it is at every instant.

    ``min(ceiling, tokens + minted(t) - minted(anchor))`` does not change if ``tokens`` grows by ``minted(at) -
    minted(anchor)`` and ``anchor`` becomes ``at``. That is the same for each balance, so others may write meanwhile,
    and no ceiling has to cut it.
    """
    return Move(0, 0, None, shard_limit.moved_by_anchor(at_ms))


def become(shard_limit: ShardLimit, tokens_milli: int, limit: Limit, at_ms: int, now_ms: int) -> Move:
    """Return the move to another anchor and maybe another rule, by which a limit keeps its tokens up to the lower of
    the two ceilings. ``tokens_milli`` are those seen.
    """
    ruled = shard_limit.moved(at_ms, limit)
    due, minted = shard_limit.minted_since_anchor(now_ms), shard_limit.minted_since_anchor(at_ms)
    ceiling = min(shard_limit.ceiling_milli, ruled.ceiling_milli)
    since_ms = now_ms if limit == shard_limit.limit and tokens_milli + due >= ceiling else at_ms
    return arrive(ruled, due, minted, ceiling, since_ms)


def arrive(ruled: ShardLimit, due: int, minted: int, ceiling: int, full_ms: int) -> Move:
    """Return the move to a limit as its new anchor finds it; at its ceiling, a slow one is whole at ``full_ms``."""
    if not ruled.unit:
        return Move(due, minted, ceiling, minted, ceiling)
    fraction, full = ruled.fraction or 0, ceiling - ruled.moved_by_anchor(full_ms)
    moved = minted + (fraction < 0)  # then more than its part of this millitoken is there
    return Move(due, minted, ceiling, moved, full, fraction % ruled.unit, ruled.whole_at(full_ms))


def refill_bucket(shard_limit: ShardLimit, tokens_milli: int, now_ms: int) -> int:
    """Return the headroom at ``now_ms`` of a limit with ``tokens_milli`` at its anchor, in millitokens."""
    return min(shard_limit.ceiling_milli, tokens_milli + shard_limit.minted_since_anchor(now_ms))


def move_anchor(
    shard_limit: ShardLimit, tokens_milli: int, at_ms: int, limit: Limit | None = None
) -> tuple[ShardLimit, int]:
    """Return the limit, or another one in its place, and its balance as of another anchor: with at most what each of
    the two may hold, or what a changed quota leaves.
    """
    balance = refill_bucket(shard_limit, tokens_milli, at_ms)
    if limit is not None and keeps_use(shard_limit.limit, limit):
        return rules.quotas.change(shard_limit, balance, limit, at_ms)
    moved = shard_limit.moved(at_ms, limit)
    if moved.unit and balance >= min(shard_limit.ceiling_milli, moved.ceiling_milli):
        moved = replace(moved, fraction=None)
    return moved, min(balance, moved.ceiling_milli)


def take(tokens_milli: int, cost_milli: int, ceiling: int, minted: int) -> int | None:
    """Return the stored balance after the cost is taken of one with the ``ceiling``, for which so much was ``minted``
    since its anchor; ``None`` if less is there. What overflowed is forgotten.
    """
    full = ceiling - minted
    if tokens_milli > full:
        tokens_milli = full
    return tokens_milli - cost_milli if cost_milli <= tokens_milli + minted else None


def force_consume(shard_limit: ShardLimit, tokens_milli: int, cost_milli: int, now_ms: int) -> tuple[ShardLimit, int]:
    """Return the limit and its stored balance (as of the anchor) after the cost is taken at ``now_ms``, even into debt:
    a limit at its ceiling is whole then.
    """
    if tokens_milli + shard_limit.minted_since_anchor(now_ms) < shard_limit.ceiling_milli:
        return shard_limit, tokens_milli - cost_milli
    if shard_limit.unit:
        shard_limit = replace(shard_limit, fraction=shard_limit.whole_at(now_ms))
    return shard_limit, shard_limit.ceiling_milli - cost_milli - shard_limit.minted_since_anchor(now_ms)


def reached_at(shard_limit: ShardLimit, tokens_milli: int, balance_milli: int) -> int:
    """Return the first millisecond at which ``tokens_milli`` at the anchor have grown to ``balance_milli``."""
    return shard_limit.part.reached(balance_milli - tokens_milli + shard_limit.minted_at_anchor)
