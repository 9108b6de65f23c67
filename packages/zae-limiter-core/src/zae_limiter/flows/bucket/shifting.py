"""A bucket whose limits have other values by now, by their schedule, as its next write would reshape it."""

from collections.abc import Iterable
from typing import Final

from ... import rules, values
from ...rules.balances import Begin, Move, ShardLimit, is_quota
from ...schema.items import BucketState
from ...values.resolution import Config
from .. import bucket
from ..bucket_queue import BucketRequest
from .writing import Change, written

MINUTE_MS: Final = 60_000  # a schedule changes values at full minutes alone


def in_force(config: Config | None, state: BucketState | None, now_ms: int) -> Config | None:
    """Return the config with the values of now, or of the anchor if another process has begun a later piece: its clock
    is before this one.
    """
    if config is None or config.since_ms < 0:
        return config
    return config.at(now_ms if state is None else max(now_ms, state.anchor_ms))


def begins_for(config: Config | None, state: BucketState | None, request: BucketRequest) -> bool:
    """Return whether a bucket that is not there begins although it refuses: a schedule lets so much pass later, and
    from the begin on tokens are carried over to then.
    """
    if state is not None or config is None or config.since_ms < 0:
        return False
    variants = {name: values.timetables.timetable_of(limit).variants for name, limit in config.scheduled.items()}
    of = {name: variants.get(name, (config.by_name[name],)) for name in request.checked}
    later = all(config.most_milli(name) >= amount for name, amount in request.checked.items())
    return later and any(each._ceiling_milli > each._initial_milli for every in of.values() for each in every)


def ignores_schedule(config: Config, state: BucketState, requests: Iterable[BucketRequest], now_ms: int) -> bool:
    """Return whether a write for the requests may count time by a rule that a schedule has ended since the anchor: the
    bucket has one of their limits by a schedule that the config does not know.
    """
    if now_ms // MINUTE_MS <= state.anchor_ms // MINUTE_MS:
        return False
    names = {name for request in requests for name in (*request.amounts, *request.unchecked)}
    return any((known := state.schedule_id(name)) and known != config.schedule_id(name) for name in names)


def all_shifted(states: Iterable[BucketState], config: Config, now_ms: int) -> list[BucketState]:
    """Return the states under the values that hold at ``now_ms``."""
    return [shifted(state, config, now_ms) for state in states] if config.since_ms >= 0 else list(states)


def shifted(state: BucketState, config: Config, now_ms: int) -> BucketState:
    """Return the state under the values that hold at ``now_ms``; as it is if it has them, or another config."""
    config = config.at(max(now_ms, state.anchor_ms))
    scheduled = config.scheduled
    if not scheduled or state.has_values_of(config) or not state.is_of(config):
        return state
    anchor_ms, moves, ruled = max(now_ms, state.anchor_ms + 1), dict[str, Move | Begin](), dict[str, ShardLimit]()
    for name, declared in scheduled.items():
        shard_limit, limit, tokens = state.shard_limits[name], config.by_name[name], state.tokens_milli(name)
        if is_quota(limit):
            moves[name], ruled[name], *_ = bucket.use_kept.changed(
                shard_limit, tokens, limit, declared, anchor_ms, now_ms
            )
        else:
            moves[name] = rules.schedules.carry_through(shard_limit, tokens, declared, limit, anchor_ms, now_ms)
    change = Change(anchor_ms, moves, rules=config.by_name)
    if ruled:
        kept = bucket.use_kept.kept(state, ruled, moves, now_ms)
        change = change._replace(values=kept.values, remove=kept.remove)
    return written(state, change, now_ms)
