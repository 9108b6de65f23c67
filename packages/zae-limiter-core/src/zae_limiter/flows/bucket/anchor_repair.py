"""An anchor that a wrong clock has set far ahead of now.

Lives here: the write that brings it back. Never: how a clock is kept right (zae_limiter.clock.system).
"""

import logging

from ...operations.errors import ConditionFailed
from ...operations.values import Item, Update
from ...schema.items import View, bucket_attributes
from ..process.namespace_state import bucket_key
from ..steps import Flow, Tell
from .batch import Draft, Load


def repair(view: View, now_ms: int) -> Flow[tuple[Item | None, int]]:
    """The item as ``View.repaired`` says, and how many writes that took: none where others changed it first."""
    try:
        item = yield _anchored(view, now_ms)
    except ConditionFailed as failure:
        return failure.item, 0
    shard = f"shard {view.id.shard} of bucket {view.id.entity_id}/{view.id.resource}"
    yield Tell(
        __name__, logging.WARNING, f"{shard} was anchored by a clock that was ahead: its anchor was brought back"
    )
    return item, 1


def _anchored(view: View, now_ms: int) -> Update:
    draft = Draft()
    draft.equals["rf"] = view.anchor_ms
    for name in view.shapes:
        tk = bucket_attributes(name).tk
        if view.tokens_milli(name) > 0:
            draft.take_at_ceiling(tk, least=0, balance=0)
        else:
            draft.at_most[tk] = 0
    draft.set["rf"] = now_ms
    draft.count_write(Load())
    return draft.update(bucket_key(view.id))
