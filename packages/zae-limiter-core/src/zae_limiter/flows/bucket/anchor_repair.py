"""Repair an anchor that a wrong clock set ahead: move it back."""

import logging

from ...operations.errors import ConditionFailed
from ...operations.values import Item, Update
from ...rules.balances import Move
from ...schema.items import BucketState
from ..retry import with_retries
from ..steps import Flow, Log
from .writing import Change, write


def repair(state: BucketState, now_ms: int) -> Flow[tuple[Item | None, int]]:
    """Repair the anchor; return the item and the number of own writes: 1, or 0 after a lost race, with the item as it
    is.
    """
    try:
        item = yield from with_retries(repaired(state, now_ms))  # it is applied once: the anchor moves
    except ConditionFailed as failure:
        return failure.item, 0
    yield Log(
        __name__,
        logging.WARNING,
        "shard %d of bucket %s was anchored by a clock that was ahead: its anchor was brought back",
        values=(state.id.shard, f"{state.id.entity_id}/{state.id.resource}"),
    )
    return item, 1


def repaired(state: BucketState, now_ms: int) -> Update:
    """Return the update that brings the anchor back: it mints nothing and forgets what was stored; a debt stays."""
    moves, below = dict[str, Move](), dict[str, None]()
    for name in state.shard_limits.keys() - state.slots:
        whole = state.shard_limits[name].whole_at(now_ms) if state.shard_limits[name].unit else None
        moves[name] = Move(0, 0, 0, 0, 0, whole, whole)
        if state.tokens_milli(name) <= 0:  # what came back since it was seen is not forgotten unseen
            below[name] = None
    return write(state, Change(now_ms, moves, slack=below, remove=state.begun_attributes()), now_ms)
