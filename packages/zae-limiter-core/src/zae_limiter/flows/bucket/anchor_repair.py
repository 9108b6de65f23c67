"""Repair an anchor that a wrong clock set ahead: move it back."""

import logging

from ...operations.errors import ConditionFailed
from ...operations.values import Item, Update
from ...schema.attributes import ANCHOR, bucket_attributes
from ...schema.items import BucketState, anchor_attributes
from ..process.namespace_state import bucket_key
from ..retry import with_retries
from ..steps import Flow, Log
from .batch import Batch, UpdateDraft


def repair(state: BucketState, now_ms: int) -> Flow[tuple[Item | None, int]]:
    """Repair the anchor; return the item and the number of own writes: 1, or 0 after a lost race, with the item as it
    is.
    """
    try:
        item = yield from with_retries(_anchored(state, now_ms))  # it is applied once: the anchor moves
    except ConditionFailed as failure:
        return failure.item, 0
    yield Log(
        __name__,
        logging.WARNING,
        "shard %d of bucket %s was anchored by a clock that was ahead: its anchor was brought back",
        values=(state.id.shard, f"{state.id.entity_id}/{state.id.resource}"),
    )
    return item, 1


def _anchored(state: BucketState, now_ms: int) -> Update:
    draft = UpdateDraft()
    draft.equals[ANCHOR] = state.anchor_ms
    for name in state.shard_limits.keys() - state.slots:
        tokens = bucket_attributes(name).tokens
        if state.tokens_milli(name) > 0:
            draft.take_at_ceiling(tokens, least=0, balance=0)
        else:
            draft.at_most[tokens] = 0
    draft.set |= anchor_attributes(state.limits, now_ms) | state.whole_at(now_ms)
    draft.remove = state.begun_attributes()
    draft.count_write(Batch())
    return draft.update(bucket_key(state.id))
