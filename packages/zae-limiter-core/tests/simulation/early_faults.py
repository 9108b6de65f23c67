"""Tokens that come before their instant, and calls that never were, made wrong.

Lives here: the faults, and the seeds that have found them. Never: which of them are to be found (mutants).
"""

from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

from zae_limiter.flows.acquire import lease
from zae_limiter.flows.bucket.batch import UpdateDraft
from zae_limiter.flows.bucket.write_plans import AnchoredBalance, ReshapeWrite
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process import queueing
from zae_limiter.flows.steps import Flow
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.rules.token_bucket import TokenBucket

_anchored = ReshapeWrite._anchored


def _due_at_the_anchor(self: ReshapeWrite, shard_limit: ShardLimit) -> AnchoredBalance:
    """A write that moves the anchor a millisecond ahead admits by what has come by then."""
    balance = _anchored(self, shard_limit)
    return balance._replace(due=balance.minted)


def _counted(requests: Iterable[BucketRequest]) -> Flow[None]:
    """A lease that gives everything back leaves its call in the count."""
    requests = list(requests)
    for request in requests:
        request.events = 0
    return queueing.give_back_all(requests)


EARLY_FAULTS: dict[str, tuple[Any, int]] = {
    "a slow limit that mints a part of a millitoken twice": (patch.object(TokenBucket, "remainder", lambda *_: 0), 2),
    "a new anchor whose tokens are there before it": (patch.object(ReshapeWrite, "_anchored", _due_at_the_anchor), 24),
    "a write by a fraction that others have set since": (
        patch.object(UpdateDraft, "only_as_seen", lambda *_: None),
        280,
    ),
    "a call that gave everything back, counted": (patch.object(lease, "give_back_all", _counted), 1),
}
