"""Remove limits that no config names any more: each leaves the bucket once it is full.

A limit that comes back starts full. So one that leaves must be full: a debt stays until it is paid. ``write_plans`` has
the writes that serve requests.
"""

from collections.abc import Collection, Sequence
from typing import Final

from ...exceptions import ValidationError
from ...operations.errors import ConditionFailed, StoreError
from ...operations.values import Update
from ...rules.balances import refill_bucket
from ...schema.attributes import CONFIG_AS_OF
from ...schema.items import BucketId, BucketState
from ...values.limits import MAX_LIMITS
from ...values.resolution import Config
from ..process.namespace_state import CachedShard, NamespaceState
from ..retry import read, with_retries
from ..steps import Flow
from .writing import Change, write

MAX_IN_BUCKET: Final = 2 * MAX_LIMITS  # those of one config, and as many of former ones


class TooManyLimits(StoreError):
    """A bucket has no room for its new limits; ``problem`` is the error for the caller."""

    def __init__(self, bucket: BucketId, held: int, new: int) -> None:
        place = f"{bucket.entity_id}/{bucket.resource}"
        self.problem = ValidationError(
            "limits",
            place,
            f"its bucket holds {held} limits, and has no place for {new} more: at most {MAX_IN_BUCKET}. Those that no"
            " config names leave when they are full: wait, use fewer names, or call reset_bucket()",
        )
        super().__init__(str(self.problem))


def excess(state: BucketState, config: Config) -> int:
    """Return how many limits more than the maximum the bucket would have with those of the config."""
    if len(state.shard_limits) + len(config.limits) <= MAX_IN_BUCKET:
        return 0
    return max(0, len(state.shard_limits.keys() | config.by_name.keys()) - MAX_IN_BUCKET)


def leaving(namespace_state: NamespaceState, cached: CachedShard, config: Config | None) -> Sequence[str]:
    """Return the full limits that the config does not name, if they may leave now.

    They may if the config is stored and no older than the one behind the bucket's shape. This happens at most once in a
    life of the config cache, so that a limit passed by one call site alone does not come and go with every write.
    """
    state = cached.state
    if state is None or config is None or not config.stored or len(state.limit_states) <= len(config.limits):
        return ()
    now, cv = namespace_state.now(), state.item[CONFIG_AS_OF]
    if now - cv < namespace_state.settings.config_ttl_ms or state.is_in_future(now):
        return ()
    return full(state, _anchor(state, now), config.by_name) if cached.agrees_with(config) else ()


def tidy(namespace_state: NamespaceState, cached: CachedShard, config: Config, names: Sequence[str]) -> Flow[None]:
    """Drop these limits. After a failure the next write tries again."""
    assert cached.state is not None, "only a bucket that was seen has limits"
    cv = max(config.born_ms, cached.state.item[CONFIG_AS_OF])
    try:
        yield from drop(cached, names, namespace_state.now(), cv=cv)
    except StoreError:
        return


def make_room(cached: CachedShard, config: Config, now_ms: int) -> Flow[bool]:
    """Drop full limits so that those of the config have room; return ``False`` if nothing was dropped.

    Raises ``TooManyLimits``, ``StoreError``.
    """
    names = _in_the_way(cached.state, config, now_ms)
    if names is None:  # an old copy refuses nothing: read the bucket
        cached.learn((yield from read(cached.key)), now_ms, own_writes=0)
        names = _in_the_way(cached.state, config, now_ms)
    if names is None and cached.state is not None:
        new = config.by_name.keys() - cached.state.shard_limits.keys()
        raise TooManyLimits(cached.id, len(cached.state.shard_limits), len(new))
    if not names or cached.state is None:
        return False
    return (yield from drop(cached, names, now_ms, cv=cached.state.item[CONFIG_AS_OF]))


def _in_the_way(state: BucketState | None, config: Config, now_ms: int) -> Sequence[str] | None:
    """Return the limits to drop so that those of the config have room; ``None`` if too few are full."""
    missing = 0 if state is None else excess(state, config)
    if state is None or not missing:
        return ()
    names = full(state, _anchor(state, now_ms), config.by_name)
    return names[:missing] if len(names) >= missing else None


def full(state: BucketState, at_ms: int, named: Collection[str]) -> list[str]:
    """Return the limits that are not ``named`` and are at their ceiling at an instant, sorted by name."""
    others = sorted(state.shard_limits.keys() - named)
    return [name for name in others if _is_full(state, name, at_ms)]


def drop(cached: CachedShard, names: Sequence[str], now_ms: int, *, cv: int) -> Flow[bool]:
    """Drop limits from the bucket; return ``False`` if another write came first."""
    state = cached.state
    assert state is not None, "only a bucket that was seen has limits"
    try:
        item = yield from with_retries(dropped(state, names, _anchor(state, now_ms), cv=cv))
    except ConditionFailed as failure:
        cached.learn(failure.item, now_ms, own_writes=0)
        return False
    cached.learn(item, now_ms, own_writes=1)
    return True


def dropped(state: BucketState, names: Collection[str], at_ms: int, *, cv: int) -> Update:
    """Return the update that drops these limits, if they are full at ``at_ms``; the others keep what they have.

    The anchor moves, so that every write decided by the former limits fails, and is decided again.
    """
    return write(state, Change(at_ms, rules=dict.fromkeys(names), values={CONFIG_AS_OF: cv}), at_ms)


def _is_full(state: BucketState, name: str, at_ms: int) -> bool:
    shard_limit = state.shard_limits[name]
    if shard_limit.excess_at(at_ms):
        return False
    return refill_bucket(shard_limit, state.tokens_milli(name), at_ms) >= shard_limit.ceiling_milli


def _anchor(state: BucketState, now_ms: int) -> int:
    return max(now_ms, state.anchor_ms + 1)
