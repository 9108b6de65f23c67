"""What a process counts about its config cache and its store."""

from typing import Literal

from ..runtime.dataclass import dataclass

BreakerState = Literal["closed", "open"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How often the config cache had the answer; ``entries`` is the number of records, ``ttl_seconds`` their life."""

    hits: int
    misses: int
    entries: int
    ttl_seconds: float


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How the store answered this process.

    ``breaker`` is ``"open"`` while the store does not answer reads, writes or both. The rest are counts since the
    repository was opened: ``opened`` of times that the breaker opened, ``probes`` of times that the store was asked
    whether it answers again, ``unanswered`` of requests without an answer (timed out, not connected, a server error),
    ``not_sent`` of requests that failed at once because the breaker was open, ``denied`` of requests refused for the
    credentials, ``untrusted`` of requests that were not sent because the store's certificate does not verify,
    ``foreign_rows`` of rows in a namespace's part of an index that are another's, ``unreadable_rows`` of its own ones
    that could not be read; lists and sums leave both out.
    """

    breaker: BreakerState
    opened: int
    probes: int
    unanswered: int
    not_sent: int
    denied: int
    untrusted: int
    foreign_rows: int
    unreadable_rows: int
