"""Contests: two values of ``limits=`` for one bucket, as in every rolling deploy.

Processes that undo each other's reshapes make each other's writes fail, until some requests are never served. So a
process that lost a few reshapes, or finds its own undone at once, follows the bucket's shape for some seconds.
"""

from collections.abc import Sequence
from typing import Final

from ...schema.items import BucketState
from ...values.resolution import Config
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket, NamespaceState

RESHAPES_LOST: Final = 3
UNDONE_MS: Final = 1_000
FOLLOW_MS: Final = 5_000


def may_reshape(
    namespace_state: NamespaceState,
    cached: CachedBucket,
    state: BucketState,
    config: Config,
    requests: Sequence[BucketRequest],
    *,
    lost: int,
    now_ms: int,
) -> bool:
    """Return whether the run may reshape the bucket, after ``lost`` lost reshapes; otherwise it uses the bucket's
    shape.
    """
    if any(_demands(config, state, request) for request in requests):
        return True
    if not config.from_call:
        return lost < RESHAPES_LOST
    limits, reshaped_ms = cached.reshaped
    undone = limits == config.limits and 0 <= now_ms - reshaped_ms < UNDONE_MS
    if (undone or lost >= RESHAPES_LOST) and not _follows(cached, now_ms):
        cached.follows_until_ms = now_ms + FOLLOW_MS + namespace_state.pick(FOLLOW_MS)
    return not _follows(cached, now_ms)


def _follows(cached: CachedBucket, now_ms: int) -> bool:
    """Return whether the process still uses the bucket's shape. An end too far ahead is from before the clock went
    back.
    """
    return 0 < cached.follows_until_ms - now_ms <= 2 * FOLLOW_MS


def _demands(config: Config, state: BucketState, request: BucketRequest) -> bool:
    """Return whether a request asks for an amount that the config allows and the bucket's shape cannot hold."""
    for name, amount in request.amounts.items():
        limit, ceiling = config.by_name.get(name), state.ceilings.get(name)
        if limit is not None and (ceiling is None or ceiling < amount <= limit.ceiling_milli):
            return True
    return False
