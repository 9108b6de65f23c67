"""Explain an acquire without performing it: read every record that decides it, and write nothing.

An entity and those above it take two reads: the first has the entity's records, the second those of all who were above
it when it got its parents, and the other shards of its own bucket. One more reads the other shards of those above. The
cached limits of this process are left aside: the explanation is by what the store has now.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from ...operations.values import NOTHING, Item, Key
from ...rules.schedules import wait_through
from ...rules.sharding import calculate_balance
from ...schema.attributes import ACQUIRES, REFUSED, SHADOWED, parse_refused_by
from ...schema.configs import override_end
from ...schema.entities import ParentLink, read_parent_link
from ...schema.items import BucketId, BucketState, read_bucket
from ...values.explanation import BucketExplanation, Explanation, LimitExplanation, LimitsFrom
from ...values.limits import MILLI, Limit
from ...values.resolution import Config, Resolved
from ...values.schedules import timetable_of
from ...values.switches import ResolvedSwitches
from ...values.usage import Refuser
from ..bucket.shifting import all_shifted
from ..process.config_cache import ConfigItems, cascades, config_keys
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import read_all
from ..steps import Flow
from .claims import config_of, no_limits, no_such_limit
from .inspection import parts_of
from .path import Path, parents_to_ask
from .requests import AcquireRequest, fit_estimates

Found = Mapping[Key, Item]


def explain(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Explanation]:
    """Return what the acquire would find. A request without amounts stands for one token of each limit.

    Raises the ``ValidationError`` of the acquire for an amount without a limit, and if there are no limits at all.
    """
    found: dict[Key, Item] = {}
    known: set[Key] = set()
    while wanted := [key for key in _keys(namespace_state, request, found) if key not in known]:
        found |= yield from read_all(wanted)
        known.update(wanted)
    now, link = namespace_state.now(), _link(namespace_state, request, request.entity_id, found)
    path = _path(namespace_state, request, found)
    buckets = [BucketId(namespace_state.namespace_id, each, request.resource) for each in path.order]
    drawn = [_drawn(request, bucket, found, _held(namespace_state, bucket, now), now) for bucket in buckets]
    _check(request, drawn)
    if request.learns:
        fit_estimates(request, [limit for each in drawn for limit in each.config.enforced.values()])
        drawn = [each._replace(amounts={name: request.amounts[name] for name in each.amounts}) for each in drawn]
    return Explanation(
        request.entity_id,
        request.resource,
        _instant(now),
        link.parent_ids[0] if link.parent_ids else None,
        len(path.order) > 1,
        _explained(drawn, path, now, by_holds=_are_held(request, drawn)),
        link.parent_ids,
    )


class _Drawn(NamedTuple):
    """A bucket that the acquire draws on: its shards, and the limits that it would be held to.

    ``amounts`` are asked of it, ``held`` is what this process holds of it: in millitokens by limit.
    """

    bucket: BucketId
    states: Sequence[BucketState]
    config: Config
    source: LimitsFrom
    override_until: datetime | None
    amounts: Mapping[str, int]
    held: Mapping[str, int]
    switches: ResolvedSwitches | None


def _keys(namespace_state: NamespaceState, request: AcquireRequest, found: Found) -> Iterator[Key]:
    """Yield the key of each record that decides the acquire, as far as what was ``found`` names it."""
    path = _path(namespace_state, request, found)
    links = [_link(namespace_state, request, each, found) for each in path.order if len(path.order) > 1]
    likely = [each for link in links for each in link.further_ids]
    for entity_id in dict.fromkeys([*path.order, *likely]):
        bucket = BucketId(namespace_state.namespace_id, entity_id, request.resource)
        yield from config_keys(bucket.namespace_id, entity_id, bucket.resource)
        yield from _shard_keys(bucket, found)


def _path(namespace_state: NamespaceState, request: AcquireRequest, found: Found) -> Path:
    """Return the path of the acquire, as far as what was ``found`` names it."""
    path = Path(request.entity_id)
    for entity_id in path.order:
        path.rise(entity_id, parents_to_ask(request, entity_id, _link(namespace_state, request, entity_id, found)))
    return path


def _link(namespace_state: NamespaceState, request: AcquireRequest, entity_id: str, found: Found) -> ParentLink:
    """Return the parents of an entity, and whether its acquires draw on them by its switches or by its record."""
    keys = config_keys(namespace_state.namespace_id, entity_id, request.resource)
    items = ConfigItems(*map(found.get, keys))
    link, switches = read_parent_link(items.meta), items.switches(namespace_state.now())
    return link._replace(cascade=cascades(link, switches), switches=switches)


def _shard_keys(bucket: BucketId, found: Found) -> list[Key]:
    home = found.get(bucket_key(bucket))
    shards = 1 if home is None else read_bucket(home).shard_count
    return [bucket_key(bucket.other(shard)) for shard in range(shards)]


def _drawn(request: AcquireRequest, bucket: BucketId, found: Found, held: Mapping[str, int], now_ms: int) -> _Drawn:
    items = ConfigItems(
        *(found.get(key) for key in config_keys(bucket.namespace_id, bucket.entity_id, bucket.resource))
    )
    stored = items.config([now_ms] * len(items), now_ms)
    resolved = items.resolved(stored, now_ms, seen_ms=now_ms, cached_until_ms=now_ms, generation=0)
    states = [read_bucket(found[key]).repaired(now_ms) for key in _shard_keys(bucket, found) if key in found]
    source = _source(request, resolved)
    if source == "bucket":
        request = replace(request, default_limits=_limits_of(states))
    config = config_of(request, resolved, lambda: now_ms)
    amounts = request.amounts or dict.fromkeys(config.by_name, MILLI)
    asked = {name: amount for name, amount in amounts.items() if name in config.by_name}
    states = all_shifted(states, config, now_ms)
    until = _override_until(items, source, now_ms)
    return _Drawn(bucket, states, config, source, until, asked, held, resolved.switches)


def _source(request: AcquireRequest, resolved: Resolved) -> LimitsFrom:
    if request.limits:
        return "call"
    return resolved.source or ("default_limits" if request.default_limits else "bucket")


def _override_until(items: ConfigItems, source: LimitsFrom, now_ms: int) -> datetime | None:
    """Return the end of the override in force on the level that won, if there is one."""
    won = {"entity": items.entity, "entity_default": items.entity_default}.get(source)
    until_ms = override_end(won)
    return None if until_ms is None or until_ms <= now_ms else _instant(until_ms)


def _limits_of(states: Sequence[BucketState]) -> tuple[Limit, ...]:
    rules = {name: shard_limit.limit for state in states for name, shard_limit in state.shard_limits.items()}
    return tuple(rules[name] for name in sorted(rules))


def _check(request: AcquireRequest, drawn: Sequence[_Drawn]) -> None:
    for each in drawn:
        if not each.config.limits:
            raise no_limits(each.bucket)
    known = {name for each in drawn for name in each.config.by_name}
    for name in request.amounts.keys() - known:
        raise no_such_limit(request, name, known)


def _held(namespace_state: NamespaceState, bucket: BucketId, now_ms: int) -> Mapping[str, int]:
    cached = namespace_state.cached_buckets.get((bucket.entity_id, bucket.resource, 0))
    hold = None if cached is None else cached.queue.hold
    return NOTHING if hold is None else hold.left(now_ms)


def _are_held(request: AcquireRequest, drawn: Sequence[_Drawn]) -> bool:
    """Return whether this process holds all that is asked for, so that the acquire passes without a request."""
    if request.limits or request.shadow:
        return False
    return all(amount <= each.held.get(name, -1) for each in drawn for name, amount in each.amounts.items())


def _explained(drawn: Sequence[_Drawn], path: Path, now_ms: int, *, by_holds: bool) -> tuple[BucketExplanation, ...]:
    return tuple(
        BucketExplanation(
            entity_id=each.bucket.entity_id,
            resource=each.bucket.resource,
            source=each.source,
            override_until=each.override_until,
            shard_count=each.states[0].shard_count if each.states else 0,
            limits=tuple(_limit(each, limit, now_ms, by_holds=by_holds) for limit in each.config.marked),
            admitted=_total(each.states, ACQUIRES),
            refused=_total(each.states, REFUSED),
            shadowed=_total(each.states, SHADOWED),
            refused_by=_refused_by(each.states),
            path=path.to[each.bucket.entity_id],
            switches=each.switches,
        )
        for each in drawn
    )


def _limit(drawn: _Drawn, limit: Limit, now_ms: int, *, by_holds: bool) -> LimitExplanation:
    parts = parts_of(drawn.states, drawn.config.by_name[limit.name], now_ms)
    declared = drawn.config.scheduled.get(limit.name)
    amount, held = drawn.amounts.get(limit.name), drawn.held.get(limit.name, 0)
    return LimitExplanation(
        limit,
        requested=None if amount is None else amount // MILLI,
        available=calculate_balance(parts, now_ms) // MILLI,
        held_ahead=held // MILLI,
        wait_seconds=0.0 if amount is None or by_holds else wait_through(declared, parts, amount, now_ms),
        schedule="" if declared is None else timetable_of(declared).at(now_ms).text,
        in_force=None if declared is None else drawn.config.by_name[limit.name],
    )


def _total(states: Sequence[BucketState], counter: str) -> int:
    return sum(state.item.get(counter, 0) for state in states)


def _refused_by(states: Sequence[BucketState]) -> dict[Refuser, int]:
    refusers = ((name, parse_refused_by(name)) for state in states for name in state.item)
    named = {name: refuser for name, refuser in refusers if refuser is not None}
    return {refuser: _total(states, name) for name, refuser in sorted(named.items())}


def _instant(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
