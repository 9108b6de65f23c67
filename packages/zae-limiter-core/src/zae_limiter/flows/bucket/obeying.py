"""Bring a bucket the limits that hold now without any request, for changes by hand, which decide by them.

An acquire does so on its way. A change by hand asks for nothing, so its bucket may have the limits of before: a reset
would fill it up to a ceiling that no longer is, and what a credit gives beyond it would be gone.
"""

from collections.abc import Sequence

from ...operations.errors import ConditionFailed
from ...schema.attributes import CONFIG_AS_OF
from ...schema.items import BucketState
from ...values.resolution import Config
from ..process.namespace_state import CachedShard, NamespaceState
from ..retry import with_retries
from ..steps import Flow
from .batch import Batch
from .limit_removal import excess
from .reading import may_differ
from .versions import shape_of
from .write_plans import reshape


def obey(namespace_state: NamespaceState, states: Sequence[BucketState]) -> Flow[bool]:
    """Give each shard the limits that hold; return whether one had others, so that all are to be read again.

    A bucket without room for them is left as it is, because a reset is the way out of that.
    """
    config = (yield from _holds(namespace_state, states)) if states and may_differ(states) else None
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


def _holds(namespace_state: NamespaceState, states: Sequence[BucketState]) -> Flow[Config | None]:
    """Return the limits of a bucket: those known, or read anew if it was invalidated since."""
    configs, begun, generation = namespace_state.configs, namespace_state.now(), namespace_state.configs.generation
    place = states[0].id.entity_id, states[0].id.resource
    told_ms = max((int(each.item[CONFIG_AS_OF]) for each in states if each.is_told), default=0)
    read = yield from configs.read({place: told_ms}, begun)
    found = configs.resolve(place, read, now_ms=namespace_state.now(), generation=generation, later_than_ms=told_ms)
    return None if found is None else found.config
