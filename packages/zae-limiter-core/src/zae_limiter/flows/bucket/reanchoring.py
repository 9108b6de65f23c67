"""Re-anchor a bucket: express the same balances for a later anchor. The aggregator decides when.

The problem: a balance is stored without the tokens minted since its anchor, so it falls for as long as nobody moves the
anchor, and says nothing to people who read the table. The choice: move the anchor by an addition, which holds whatever
others take or give meanwhile. The price is one write an hour for each shard in use. docs/design/usage.md
("Re-anchoring").
"""

from ...operations.errors import ConditionFailed
from ...operations.values import Conditions, Item, Key, Update
from ...schema.attributes import ANCHOR, PK, SK, WRITES_THEN, bucket_attributes
from ...schema.items import ONE_WRITE, WRITES, BucketState, anchor_attributes, read_bucket
from ..steps import Flow


def reanchor(image: Item, at_ms: int) -> Flow[bool]:
    """Move the anchor of the shard in ``image`` to ``at_ms``; return ``False`` if another write moved it first."""
    try:
        yield reanchored(read_bucket(image), at_ms)
    except ConditionFailed:
        return False
    return True


def reanchored(state: BucketState, at_ms: int) -> Update:
    """Return the update that re-anchors a shard. Its headroom stays the same at every instant.

    ``min(ceiling, tokens + minted(t) - minted(anchor))`` does not change if ``tokens`` grows by ``minted(at) -
    minted(anchor)`` and ``anchor`` becomes ``at``. The update adds to the balances, and does not cut them off at the
    ceiling: the balances in the image may be old, but the tokens minted between two instants are the same for each
    balance.
    """
    add = {WRITES: ONE_WRITE}
    for name, shard_limit in state.shard_limits.items():
        add[bucket_attributes(name).tokens] = shard_limit.moved_by_anchor(at_ms)
    key, values = Key(state.item[PK], state.item[SK]), anchor_attributes(state.limits, at_ms)
    if state.shard_count > 1 and not state.id.shard:
        values[WRITES_THEN] = state.item[WRITES]
    return Update(key, add=add, set=values, when=Conditions(equals={ANCHOR: state.anchor_ms}))
