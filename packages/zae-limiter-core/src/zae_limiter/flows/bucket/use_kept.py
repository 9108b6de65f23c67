"""The writes of changed quotas: what was used counts, whatever a limit becomes (``rules.quotas``).

More of a limit is an addition, which fits any balance. Less of it depends on the balance that was seen: below what was
used it leaves none, and notes the rest as excess. So such a write has the condition that the balance is that one.
"""

from collections.abc import Mapping

from ... import rules
from ...operations.values import Item
from ...rules.balances import Begin, Move, ShardLimit, refill_bucket
from ...rules.quotas import change, gain, raised
from ...rules.rule import FOREVER_MS
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import bucket_attributes
from ...schema.items import BucketState
from ...values.limits import Limit
from .writing import Changed


class Kept(NamedTuple):
    """What a write says beside the moves of changed quotas; ``lasts_ms``: the time until no excess counts any more."""

    values: Item
    remove: tuple[str, ...]
    expected: Mapping[str, int]
    lasts_ms: int


def changed(
    was: ShardLimit, tokens_milli: int, limit: Limit, declared: Limit | None, anchor_ms: int, now_ms: int
) -> Changed:
    """Return what becomes of a limit of which what was used counts. ``declared``: the limit with its schedule, if that
    alone changes it.
    """
    if declared is not None:
        ruled, tokens = rules.schedules.follow(was, tokens_milli, declared, anchor_ms)
        _, there = rules.schedules.follow(was, tokens_milli, declared, max(now_ms, was.anchor_ms))
    elif (more := gain(was, limit, anchor_ms)) >= 0:
        move = raised(was, limit, more, anchor_ms, now_ms)
        ruled, _ = change(was, refill_bucket(was, tokens_milli, anchor_ms), limit, anchor_ms)
        assert move.ceiling is not None
        return Changed(move, ruled, min(move.ceiling, tokens_milli + move.due), move.ceiling)
    else:
        ruled, tokens = change(was, refill_bucket(was, tokens_milli, anchor_ms), limit, anchor_ms)
        _, there = change(was, refill_bucket(was, tokens_milli, now_ms), limit, now_ms)
    return Changed(
        Begin(tokens, ruled.fraction if ruled.unit else None), ruled, min(tokens, there), ruled.ceiling_milli
    )


def kept(state: BucketState, ruled: Mapping[str, ShardLimit], moves: Mapping[str, Move | Begin], now_ms: int) -> Kept:
    """Return what a write of changed limits says beside their moves. A window of the first use begins with it."""
    values, gone, expected, lasts_ms = Item(), list[str](), dict[str, int](), 0
    for name, each in ruled.items():
        noted, dropped = state.excess_change(name, each.excess, each.excess_until_ms)
        values |= noted
        gone += dropped
        if each.excess:
            ends_ms = each.excess_until_ms
            lasts_ms = max(lasts_ms, FOREVER_MS if ends_ms >= FOREVER_MS else ends_ms - now_ms)
        if each.limit.kind == "first_use" and (each.excess or state.shard_limits[name].limit.kind != "first_use"):
            values[bucket_attributes(name).begun] = each.begun_ms
        if isinstance(moves[name], Begin):
            expected[bucket_attributes(name).tokens] = state.tokens_milli(name)
    return Kept(values, tuple(gone), expected, lasts_ms)
