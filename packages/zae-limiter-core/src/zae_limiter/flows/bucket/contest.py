"""Contests: two values of ``limits=`` for one bucket, as in every rolling deploy.

A config that a call passes is always newer than the bucket's shape. So two processes with different ones undo each
other's reshapes, each makes the other's writes fail, and some requests are never served. Nothing in the bucket says
which of the two is right.

So one gives way: a process that lost a few reshapes in a run, or finds its own undone at once, follows the bucket's
shape for some seconds. They are random, as in the backoff of Ethernet (Metcalfe and Boggs, 1976), so that two that gave
way do not come back together. The price is that for this time it admits by the other's limits. It gives way no further:
a request for an amount that its config allows, and that the bucket's shape cannot hold, reshapes the bucket all the
same. Stored limits have an order, that of their reads, so a process with those gives way for one run alone.

docs/design/admission.md ("Reshape").
"""

from collections.abc import Sequence
from typing import Final

from ...schema.attributes import CONFIG_READ_AT
from ...schema.items import BucketState
from ...values.resolution import Config
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket, NamespaceState

RESHAPES_LOST: Final = 3
UNDONE_MS: Final = 1_000
FOLLOW_MS: Final = 5_000


def is_newer(config: Config, state: BucketState) -> bool:
    """Return whether the config is newer than the bucket's shape: this process read it later, or the call passed it.

    The same config is newer once its schedules have other values: nobody decides by an instant before the anchor, so
    the bucket has the values of an earlier time.
    """
    if config.from_call or config.read_at_ms > state.item[CONFIG_READ_AT]:
        return True
    return not config.is_older_than(state.item[CONFIG_READ_AT]) and state.has_other_times(config)


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

    A bucket that has the config's values of an earlier time is always brought to this one, also by an older config that
    a lease has kept: by the values that it has, what was minted since would be counted wrong.
    """
    if state.has_other_times(config) and not state.has_values_of(config):
        return True
    if not is_newer(config, state):
        return False
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
