"""Postpone a ``ttl`` that comes before the bucket is full, because other processes have consumed meanwhile."""

from ...operations.errors import StoreError
from ...schema.attributes import ANCHOR, TTL
from ...values.resolution import Config
from ..process.namespace_state import CachedBucket, NamespaceState
from ..steps import Flow, call
from .batch import Batch, UpdateDraft
from .write_plans import ConsumeWrite, expires_at


def prolong(namespace_state: NamespaceState, cached: CachedBucket, config: Config | None, now_ms: int) -> Flow[None]:
    """Write a ``ttl`` that fits the last seen state, if the stored one is too early.

    After a failure the next write sets it.
    """
    state = cached.state
    if state is None or config is None or TTL not in state.item:
        return
    full_at_ms = state.full_at_ms
    if state.item[TTL] * 1000 >= full_at_ms:
        return
    plan = ConsumeWrite(cached, state, now_ms, namespace_state.settings.ttl_multiplier, config, frozenset())
    ttl = expires_at(plan, config, full_at_ms - now_ms)
    if ttl is None:
        return
    draft = UpdateDraft()
    draft.expire(ttl, state.item)
    draft.equals[ANCHOR] = state.anchor_ms
    draft.count_write(Batch())
    try:
        item = yield from call(draft.update(cached.key))
    except StoreError:
        return
    cached.learn(item, now_ms, own_writes=1)
