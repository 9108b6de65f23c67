"""Versions of the limits of a bucket: whose limits hold where processes know different ones.

Limits are ordered by birth: the newest shape the bucket, and a process with older ones goes by the shape that it finds.
A bucket has the birth of its shape (``cv``).

Stored limits are born with the read that found them, and again with each later one: the store has one truth, so of two
reads the later one is right. Limits that a call passes, and default limits, have no such place. In a rolling deploy two
processes pass different ones, and the process that began to pass its own last is taken for the newer one. So they are
born with the first call that passes them in this process, for whatever bucket; on a bucket that had others from this
process, with the call that changed them. No bucket is reshaped back and forth, because a process that finds a later
birth follows. Default limits hold as long as no level has any, so a bucket with a later ``cv`` is a reason to ask the
store, and none to shape it.

A birth alone may be wrong: a process of before may start once more in the middle of a deploy, and clocks differ. Then
those with the right limits would follow for ever. So limits that have followed for ``FOLLOWS_MS`` are born again: as
long as two processes differ, a bucket gets other limits twice in that time at most. And a change of stored limits gives
the bucket a later instant, which is not a birth of a shape: the next writer gives it one.

docs/decisions/order-of-limits-by-birth.md.
"""

from collections.abc import Sequence
from typing import Final

from ...schema.attributes import CONFIG_AS_OF
from ...schema.items import BucketState
from ...values.resolution import Config
from ..process.namespace_state import CachedShard, NamespaceState

FOLLOWS_MS: Final = 60_000
CLOCKS_MS: Final = 5_000  # by so much, clocks of processes may differ


def with_birth(namespace_state: NamespaceState, home: CachedShard, shard: CachedShard, config: Config) -> Config:
    """Return the limits of a call or of a limiter with their birth, for a bucket of which the call asks one shard. The
    bucket (``home``) remembers them.
    """
    before, state, born_ms = home.passed, shard.state, None
    newest_ms = 0 if state is None else state.item[CONFIG_AS_OF]
    if before is not None and (before.declared or before.limits) == (config.declared or config.limits):
        born_ms = before.born_ms
    elif before is None:
        born_ms = namespace_state.births.get(config.declared or config.limits)
    if born_ms is None:  # just now, so behind whatever this process has seen, by whichever clock
        now = namespace_state.births.put(config.declared or config.limits, namespace_state.now())
        born_ms = max(now, newest_ms + 1)
    config = config.born_at(born_ms, before)
    if state is not None and config.born_ms <= newest_ms and not shard.agrees_with(config):
        age_ms = namespace_state.now() - newest_ms  # far below 0, if a wrong clock has shaped the bucket
        if state.compare(config) == "older" and (state.is_told or not -CLOCKS_MS < age_ms < FOLLOWS_MS):
            config = config.born_after(newest_ms + max(age_ms - 1, 0))
    home.passed = config
    return config


def shape_of(config: Config, state: BucketState, now_ms: int) -> Config | None:
    """Return what of the limits shapes the bucket, with the birth of the shape; ``None`` if nothing does.

    All of them do if they are newer, or if the bucket has their values of another time. Of older ones those that the
    bucket lacks do, which undoes nothing. Else those do that have their schedule in common with the bucket, also if a
    lease has kept them for long: by the values of another time, what was minted since would be counted wrong.
    """
    order = state.compare(config)
    if order in ("newer", "another time"):
        return config
    if order == "older" and (missing := config.by_name.keys() - state.shard_limits.keys()):
        return config.only(missing).born_after(max(state.item[CONFIG_AS_OF], now_ms - 1))
    common = [name for name in config.scheduled if state.schedule_id(name) == config.schedule_id(name)]
    if order == "same" or not common:
        return None
    part = config.only(common)
    return part if state.is_of(part) and not state.has_values_of(part) else None


def where_it_holds(config: Config, states: Sequence[BucketState]) -> Config:
    """Return the limits by which an acquire decides: where a bucket has newer ones, those."""
    newest = max(states, key=lambda state: int(state.item[CONFIG_AS_OF]), default=None)
    if newest is None or newest.compare(config) != "older":
        return config
    return config.with_rules(newest.limits)
