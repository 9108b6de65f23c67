"""Re-anchor a bucket: express the same balances for a later anchor. The aggregator decides when.

The problem: a balance is stored without the tokens minted since its anchor, so it falls for as long as nobody moves the
anchor, and says nothing to people who read the table. The choice: move the anchor by an addition, which holds whatever
others take or give meanwhile. The price is one write an hour for each shard in use. docs/design/usage.md
("Re-anchoring").
"""

from typing import Any

from ...operations.errors import ConditionFailed
from ...operations.values import Item, Update
from ...schema.attributes import WRITES_THEN
from ...schema.items import WRITES, BucketState, read_bucket
from ..steps import Flow
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
