"""Limits that no config names any more: they leave the bucket, where they are full.

Lives here: which may leave and when, and that write. Never: a write that serves a request (write_plans).

A limit that comes back starts full. So one may leave only where it is full: whatever it owes, it keeps until that is
paid.
"""

from collections.abc import Collection, Sequence
from typing import Final

from ...exceptions import ValidationError
from ...limits import MAX_LIMITS
from ...operations.errors import ConditionFailed, StoreError
from ...operations.values import Conditions, Get, Update
from ...resolution import Config
from ...schema.attributes import ANCHOR, CONFIG_READ_AT, bucket_attributes
from ...schema.items import ONE_WRITE, WRITES, BucketId, BucketState
from ...token_bucket import refill_bucket
from ..process.namespace_state import CachedBucket, NamespaceState, bucket_key
from ..steps import Flow, call

MAX_IN_BUCKET: Final = 2 * MAX_LIMITS  # those of one config, and as many that others have left behind


class TooManyLimits(StoreError):
    """A bucket has no place for the limits that are new to it; ``problem`` is what its caller is told."""

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
    """By how many limits the bucket would be too full if it had those of the config, too."""
    if len(state.shard_limits) + len(config.limits) <= MAX_IN_BUCKET:
        return 0
    return max(0, len(state.shard_limits.keys() | config.by_name.keys()) - MAX_IN_BUCKET)


def leaving(namespace_state: NamespaceState, cached: CachedBucket, config: Config | None) -> Sequence[str]:
    """What the config does not name and is full, where the config decides about that.

    It does where it is stored, and no older than the one behind the bucket's shape. Once in a cache life at most, so
    that a limit that a call site gives, and no level has, does not come and go with every write.
    """
    state = cached.state
    if state is None or config is None or not config.stored or len(state.rows) <= len(config.limits):
        return ()
    now, cv = namespace_state.now(), state.item[CONFIG_READ_AT]
    if config.read_at_ms < cv or now - cv < namespace_state.settings.config_ttl_ms or state.is_ahead(now):
        return ()
    return full(state, _anchor(state, now), config.by_name) if cached.agrees_with(config) else ()


def tidy(namespace_state: NamespaceState, cached: CachedBucket, config: Config, names: Sequence[str]) -> Flow[None]:
    """Take these out. Where that fails, the next write tries again."""
    assert cached.state is not None, "only a bucket that was seen has limits"
    cv = max(config.read_at_ms, cached.state.item[CONFIG_READ_AT])
    try:
        yield from drop(cached, names, namespace_state.now(), cv=cv)
    except StoreError:
        return


def make_room(cached: CachedBucket, config: Config, now_ms: int) -> Flow[bool]:
    """Take out limits that leave no place for the config's; whether it did.

    Raises ``TooManyLimits`` or ``StoreError``.
    """
    names = _in_the_way(cached.state, config, now_ms)
    if names is None:  # by an old copy nobody is refused
        cached.learn((yield from call(Get(cached.key))), now_ms, own_writes=0)
        names = _in_the_way(cached.state, config, now_ms)
    if names is None and cached.state is not None:
        new = config.by_name.keys() - cached.state.shard_limits.keys()
        raise TooManyLimits(cached.id, len(cached.state.shard_limits), len(new))
    if not names or cached.state is None:
        return False
    return (yield from drop(cached, names, now_ms, cv=cached.state.item[CONFIG_READ_AT]))


def _in_the_way(state: BucketState | None, config: Config, now_ms: int) -> Sequence[str] | None:
    """The limits that are to leave so that there is a place for the config's; ``None`` where there are not enough."""
    missing = 0 if state is None else excess(state, config)
    if state is None or not missing:
        return ()
    names = full(state, _anchor(state, now_ms), config.by_name)
    return names[:missing] if len(names) >= missing else None


def full(state: BucketState, at_ms: int, named: Collection[str]) -> list[str]:
    """The limits that are not named and are at their ceiling at an instant, by name."""
    others = sorted(state.shard_limits.keys() - named)
    return [name for name in others if _is_full(state, name, at_ms)]


def drop(cached: CachedBucket, names: Sequence[str], now_ms: int, *, cv: int) -> Flow[bool]:
    """The write; ``False`` where another one came first."""
    state = cached.state
    assert state is not None, "only a bucket that was seen has limits"
    try:
        item = yield from call(dropped(state, names, _anchor(state, now_ms), cv=cv))
    except ConditionFailed as failure:
        cached.learn(failure.item, now_ms, own_writes=0)
        return False
    cached.learn(item, now_ms, own_writes=1)
    return True


def dropped(state: BucketState, names: Collection[str], at_ms: int, *, cv: int) -> Update:
    """The bucket without these limits, if they are full at ``at_ms``; what the others have stays as it is.

    The anchor moves, so that every write that was decided by the limits before it fails, and is decided again. The
    balances of the others are expressed for it, by what is minted until then.
    """
    add, least = {WRITES: ONE_WRITE}, {}
    gone: list[str] = []
    for name, shard_limit in state.shard_limits.items():
        at, minted = bucket_attributes(name), shard_limit.minted_since_anchor(at_ms)
        if name in names:
            least[at.tokens] = shard_limit.ceiling_milli - minted
            gone += [attribute for attribute in at if attribute in state.item]
        elif minted:
            add[at.tokens] = minted
    when = Conditions(equals={ANCHOR: state.anchor_ms}, at_least=least)
    return Update(bucket_key(state.id), add, {ANCHOR: at_ms, CONFIG_READ_AT: cv}, tuple(gone), when)


def _is_full(state: BucketState, name: str, at_ms: int) -> bool:
    shard_limit = state.shard_limits[name]
    return refill_bucket(shard_limit, state.tokens_milli(name), at_ms) >= shard_limit.ceiling_milli


def _anchor(state: BucketState, now_ms: int) -> int:
    return max(now_ms, state.anchor_ms + 1)
