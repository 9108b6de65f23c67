"""Deliberate faults of callers that wait.

Never: the list of faults (mutants).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from zae_limiter.flows.acquire.claims import Claim, Grant
from zae_limiter.flows.acquire.requests import AcquireRequest
from zae_limiter.flows.acquire.taking_in_turn import ANY_PARTS
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.namespace_state import CachedBucket, NamespaceState
from zae_limiter.flows.process.waiting_line import Turn, WaitingLine
from zae_limiter.flows.steps import Flow
from zae_limiter.schema.items import BucketState
from zae_limiter.values.refusal import RateLimitExceeded


def in_line_for_longer(real: Callable[..., Flow[Grant]]) -> Callable[..., Flow[Grant]]:
    def acquire_in_line(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
        return real(namespace_state, replace(request, max_wait=request.max_wait + 1))

    return acquire_in_line


def give_up(self: object, refusal: RateLimitExceeded) -> None:
    """The first refusal is the last."""
    raise refusal


def own_amounts(self: WaitingLine, turn: Turn, now_ms: int) -> Mapping[str, int]:
    """Nobody before it counts."""
    return dict(self._waiting[turn].amounts if turn in self._waiting else {})


def of_all_shards(real: Callable[..., int]) -> Callable[..., int]:
    def headroom(claim: Claim, state: BucketState, name: str, now_ms: int, parts: float) -> int:
        """Any fraction of an amount counts."""
        return real(claim, state, name, now_ms, ANY_PARTS)

    return headroom


def nothing_asked(self: WaitingLine) -> Mapping[Turn, Mapping[int, Mapping[str, int]]]:
    """What others of the process ask of the shards is not known."""
    return {}


def from_the_beginning(real: Callable[..., Sequence[BucketRequest]]) -> Callable[..., Sequence[BucketRequest]]:
    def enter_many(self: Claim, parts: Iterable[tuple[CachedBucket, Mapping[str, int]]]) -> Sequence[BucketRequest]:
        """What some shards gave is forgotten when others are asked."""
        self.last = ()
        return real(self, parts)

    return enter_many
