"""Bring a bucket the limits that hold now without any request, for changes by hand, which decide by them.

An acquire does so on its way. A change by hand asks for nothing, so its bucket may have the limits of before: a reset
would fill it up to a ceiling that no longer is, and what a credit gives beyond it would be gone.
"""

from collections.abc import Sequence

from ...operations.errors import ConditionFailed
from ...schema.items import BucketState
from ..process.namespace_state import CachedShard, NamespaceState
from ..retry import with_retries
from ..steps import Flow
from .batch import Batch
from .limit_removal import excess
from .reading import limits_now
from .versions import shape_of
from .write_plans import reshape


def obey(namespace_state: NamespaceState, states: Sequence[BucketState]) -> Flow[bool]:
    """Give each shard the limits that hold; return whether one had others, so that all are to be read again.

    A bucket without room for them is left as it is, because a reset is the way out of that.
    """
    if not states:
        return False
    config = (yield from limits_now(namespace_state, [states])).get(states[0].id)
    if config is None or not config.stored:
        return False
    now_ms, had_others = namespace_state.now(), False
    for state in states:
        shape = shape_of(config.at(max(now_ms, state.anchor_ms)), state, now_ms)
        if shape is None or excess(state, shape):
            continue
        plan = reshape(CachedShard(state.id), state, now_ms, namespace_state.settings.ttl_multiplier, shape)
        had_others = True
        try:
            item = yield from with_retries(plan.write(Batch()))  # it is applied once: the anchor moves
        except ConditionFailed:
            continue
        namespace_state.learn_beside(state.id, item, now_ms, own_writes=1)
    return had_others
