"""Buckets anchored anew: the same balances, expressed for a later instant.

Lives here: that write. Never: when it is worth its while (aggregator).
"""

from ...operations.errors import ConditionFailed
from ...operations.values import Conditions, Item, Key, Update
from ...schema.attributes import ANCHOR, PK, SK, bucket_attributes
from ...schema.items import ONE_WRITE, WRITES, BucketState, read_bucket
from ..steps import Flow


def reanchor(image: Item, at_ms: int) -> Flow[bool]:
    """Move the anchor of a bucket shard, as it was seen in ``image``, to ``at_ms``; ``False`` where others moved it."""
    try:
        yield reanchored(read_bucket(image), at_ms)
    except ConditionFailed:
        return False
    return True


def reanchored(state: BucketState, at_ms: int) -> Update:
    """The write: what any process finds available is the same before and after it, at every instant.

    ``min(ceiling, tokens + minted(t) - minted(anchor))`` stays as it is where ``tokens`` grows by ``minted(at) -
    minted(anchor)`` and ``anchor`` becomes ``at``: what is minted telescopes. Balances are added to, not set, and
    nothing is cut off at the ceiling: the image's may be old, but what is minted between two instants is not.
    """
    add = {WRITES: ONE_WRITE}
    for name, shard_limit in state.shard_limits.items():
        add[bucket_attributes(name).tokens] = shard_limit.minted_since_anchor(at_ms)
    key = Key(state.item[PK], state.item[SK])
    return Update(key, add=add, set={ANCHOR: at_ms}, when=Conditions(equals={ANCHOR: state.anchor_ms}))
