"""Splitting a shard in two, and making a shard that is missing.

Lives here: that transaction, and in which order shards split. Never: when one is written too often (pace), which shard
an acquire goes to (spread).
"""

import logging
from collections.abc import Collection
from typing import NamedTuple

from ...operations.errors import ConditionFailed, StoreError, Throttled, TransactionCancelled
from ...operations.values import Conditions, Item, Put, Transact, Update
from ...schema.items import ONE_WRITE, WRITES, BucketId, View, bucket_attributes, read_bucket, rule_attributes
from ...sharding import MAX_SHARDS, born_at, halve, parent_of
from ...token_bucket import share
from ..process.namespace_state import Scope, Shadow, bucket_key
from ..retry import ATTEMPTS, PAUSES, RaceLost, read_all
from ..steps import Flow, Sleep, Tell
from .anchor_repair import repair
from .batch import Draft


def split_shard(scope: Scope, bucket: BucketId, *, among: int | None = None) -> Flow[int]:
    """Split a shard once, shard 0 of the bucket before any other; how many shards were split.

    Nothing happens where it is missing, one of 64, not one of ``among`` any more, where that is given, or where shard 0
    cannot be split first. Raises ``StoreError``.
    """
    return (yield from _split_in_order(scope, Shadow(bucket), among))


def relieve(scope: Scope, shadow: Shadow) -> Flow[None]:
    """Split a shard that is written too often. Where that fails, it is tried again when it is seen again."""
    if shadow.view is None or shadow.view.shard_count >= MAX_SHARDS:
        return
    try:
        yield from _split_in_order(scope, shadow, shadow.view.shard_count)
    except StoreError as error:
        name = f"{shadow.id.entity_id}/{shadow.id.resource}"
        yield Tell(__name__, logging.WARNING, f"bucket {name} is written too often, but could not be split: {error}")


def appear(scope: Scope, shadow: Shadow) -> Flow[None]:
    """Find a shard, or make it where it is missing: by a split of its parent, or full where that has been split.

    Leaves the shadow without a view where the bucket has no such shard. Raises ``RaceLost`` where it could not be told.
    """
    written: Collection[int] = ()
    for _ in range(ATTEMPTS):
        views = yield from _look(scope, shadow, written)
        home, shard = views.get(0), shadow.id.shard
        if shard in views or home is None or home.shard_count <= shard:
            return
        missing = _first_missing(shard, views)
        parent = views[parent_of(missing)]
        if parent.shard_count <= born_at(missing):
            written = yield from _split(scope, parent)
        else:
            yield from _make(home, missing, scope.now())
            written = ()
    raise RaceLost


def _look(scope: Scope, shadow: Shadow, written: Collection[int] = ()) -> Flow[dict[int, View]]:
    """The shard, whose lane is asking, and those that it descends from, as the store has them.

    ``written`` are those that this process has just written once.
    """
    begun = scope.now()
    keys = {shard: bucket_key(shadow.id.other(shard)) for shard in _line(shadow.id.shard)}
    found = yield from read_all([*keys.values()])
    shadow.learn(found.get(shadow.key), begun, own_writes=shadow.id.shard in written)
    for shard, key in keys.items():
        scope.learn_beside(shadow.id.other(shard), found.get(key), begun, own_writes=shard in written)
    return {shard: read_bucket(found[key]) for shard, key in keys.items() if key in found}


def _line(shard: int) -> list[int]:
    """The shard, and those that it descends from."""
    line = [shard]
    while line[-1]:
        line.append(parent_of(line[-1]))
    return line


def _first_missing(shard: int, views: dict[int, View]) -> int:
    """The missing shard whose parent is there."""
    while parent_of(shard) not in views:
        shard = parent_of(shard)
    return shard


def _split_in_order(scope: Scope, shadow: Shadow, among: int | None = None) -> Flow[int]:
    """The bucket grows by its shard 0, which so knows the newest count; the others come after it."""
    views = yield from _look(scope, shadow)
    home, view = views.get(0), views.get(shadow.id.shard)
    if home is None or view is None or view.shard_count >= MAX_SHARDS or among not in {None, view.shard_count}:
        return 0
    written: set[int] = set()
    if view.id.shard and home.shard_count <= view.shard_count:
        written.update((yield from _split(scope, home)))
        if not written:
            return 0
    written.update((yield from _split(scope, view)))
    yield from _look(scope, shadow, written)
    return len(written)


def _split(scope: Scope, view: View) -> Flow[Collection[int]]:
    """Split a shard as it was seen, again as it is where others changed it, until it is or was split.

    Answers which shard this has split, if it did.
    """
    count, leftover, pauses = view.shard_count, None, iter(PAUSES)
    for _ in range(ATTEMPTS):
        try:
            if view.is_ahead(scope.now()):
                item, _ = yield from repair(view, scope.now())
                if item is None:
                    break
                view = read_bucket(item)
                continue
            yield _halving(view, scope.now(), leftover).transact
        except TransactionCancelled as cancelled:
            mine, other = (reason.item for reason in cancelled.reasons)
            if mine is None and other is None:  # gone, with its bucket
                break
            view, leftover = (view, other) if mine is None else (read_bucket(mine), None)
            if view.shard_count > count:
                break
        except Throttled:
            pause = next(pauses, None)
            if pause is None:
                raise
            yield Sleep(pause)
        else:
            shard = f"shard {view.id.shard} of bucket {view.id.entity_id}/{view.id.resource}"
            yield Tell(__name__, logging.INFO, f"{shard} was split: it is one of {2 * count} now")
            return (view.id.shard,)
    return ()


class _Halving(NamedTuple):
    update: Update
    put: Put

    @property
    def transact(self) -> Transact:
        return Transact((self.update, self.put))


def _halving(view: View, now_ms: int, leftover: Item | None) -> _Halving:
    """Shard ``k`` of ``n`` becomes ``k`` and ``k + n`` of ``2n``, under one new anchor.

    ``leftover``: what stands in the place of ``k + n``, although ``k`` is not split: it outlived a bucket that was
    deleted, and is replaced.
    """
    anchor_ms, other = max(now_ms, view.anchor_ms + 1), view.id.other(view.id.shard + view.shard_count)
    draft, item = Draft(), _empty(other, view, count=2 * view.shard_count, anchor_ms=anchor_ms)
    draft.equals["rf"] = view.anchor_ms
    draft.set.update(rf=anchor_ms, shard_count=2 * view.shard_count)
    draft.add[WRITES] = ONE_WRITE
    draft.remove = ("ttl",)  # also one that was set since
    for name in view.shapes:
        item[bucket_attributes(name).tk] = _divide(draft, view, name, anchor_ms)
    absent = Conditions(absent=("PK",)) if leftover is None else Conditions(equals={"rf": leftover["rf"]})
    return _Halving(draft.update(bucket_key(view.id)), Put(item, absent))


def _divide(draft: Draft, view: View, name: str, anchor_ms: int) -> int:
    """One limit of the shard, by the rows of "The write"; what the other half begins with."""
    shape, tokens, tk = view.shapes[name], view.tokens_milli(name), bucket_attributes(name).tk
    half, minted = halve(shape, tokens, anchor_ms), shape.minted_since_anchor(anchor_ms)
    full = shape.ceiling_milli - minted
    if half.full:
        kept = share(shape.limit.ceiling_milli, shape.shard, 2 * shape.shards)
        draft.take_at_ceiling(tk, least=full, balance=kept)
    elif half.available < 0:
        draft.equals[tk] = tokens
        draft.count(tk, minted - half.given)
    else:
        draft.take_below(tk, least=half.given - minted, most=full, change=minted - half.given)
    return half.given


def _empty(bucket: BucketId, view: View, *, count: int, anchor_ms: int) -> Item:
    """A shard with the rules of another one, but for its tokens."""
    family: Item = {name: view.item[name] for name in ("cascade", "parent_id") if name in view.item}
    item: Item = {
        **bucket.attributes(),
        **family,
        "shard_count": count,
        "rf": anchor_ms,
        "cv": view.item["cv"],
        "ev": 0,
    }
    item[WRITES] = ONE_WRITE
    for name, shape in view.shapes.items():
        item |= {bucket_attributes(name).tc: 0, **rule_attributes(shape.limit)}
    return item


def _make(home: View, shard: int, now_ms: int) -> Flow[None]:
    """Make a shard that was split off once, but is gone: full, as a bucket that is gone comes back."""
    item = _empty(home.id.other(shard), home, count=home.shard_count, anchor_ms=now_ms)
    for name, shape in home.shapes.items():
        item[bucket_attributes(name).tk] = share(shape.limit.ceiling_milli, shard, home.shard_count)
    try:
        yield Put(item, Conditions(absent=("PK",)))
    except ConditionFailed:
        return  # somebody else made it
