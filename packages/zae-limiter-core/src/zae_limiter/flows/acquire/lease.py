"""A lease: more consumption, corrections, and the way back.

Lives here: what happens to a grant in its block and behind it. Never: the first acquire (acquire).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ...exceptions import LeaseExpiredError, RateLimitExceeded, ValidationError
from ...limits import MILLI, check_amounts
from ...operations.errors import BudgetSpent, StoreError
from ...resolution import Config
from ..process.bucket_queue import BucketQueue, BucketRequest
from ..process.namespace_state import NamespaceState
from ..process.queueing import give_back_all, queue
from ..steps import Flow
from .acquire import first_error, how_they_stood, let_through, refuse_by_copies
from .claims import Claim, Grant
from .shard_selection import try_other_shards


class _Place(NamedTuple):
    """A shard, and among how many it was one."""

    queue: BucketQueue
    shards: int


def check_open(grant: Grant) -> None:
    """Raises ``LeaseExpiredError`` behind the block."""
    if not grant.open:
        raise LeaseExpiredError(grant.request.entity_id, grant.request.resource)


def checked(grant: Grant, field: str, amounts: Mapping[str, int], *, signed: bool = False) -> dict[str, int]:
    """The amounts in millitokens. Raises ``ValidationError`` for a bad amount, or a limit that the lease has not."""
    check_open(grant)
    milli = check_amounts(field, amounts, signed=signed)
    known = sorted({name for claim in grant.claims for name in claim.config.by_name})
    for name in milli:
        if grant.claims and name not in known:
            raise ValidationError(field, name, f"no such limit in this lease: there are {', '.join(known)}")
    return milli


def adjust(grant: Grant, field: str, amounts: Mapping[str, int]) -> None:
    """Remember corrections for the end of the block. Raises ``ValidationError`` where less than 0 would be left."""
    milli = checked(grant, field, amounts, signed=True)
    with grant.lock:
        check_open(grant)
        for name, amount in milli.items():
            held = grant.consumed.get(name, 0)
            if held + amount < 0:
                problem = f"the lease holds {held // MILLI}: no more can go back"
                raise ValidationError(field, f"{name}={amount // MILLI}", problem)
        grant.consumed = _sum(grant.consumed, milli)
        grant.corrections = _sum(grant.corrections, milli)


def release(grant: Grant, amounts: Mapping[str, int]) -> None:
    """Remember what is given back at the end of the block."""
    checked(grant, "release", amounts)
    adjust(grant, "release", {name: -amount for name, amount in amounts.items()})


def consume(namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int]) -> Flow[None]:
    """Take more, at once, from the same buckets: from all of them or none. Raises as ``acquire`` does.

    What is taken behind the end of the block goes back, and ``LeaseExpiredError`` is raised.
    """
    error: StoreError | None
    try:
        error = yield from _take_more(namespace_state, grant, amounts)
    except BudgetSpent as late:
        error = late
    if error is not None:
        yield from _go_uncounted(namespace_state, grant, amounts, error)


def _take_more(namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int]) -> Flow[StoreError | None]:
    """Why the store could not be asked, if it could not. Raises ``RateLimitExceeded`` where the tokens are short."""
    mine = [claim for claim in grant.claims if amounts.keys() & claim.config.by_name.keys()]
    more = [_for_amounts(claim, amounts) for claim in mine]
    refuse_by_copies(namespace_state, more)
    yield from queue([claim.enter() for claim in more])
    yield from try_other_shards(namespace_state, more)
    bucket_requests = [bucket_request for claim in more for bucket_request in claim.last]
    if all(claim.admitted for claim in more) and _joins(grant, mine, more, amounts):
        return None
    yield from give_back_all(bucket_requests, uncounted=True)
    check_open(grant)
    if any(
        bucket_request.outcome is not None and bucket_request.outcome.verdict == "outdated"
        for bucket_request in bucket_requests
    ):
        raise ValidationError("consume", [*amounts], "no longer limits of this bucket: acquire again")
    error = first_error(more)
    if error is None:
        raise RateLimitExceeded((yield from how_they_stood(namespace_state, more)))
    return error


def _go_uncounted(
    namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int], error: StoreError
) -> Flow[None]:
    """What could not be taken goes uncounted, where that is wanted. Raises as ``let_through``."""
    yield from let_through(namespace_state, grant.request, error)
    with grant.lock:
        check_open(grant)
        grant.unavailable = error
        grant.consumed = _sum(grant.consumed, amounts)
        grant.uncounted = _sum(grant.uncounted, amounts)


def _joins(grant: Grant, mine: Sequence[Claim], more: Sequence[Claim], amounts: Mapping[str, int]) -> bool:
    """Whether what was taken belongs to the lease from now on: its block has not ended meanwhile."""
    with grant.lock:
        if grant.open:
            for claim, part in zip(mine, more, strict=True):
                claim.requests += part.last
            grant.consumed = _sum(grant.consumed, amounts)
        return grant.open


def correct(namespace_state: NamespaceState, grant: Grant) -> Flow[None]:
    """Write what was adjusted and released, one write a shard. Without the store it does as ``acquire`` does."""
    corrections = {name: _written(grant, name, amount) for name, amount in grant.corrections.items()}
    made = [(claim, bucket_request) for claim in grant.claims for bucket_request in _corrections(claim, corrections)]
    error: StoreError | None
    try:
        yield from queue([bucket_request for _, bucket_request in made])
        made += [
            (claim, _at_home(claim, bucket_request))
            for claim, bucket_request in made
            if bucket_request.unchecked and _is_homeless(bucket_request)
        ]
        yield from queue([bucket_request for _, bucket_request in made if bucket_request.outcome is None])
        error = _first_error(bucket_request for _, bucket_request in made)
    except BudgetSpent as late:  # they stay in their queues, and are written when the store answers
        error = late
    if error is not None:
        yield from let_through(namespace_state, grant.request, error)
        grant.unavailable = error


def roll_back(grant: Grant) -> Flow[None]:
    """Give back all that the lease took; corrections are dropped. What takes too long is left to its queue."""
    with suppress(BudgetSpent):
        yield from give_back_all(
            [bucket_request for claim in grant.claims for bucket_request in claim.requests], uncounted=False
        )


def _written(grant: Grant, name: str, amount: int) -> int:
    """What a correction changes in the store: what was let through uncounted is not there to be given back."""
    return amount if amount > 0 else min(0, amount + grant.uncounted.get(name, 0))


def _for_amounts(claim: Claim, amounts: Mapping[str, int]) -> Claim:
    known = {name: amount for name, amount in amounts.items() if name in claim.config.by_name}
    return replace(claim, amounts=known, stale=False, seen=(), requests=[], last=())


def _corrections(claim: Claim, corrections: Mapping[str, int]) -> list[BucketRequest]:
    """One for each shard that is corrected: it gets back no more than was taken from it, while others were, too."""
    parts: dict[_Place, dict[str, int]] = {}
    for name, amount in corrections.items():
        if name in claim.config.by_name:
            for place, part in _divided(name, amount, _taken(claim)):
                parts.setdefault(place, {})[name] = part
    return [_correction(place, amounts, claim.config) for place, amounts in parts.items()]


def _correction(place: _Place, amounts: Mapping[str, int], config: Config) -> BucketRequest:
    unchecked = {name: amount for name, amount in amounts.items() if amount > 0}
    given = {name: -amount for name, amount in amounts.items() if amount < 0}
    return BucketRequest(place.queue, unchecked=unchecked, given=given, config=config, shards=place.shards)


def _is_homeless(bucket_request: BucketRequest) -> bool:
    """Whether the bucket no longer has the shard: it began anew with fewer."""
    return bucket_request.outcome is not None and bucket_request.outcome.verdict == "outdated"


def _at_home(claim: Claim, bucket_request: BucketRequest) -> BucketRequest:
    """What was to be taken from a shard that is gone."""
    return BucketRequest(claim.cached.queue, unchecked=bucket_request.unchecked, config=bucket_request.config)


def _divided(name: str, amount: int, taken: Mapping[_Place, Mapping[str, int]]) -> Iterator[tuple[_Place, int]]:
    """More is taken from the shard that was consumed first; what comes back goes to where it was taken."""
    first, *others = taken
    for place in others if amount < 0 else ():
        part = min(-amount, taken[place].get(name, 0))
        amount += part
        if part:
            yield place, -part
    if amount:
        yield first, amount


def _taken(claim: Claim) -> dict[_Place, dict[str, int]]:
    """What stands of each shard, the one that was consumed first in front; the target where none was."""
    taken: dict[_Place, dict[str, int]] = {}
    for bucket_request in claim.requests:
        if bucket_request.admitted:
            place = _Place(bucket_request.queue, bucket_request.taken_among)
            before = taken.get(place, {})
            taken[place] = {**before, **{name: before.get(name, 0) + n for name, n in bucket_request.checked.items()}}
    return taken or {_Place(claim.target.queue, 0): {}}


def _first_error(bucket_requests: Iterable[BucketRequest]) -> StoreError | None:
    outcomes = (bucket_request.outcome for bucket_request in bucket_requests)
    return next((outcome.error for outcome in outcomes if outcome is not None and outcome.error is not None), None)


def _sum(totals: Mapping[str, int], amounts: Mapping[str, int]) -> Mapping[str, int]:
    return {name: totals.get(name, 0) + amounts.get(name, 0) for name in {**totals, **amounts}}
