"""Reading what an acquire has to know: configs, the entity's record, and the bucket, in one request.

Lives here: what is read, and when a read is repeated. Never: what the levels mean (resolution), how long they hold.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from ...operations.errors import StoreError
from ...resolution import Resolved
from ...schema.items import BucketId
from ..process.bucket_queue import Entry, Lane, Outcome, Ticket
from ..process.config_cache import ConfigKeys
from ..process.namespace_state import Scope, Shadow
from ..process.queueing import queue
from ..retry import read_all
from ..steps import Flow, Queued, Wake
from .group_commit import commit
from .limit_removal import leaving, tidy
from .splitting import relieve

READS: Final = 3


def shadow_of(scope: Scope, entity_id: str, resource: str, *, shard: int = 0) -> Shadow:
    """The shadow copy of a bucket, with its lanes; made where this process has none."""
    shadow = scope.shadows.get((entity_id, resource, shard))
    if shadow is None:
        shadow = Shadow(BucketId(scope.namespace_id, entity_id, resource, shard))
        shadow.lane = Lane(partial(serve, scope, shadow))
        shadow.loading = Lane(partial(load, scope, shadow))
        shadow = scope.shadows.setdefault((entity_id, resource, shard), shadow)
    return shadow


def serve(scope: Scope, shadow: Shadow, entries: Sequence[Entry]) -> Flow[None]:
    """Settle every entry; what goes back to shards that were split off is queued there, each higher than the last.

    A limit that no config names leaves, and a shard that is written too often is split, unless the time that this was
    counted in is doubted; those who were served do not wait for it.
    """
    yield from commit(scope, shadow, entries)
    entity_id, resource = shadow.id.entity_id, shadow.id.resource
    parts = [part for entry in entries for part in entry.elsewhere]
    lanes = [shadow_of(scope, entity_id, resource, shard=part.shard).lane for part in parts]
    yield from queue([part.enter(lane) for part, lane in zip(parts, lanes, strict=True)])
    config = entries[0].config
    names = leaving(scope, shadow, config)
    if names and config is not None and entries[0].admitted:
        yield Wake(entries)
        yield from tidy(scope, shadow, config, names)
    if shadow.pace.per_second and shadow.pace.exceeds(scope.settings.split_above, scope.now()) and not scope.doubted():
        yield Wake(entries)
        yield from relieve(scope, shadow)


def resolve(scope: Scope, shadow: Shadow, *, bucket_too: bool) -> Flow[Resolved]:
    """What holds for the entity on the resource: as remembered, else read, together with whoever asks for the same.

    With ``bucket_too`` the bucket is read along, where this process knows nothing of it.
    """
    fresh = scope.fresh(shadow)
    if fresh is not None and (shadow.known or not bucket_too):
        return fresh
    ticket = Ticket(shadow.loading)
    yield Queued(ticket)
    if ticket.outcome is not None and ticket.outcome.error is not None:
        raise ticket.outcome.error
    assert shadow.resolved is not None, "a load that succeeded resolves"
    return shadow.resolved


def load(scope: Scope, shadow: Shadow, tickets: Sequence[Ticket]) -> Flow[None]:
    """Read what is not known or has expired, once for all who ask."""
    error = None
    try:
        yield from _load(scope, shadow)
    except StoreError as failure:
        error = failure
    for ticket in tickets:
        ticket.outcome = Outcome("failed" if error else "admitted", shadow.view, scope.now(), error)


def _load(scope: Scope, shadow: Shadow) -> Flow[None]:
    """Resolve the limits; again where this process has changed one of their configs meanwhile, a few times.

    However often it does: what was read last holds for those who asked before, and is read again for whoever asks now.
    """
    resolved, reads, of = None, 0, shadow.id
    while resolved is None or (reads < READS and not scope.configs.is_current(resolved, of.entity_id, of.resource)):
        resolved = yield from _read(scope, shadow)
        reads += 1
    shadow.resolved = resolved
    parent = {} if resolved.parent_id is None else {"parent_id": resolved.parent_id}
    shadow.family = {"cascade": resolved.cascade, **parent}


def _read(scope: Scope, shadow: Shadow) -> Flow[Resolved | None]:
    """The limits by one read of what is not known or has expired; ``None`` where all has to be read at once."""
    entity_id, resource, begun, configs = shadow.id.entity_id, shadow.id.resource, scope.now(), scope.configs
    cv = shadow.view.item["cv"] if shadow.view is not None else 0
    generation, wanted = configs.generation, configs.stale_keys(entity_id, resource, begun)
    found = yield from read_all([*wanted] if shadow.known else [*wanted, shadow.key])
    read = configs.learn(wanted, found, begun, generation)
    if not shadow.known:
        shadow.learn(found.get(shadow.key), begun, own_writes=0)
    all_read = len(wanted) == len(ConfigKeys._fields)
    later_than_ms = cv if all_read else 0
    resolved = configs.resolve(entity_id, resource, read, generation=generation, later_than_ms=later_than_ms)
    if resolved is None or (not all_read and _behind(shadow, resolved)):
        configs.expire(entity_id, resource)
        return None
    return resolved


def _behind(shadow: Shadow, resolved: Resolved) -> bool:
    """Whether the bucket has another shape than these limits, and was given it since a part of them was read."""
    view, config = shadow.view, resolved.config
    return view is not None and not shadow.agrees_with(config) and config.read_at_ms <= view.item["cv"]
