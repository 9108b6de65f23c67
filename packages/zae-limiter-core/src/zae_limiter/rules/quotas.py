"""What becomes of what was used when a quota gets another value, window or kind.

The problem: a balance says what is left, and people who change a quota mean what was used: of 1,000 in place of 100,
after 80, are 920 left. Below what was used nothing is left until the window ends, and this debt is not one of the next
window, but a quota that is raised again before must know it: else a quota that two processes change back and forth
would give tokens with each change. The choice: a change keeps the *use*, ``nominal - balance + excess``. The ``excess``
is what the balance does not show of it; it is stored beside the balance until the window ends, and only a change of the
limit reads it. So a change never lowers what counts as used, in whatever order changes come.

Between two token buckets nothing was used of a window: they keep their tokens (``balances.become``).

Amounts are in millitokens. docs/decisions/a-change-keeps-the-use.md.
"""

from ..runtime.dataclass import replace
from ..runtime.named_tuple import NamedTuple
from ..values.limits import Limit
from .balances import Move, ShardLimit, arrive, is_quota
from .rule import FOREVER_MS


class Left(NamedTuple):
    """What a limit has after a change: its tokens, and what it lacks more than these until the window ends."""

    tokens: int
    excess: int


def left_after(balance: int, used: int, nominal: int, ceiling: int) -> Left:
    """Return what is left of a ``nominal`` amount under a ``ceiling``, where there was a ``balance`` and so much counts
    as used. Only a debt that was there before lasts for longer than the window.
    """
    left = nominal - used
    tokens = min(ceiling, max(left, min(balance, 0)))
    return Left(tokens, max(0, tokens - left))


def change(shard_limit: ShardLimit, balance: int, limit: Limit, at_ms: int) -> tuple[ShardLimit, int]:
    """Return another limit in the place of one of which what was used counts, and its balance at ``at_ms``, where
    ``balance`` was.
    """
    ruled = shard_limit.moved(at_ms, limit)
    if limit.kind == "first_use" != shard_limit.limit.kind:
        ruled = replace(ruled, begun_ms=at_ms)
    used = shard_limit.nominal_milli - balance + shard_limit.excess_at(at_ms)
    tokens, excess = left_after(balance, used, ruled.nominal_milli, ruled.ceiling_milli)
    rule = ruled.rule if is_quota(limit) else shard_limit.rule
    until_ms = rule.reached(rule.minted(at_ms) + 1) if excess else FOREVER_MS
    return replace(ruled, fraction=None, excess=excess, excess_until_ms=until_ms), tokens


def gain(shard_limit: ShardLimit, limit: Limit, at_ms: int) -> int:
    """Return what a change to the limit adds to any balance: where it is negative, it depends on the balance."""
    ruled = shard_limit.moved(at_ms, limit)
    return ruled.nominal_milli - shard_limit.nominal_milli - shard_limit.excess_at(at_ms)


def raised(shard_limit: ShardLimit, limit: Limit, more: int, at_ms: int, now_ms: int) -> Move:
    """Return the move to a limit of which so much more is left, whatever others take meanwhile."""
    ruled = shard_limit.moved(at_ms, limit)
    due, minted = shard_limit.minted_since_anchor(now_ms), shard_limit.minted_since_anchor(at_ms)
    ceiling = min(shard_limit.ceiling_milli + more, ruled.ceiling_milli)
    return arrive(ruled, due + more, minted + more, ceiling, at_ms)
