"""Deliberate faults of shares: of what a process lets through while the table is away, and pays afterwards.

Lives here: parts, tokens and debts made wrong. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.acquire import outage, refused
from zae_limiter.flows.acquire.acquire import acquire, known_claims
from zae_limiter.flows.acquire.claims import Grant
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.process import consumption, namespace_state, shares
from zae_limiter.flows.process.consumption import MILLION, Consumption
from zae_limiter.flows.process.namespace_state import CachedBucket, NamespaceState
from zae_limiter.flows.process.shares import LimitShare, Share, Shares
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.errors import StoreError, Unreachable
from zae_limiter.values.limits import Limit
from zae_limiter.values.refusal import RateLimitExceeded

Fault = Callable[[], AbstractContextManager[Any]]

BEGIN, LACKS, COUNT, END = LimitShare.__init__, LimitShare.lacks, Share.count, Shares.end
PART, PART_IN, TAKE = CachedBucket.part, Consumption._part_in, outage._take


def _twice_as_much(self: Consumption, window: int, limit: str) -> int:
    """What a process consumed counts twice."""
    return min(MILLION, 2 * PART_IN(self, window, limit))


def _a_third_at_least(self: CachedBucket, limit: str, now_ms: int) -> int:
    """A process that has no history has a part, too."""
    return max(PART(self, limit, now_ms), MILLION // 3)


def _whole(self: LimitShare, limit: Limit, part: int, tokens_milli: int, now_ms: int) -> None:
    """A share begins with the balance, and may hold the burst."""
    BEGIN(self, limit, part, tokens_milli * MILLION // part if part else 0, now_ms)


def _ceiling_of_all(self: LimitShare) -> int:
    return self._limit.ceiling_milli if self.part else 0


def _full(self: LimitShare, limit: Limit, part: int, tokens_milli: int, now_ms: int) -> None:
    """A share begins full, whatever was in the bucket."""
    BEGIN(self, limit, part, max(tokens_milli, limit.ceiling_milli), now_ms)


def _lacks_nothing(self: LimitShare, now_ms: int) -> int:
    """What was let through is counted, and taken from nobody."""
    return 0


def _lacks_twice(self: LimitShare, now_ms: int) -> int:
    return 2 * LACKS(self, now_ms)


def _never_paid(self: Shares[Any], now_ms: int) -> tuple[list[Any], list[str]]:
    return [], []


def _ended_twice(self: Shares[Any], key: tuple[str, str], shards: Sequence[Any], now_ms: int) -> None:
    """Who ends a share owes for it once more."""
    share = self.held.get(key)
    END(self, key, shards, now_ms)
    if share is not None:
        self.held[key] = share
        END(self, key, shards, now_ms)


def _acquires_forgotten(self: Share[Any], amounts: Mapping[str, int], now_ms: int, *, events: int = 0) -> None:
    COUNT(self, amounts, now_ms)


def _of_the_child_alone(state: NamespaceState, request: AcquireRequest, claims: Any, error: StoreError) -> None:
    """The parent has no say."""
    TAKE(state, request, claims[:1], error)


def _nobody_ends(*_: Any) -> Flow[None]:
    """An answer of the store ends no share."""
    yield from ()


def _or_by_share(state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    """Whom the table refuses, the share may serve."""
    try:
        return (yield from acquire(state, request))
    except RateLimitExceeded:
        claims = known_claims(state, request)
        if not claims or not state.shares.held:
            raise
        return (yield from outage.grant_without_store(state, request, Unreachable("by share"), claims))


def _of(*patches: tuple[Any, str, Any]) -> Fault:
    @contextmanager
    def faulty() -> Iterator[None]:
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(patch.object(*each))
            yield

    return faulty


NEVER_ENDS: Final = ((Share, "has_ended", lambda *_: False), (refused, "pay_shares", _nobody_ends))

OUTAGE_FAULTS: Final[Mapping[str, tuple[Fault, int]]] = {
    "shares over one: others consume nothing": (_of((Consumption, "see_others", lambda *_: None)), 6),
    "shares over one: what was consumed counts twice": (_of((Consumption, "_part_in", _twice_as_much)), 9),
    "shares over one: by the last window alone": (_of((consumption, "WINDOWS", 1)), 6),
    "a share of a process without a history": (_of((CachedBucket, "part", _a_third_at_least)), 5),
    "a part that holds for ever": (
        _of((shares, "is_void", lambda *_: False), (namespace_state, "is_void", lambda *_: False)),
        84,
    ),
    "the balance handed out whole to each process": (
        _of((LimitShare, "__init__", _whole), (LimitShare, "ceiling_milli", property(_ceiling_of_all))),
        9,
    ),
    "a share that begins full": (_of((LimitShare, "__init__", _full)), 74),
    "a debt that is never taken": (_of((LimitShare, "lacks", _lacks_nothing)), 66),
    "a debt that is taken twice": (_of((LimitShare, "lacks", _lacks_twice)), 6),
    "an outage that nobody pays for": (_of((Shares, "pay", _never_paid)), 4),
    "an outage paid for twice": (_of((Shares, "end", _ended_twice)), 4),
    "an outage paid for again, because the answer was lost": (_of((shares, "NotApplied", StoreError)), 29),
    "acquires of an outage that nobody counts": (_of((Share, "count", _acquires_forgotten)), 4),
    "corrections of an outage, forgotten": (_of((outage, "correct_share", lambda *_: None)), 4),
    "a child served by its share whose parent has none": (_of((outage, "_take", _of_the_child_alone)), 4),
    "a share that outlives its outage": (_of(*NEVER_ENDS), 6),
    "a share that is spent beside the table": (_of(*NEVER_ENDS, (refused, "acquire", _or_by_share)), 1),
}
