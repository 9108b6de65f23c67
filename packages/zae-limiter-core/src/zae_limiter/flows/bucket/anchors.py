"""Move the anchor of a shard without any request: forward, as the aggregator does, or back, if a clock was wrong.

The problem: a balance is stored without the tokens minted since its anchor, so it falls for as long as no write moves
the anchor, and says nothing to people who read the table. The choice: move the anchor by an addition, which holds
whatever others take or give meanwhile. The price is one write an hour for each shard in use. docs/design/usage.md
("Re-anchoring").

An anchor far in the future was set by a wrong clock. Until then nothing would be minted, so it is moved back to now.
docs/design/admission.md ("Clocks").
"""

import logging
from typing import Any

from ...operations.errors import ConditionFailed
from ...operations.values import Item, Update
from ...rules.balances import Move
from ...schema.attributes import WRITES_THEN
from ...schema.items import WRITES, BucketState, read_bucket
from ..retry import with_retries
from ..steps import Flow, Log
from .writing import Change, write


def reanchor(image: Item, at_ms: int) -> Flow[bool]:
    """Move the anchor of the shard in ``image`` to ``at_ms``; return ``False`` if another write moved it first."""
    try:
        yield reanchored(read_bucket(image), at_ms)
    except ConditionFailed:
        return False
    return True


def reanchored(state: BucketState, at_ms: int, **values: Any) -> Update:
    """Return the update that re-anchors a shard, and sets ``values``: its headroom is the same at every instant."""
    if state.shard_count > 1 and not state.id.shard:
        values[WRITES_THEN] = state.item[WRITES]
    return write(state, Change(at_ms, values=values), at_ms)


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
        "shard %d of bucket %s was anchored by a fast clock: its anchor was brought back",
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
