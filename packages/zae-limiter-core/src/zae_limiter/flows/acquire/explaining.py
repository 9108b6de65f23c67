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
from ...schema.attributes import ACQUIRES, REFUSED, SHADOWED, parse_refused_by, read_ask
from ...schema.entities import ParentLink, read_parent_link, read_plan
from ...schema.items import BucketId, BucketState, read_bucket
from ...values.explanation import BucketExplanation, Explanation, LimitExplanation, LimitsFrom
from ...values.limits import MILLI, Limit
from ...values.resolution import Config, Resolved
from ...values.switches import ResolvedSwitches
from ...values.timetables import timetable_of
from ...values.usage import Refuser
from ..process.config_cache import ConfigKeys, ConfigRecords, Record, config_keys
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import read_all
from ..steps import Flow
from .claims import config_of, names_of_levels
from .draws import check_limits_of, each_once
from .inspection import Asked, are_held, asked_of
from .path import Path, parents_to_ask
from .requests import AcquireRequest, fit_estimates

Found = Mapping[Key, Item]


def explain(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Explanation]:
    """Return what the acquire would find. A request without amounts stands for one token of each limit.

    Raises the ``ValidationError`` of the acquire for an amount without a limit, and if there are no limits at all.
    """
    found: dict[Key, Item] = {}
    known: set[Key] = set()
    while wanted := [key for key in dict.fromkeys(_keys(namespace_state, request, found)) if key not in known]:
        found |= yield from read_all(wanted)
        known.update(wanted)
    now, link = namespace_state.now(), _link(namespace_state, request, request.entity_id, found)
    own, *_ = branches = [_branch(namespace_state, each, found, now) for each in (request, *request.also)]
    drawn = each_once([each for branch in branches for each in branch])
    return Explanation(
        request.entity_id,
        request.resource,
        _instant(now),
        link.parent_ids[0] if link.parent_ids else None,
        len(own) > 1,
        _explained(drawn, by_holds=are_held(request, [each.asked for each in drawn])),
        link.parent_ids,
    )


class _Drawn(NamedTuple):
    """A bucket that the acquire draws on, by the ``path`` to its entity, and where its limits come from."""

    bucket: BucketId
    asked: Asked
    source: LimitsFrom
    override_until: datetime | None
    path: tuple[str, ...]
    place: int
    switches: ResolvedSwitches | None
    plan: str | None
    unlimited_names: frozenset[str]

    @property
    def config(self) -> Config:
        """The limits that the acquire would be held to."""
        return self.asked.view.config

    @property
    def amounts(self) -> Mapping[str, int]:
        """What the acquire asks for, in millitokens by limit."""
        return self.asked.amounts


def _branch(namespace_state: NamespaceState, request: AcquireRequest, found: Found, now_ms: int) -> list[_Drawn]:
    """Return the buckets on the path of a call or of one of its draws. Raises ``ValidationError``."""
    path, drawn = _path(namespace_state, request, found), list[_Drawn]()
    for place, entity_id in enumerate(path.order):
        bucket = BucketId(namespace_state.namespace_id, entity_id, request.resource)
        asked, source, until, resolved = _stored(namespace_state, request, bucket, found, now_ms)
        of_levels, known = (resolved.switches, resolved.plan), names_of_levels(resolved, request.default_limits)
        drawn.append(_Drawn(bucket, asked, source, until, path.to[entity_id], place, *of_levels, known))
    limited = {name for each in drawn for name in each.config.by_name}
    drawn = [each._replace(unlimited_names=each.unlimited_names - limited) for each in drawn]
    check_limits_of(request, drawn)
    if request.learns:
        fit_estimates(request, [limit for each in drawn for limit in each.config.enforced.values()])
        fitted = [{name: request.amounts[name] for name in each.amounts} for each in drawn]
        drawn = [
            each._replace(asked=each.asked._replace(amounts=amounts))
            for each, amounts in zip(drawn, fitted, strict=True)
        ]
    return drawn


def _keys(namespace_state: NamespaceState, request: AcquireRequest, found: Found) -> Iterator[Key]:
    """Yield the key of each record that decides the acquire, as far as what was ``found`` names it."""
    for each in (request, *request.also):
        path = _path(namespace_state, each, found)
        links = [_link(namespace_state, each, entity, found) for entity in path.order if len(path.order) > 1]
        likely = [further for link in links for further in link.further_ids]
        for entity_id in dict.fromkeys([*path.order, *likely]):
            bucket = BucketId(namespace_state.namespace_id, entity_id, each.resource)
            yield from _config_keys(bucket, found).to_read
            yield from _shard_keys(bucket, found)


def _path(namespace_state: NamespaceState, request: AcquireRequest, found: Found) -> Path:
    """Return the path of the acquire, as far as what was ``found`` names it."""
    path = Path(request.entity_id)
    for entity_id in path.order:
        path.rise(entity_id, parents_to_ask(request, entity_id, _link(namespace_state, request, entity_id, found)))
    return path


def _link(namespace_state: NamespaceState, request: AcquireRequest, entity_id: str, found: Found) -> ParentLink:
    """Return the parents of an entity, and whether its acquires draw on them by its switches or by its record."""
    bucket, now_ms = BucketId(namespace_state.namespace_id, entity_id, request.resource), namespace_state.now()
    records = _records(bucket, found, now_ms)
    resolved = records.resolve(now_ms)
    return read_parent_link(records.meta.item)._replace(cascade=resolved.cascade, switches=resolved.switches)


def _config_keys(bucket: BucketId, found: Found) -> ConfigKeys:
    """Return the keys of the levels, without those of a plan that is not known."""
    of = bucket.namespace_id, bucket.entity_id, bucket.resource
    return config_keys(*of, lambda meta: read_plan(found.get(meta)))


def _records(bucket: BucketId, found: Found, now_ms: int) -> ConfigRecords:
    keys = _config_keys(bucket, found)
    return ConfigRecords(*(Record(None if key is None else found.get(key), now_ms) for key in keys))


def _shard_keys(bucket: BucketId, found: Found) -> list[Key]:
    home = found.get(bucket_key(bucket))
    shards = 1 if home is None else read_bucket(home).shard_count
    return [bucket_key(bucket.other(shard)) for shard in range(shards)]


def _stored(
    namespace_state: NamespaceState, request: AcquireRequest, bucket: BucketId, found: Found, now_ms: int
) -> tuple[Asked, LimitsFrom, datetime | None, Resolved]:
    records = _records(bucket, found, now_ms)
    resolved = records.resolve(now_ms)
    states = [read_bucket(found[key]).repaired(now_ms) for key in _shard_keys(bucket, found) if key in found]
    source = _source(request, resolved)
    if source == "bucket":
        request = replace(request, default_limits=_limits_of(states))
    config = config_of(request, resolved, lambda: now_ms)
    asked = asked_of(namespace_state, request, bucket, states, config, now_ms)
    until_ms = next((level.ends_ms for level in records.levels(now_ms) if level.source == source), None)
    return asked, source, None if until_ms is None else _instant(until_ms), resolved


def _source(request: AcquireRequest, resolved: Resolved) -> LimitsFrom:
    if request.limits:
        return "call"
    return resolved.source or ("default_limits" if request.default_limits else "bucket")


def _limits_of(states: Sequence[BucketState]) -> tuple[Limit, ...]:
    rules = {name: shard_limit.limit for state in states for name, shard_limit in state.shard_limits.items()}
    return tuple(rules[name] for name in sorted(rules))


def _explained(drawn: Sequence[_Drawn], *, by_holds: bool) -> tuple[BucketExplanation, ...]:
    return tuple(
        BucketExplanation(
            entity_id=each.bucket.entity_id,
            resource=each.bucket.resource,
            source=each.source,
            override_until=each.override_until,
            shard_count=each.asked.view.states[0].shard_count if each.asked.view.states else 0,
            limits=tuple(_limit(each.asked, limit, by_holds=by_holds) for limit in each.config.marked),
            admitted=_total(each.asked.view.states, ACQUIRES),
            refused=_total(each.asked.view.states, REFUSED),
            shadowed=_total(each.asked.view.states, SHADOWED),
            refused_by=_refused_by(each.asked.view.states),
            refused_ask=next((read_ask(state.item) for state in each.asked.view.states), {}),
            path=each.path,
            switches=each.switches,
            plan=each.plan,
            unlimited=tuple(sorted(each.unlimited_names)),
        )
        for each in drawn
    )


def _limit(asked: Asked, limit: Limit, *, by_holds: bool) -> LimitExplanation:
    view, amount = asked.view, asked.amounts.get(limit.name)
    declared = view.config.scheduled.get(limit.name)
    return LimitExplanation(
        limit,
        requested=None if amount is None else amount // MILLI,
        available=view._replace(mine=NOTHING).available(limit.name) // MILLI,
        held_ahead=view.mine.get(limit.name, 0) // MILLI,
        wait_seconds=asked.wait(limit.name, by_holds=by_holds),
        schedule="" if declared is None else timetable_of(declared).at(view.at_ms).text,
        in_force=None if declared is None else view.config.by_name[limit.name],
    )


def _total(states: Sequence[BucketState], counter: str) -> int:
    return sum(state.item.get(counter, 0) for state in states)


def _refused_by(states: Sequence[BucketState]) -> dict[Refuser, int]:
    refusers = ((name, parse_refused_by(name)) for state in states for name in state.item)
    named = {name: refuser for name, refuser in refusers if refuser is not None}
    return {refuser: _total(states, name) for name, refuser in sorted(named.items())}


def _instant(epoch_ms: int) -> datetime:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC)
