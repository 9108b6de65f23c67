"""Deliberate faults of acquires that draw on several buckets.

Lives here: rules of a path made wrong. Never: a fault that can leave this package.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final
from unittest.mock import patch

from zae_limiter.flows.acquire import acquire, draws, path
from zae_limiter.flows.acquire.claims import Claim, Grant
from zae_limiter.flows.acquire.path import Path
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process import queueing
from zae_limiter.flows.steps import Flow

Fault = Callable[[], AbstractContextManager[Any]]


def _each_way(self: Path, entity_id: str, parent_ids: Iterable[str]) -> None:
    """Whoever is met by two ways is drawn on twice."""
    for parent_id in parent_ids:
        self.order.append(parent_id)
        self.to[parent_id] = (*self.to[entity_id], parent_id)


def _first_parent(*args: Any) -> tuple[str, ...]:
    """Further parents are forgotten."""
    return path.parents_to_ask(*args)[:1]


def _but_the_topmost(requests: Sequence[BucketRequest]) -> Flow[None]:
    """The bucket that is furthest away keeps what was taken from it."""
    kept = {requests[-1].queue} if len({each.queue for each in requests}) > 2 else set()
    return queueing.give_back_all([each for each in requests if each.queue not in kept])


@contextmanager
def _draws_kept() -> Iterator[None]:
    """What a draw took stays taken when another bucket refuses or fails."""
    of_draws: list[BucketRequest] = []
    conclude = acquire._conclude

    def noting(*args: Any) -> Flow[bool]:
        of_draws.extend(each for claim in args[-1] if claim.draw for each in claim.last)
        return (yield from conclude(*args))

    def but_draws(requests: Sequence[BucketRequest]) -> Flow[None]:
        return queueing.give_back_all([each for each in requests if each not in of_draws])

    with patch.object(acquire, "_conclude", noting), patch.object(acquire, "give_back_all", but_draws):
        yield


def _own_claims(self: Grant) -> Sequence[Claim]:
    """The end of a block forgets the draws."""
    return self.claims


PATH_FAULTS: Final[Mapping[str, tuple[Fault, int]]] = {
    "an ancestor counted twice": (partial(patch.object, Path, "rise", _each_way), 2),
    "a further parent forgotten": (partial(patch.object, draws, "parents_to_ask", _first_parent), 3),
    "an ancestor not compensated": (partial(patch.object, acquire, "give_back_all", _but_the_topmost), 29),
    "a draw counted twice": (partial(patch.object, draws, "each_once", list), 4),
    "a draw not compensated": (_draws_kept, 81),
    "a draw kept by a failed block": (partial(patch.object, Grant, "all_claims", property(_own_claims)), 4),
}
