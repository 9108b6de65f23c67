"""The slots of a lease: kept while its block runs, freed when it ends, or sooner by ``release``."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...exceptions import ValidationError
from ...operations.errors import BudgetSpent, StoreError
from ...operations.values import sums
from ..bucket_queue import BucketRequest, SlotRenewal
from ..held_slots import Freeing, HeldSlots, SlotHold
from ..process.namespace_state import NamespaceState
from ..process.queueing import queue
from ..steps import Flow, Log, Remind
from .claims import Claim, Grant


def keep_slots(namespace_state: NamespaceState, grant: Grant, claims: Iterable[Claim]) -> Flow[None]:
    """Renew the slots that the last requests of these claims took, from now on until they are freed."""
    for claim in claims:
        holds = [hold for request in claim.last if request.admitted for hold in request.holds]
        if not holds:
            continue
        grant.has_slots = True
        if (max_hold := grant.request.max_hold) is not None:
            for hold in holds:
                hold.ends_ms = namespace_state.now() + max_hold * 1000
        cached = claim.cached  # shard 0 has all slots
        if cached.held_slots is None:
            cached.held_slots = HeldSlots()
        seconds = cached.held_slots.add(holds, namespace_state.now())
        if seconds is not None:
            yield Remind(SlotRenewal(cached.queue, claim.config, cached.held_slots), max(0.0, seconds))


def holds_of(claim: Claim) -> Iterator[SlotHold]:
    """Yield what a lease holds of the slots of a bucket: in a forked child nothing, for its parent has them."""
    holds = (hold for request in claim.requests if request.admitted for hold in request.holds)
    return (hold for hold in holds if not hold.is_of_parent)


def lost_slots(grant: Grant, now_ms: int) -> tuple[str, ...]:
    """Return the limits of which the lease, or one of its draws, has lost slots, sorted."""
    if not grant.holds_slots:
        return ()
    holds = (hold for claim in grant.all_claims for hold in holds_of(claim))
    return tuple(sorted({hold.limit for hold in holds if hold.is_lost(now_ms) or hold.has_ended(now_ms)}))


def stall(grant: Grant, now_ms: int) -> float | None:
    """Let the slots of a lease, and of its draws, end once they have expired from now on, unless ``resume`` comes
    before. Return the seconds until the first of them ends; ``None`` if it holds none.
    """
    holds = [hold for claim in grant.all_claims for hold in holds_of(claim) if hold.milli]
    for hold in holds:
        hold.stalls_ms = now_ms + hold.expires_ms
    return min((hold.expires_ms / 1000 for hold in holds), default=None)


def resume(grant: Grant) -> None:
    """Let the slots of a lease last again."""
    for claim in grant.all_claims if grant.holds_slots else ():
        for hold in holds_of(claim):
            hold.stalls_ms = math.inf


def slot_names(grant: Grant, names: Iterable[str]) -> list[str]:
    """Return those of the names that are limits with slots, in any bucket of the lease."""
    return [name for name in names if any(_has_slots(claim, name) for claim in grant.claims)]


def _has_slots(claim: Claim, name: str) -> bool:
    limit = claim.config.by_name.get(name)
    return limit is not None and limit.has_slots


def refuse_slots(grant: Grant, field: str, names: Iterable[str]) -> None:
    """Raise ``ValidationError`` if one of the names is a limit with slots: these are no estimates to correct."""
    for name in slot_names(grant, names):
        way = "lease.consume takes more of them, lease.release frees some, the end of the block frees the rest"
        raise ValidationError(field, name, f"has slots, which are not corrected: {way}")


def free_at_end(
    claims: Sequence[Claim], made: Sequence[tuple[Claim, BucketRequest]], now_ms: int
) -> list[tuple[Claim, BucketRequest]]:
    """Let the corrections of a lease, or requests of their own, free its slots; return the requests of their own."""
    new: list[tuple[Claim, BucketRequest]] = []
    for claim in claims:
        for hold in holds_of(claim):
            if hold.is_lost(now_ms):
                hold.lose()
        frees = [Freeing(hold, hold.milli) for hold in holds_of(claim) if hold.milli]
        if frees:
            found = (request for of, request in made if of is claim and request.queue is claim.cached.queue)
            request = next(found, None) or BucketRequest(claim.cached.queue, config=claim.config)
            request.frees, request.keeps_count = frees, True
            if not any(request is each for _, each in made):
                new.append((claim, request))
    return new


def take_back(grant: Grant, amounts: Mapping[str, int]) -> list[BucketRequest]:
    """Return the requests that free these slots now, in millitokens, which the lease holds."""
    requests = []
    grant.consumed = sums(grant.consumed, {name: -amount for name, amount in amounts.items()})
    for claim in grant.claims:
        frees = [each for name, amount in amounts.items() for each in _parts(claim, name, amount)]
        if frees:
            request = BucketRequest(claim.cached.queue, config=claim.config)
            request.frees, request.keeps_count = frees, True
            requests.append(request)
    return requests


def _parts(claim: Claim, name: str, amount: int) -> Iterator[Freeing]:
    for hold in holds_of(claim):
        part = min(amount, hold.milli) if hold.limit == name else 0
        amount -= part
        if part:
            yield Freeing(hold, part)


def free(requests: Sequence[BucketRequest]) -> Flow[None]:
    """Free slots. If the store fails, they come back when they expire."""
    try:
        yield from queue(requests)
    except BudgetSpent:  # they stay in their queues, and are written when the store answers
        return
    yield from first_problem(requests)


def first_problem(requests: Iterable[BucketRequest]) -> Flow[StoreError | None]:
    """Return the first error of a request that corrects more than slots. Slots that could not be freed come back by
    themselves: log them.
    """
    problem = None
    for request in requests:
        error = None if request.outcome is None else request.outcome.error
        if error is not None and (request.given or request.unchecked or request.count_only):
            problem = problem or error
        elif error is not None:
            names = ", ".join(sorted({each.hold.limit for each in request.frees}))
            yield Log(
                __name__,
                logging.WARNING,
                "slots of %s were not freed, and come back by themselves: %s",
                values=(names, error),
            )
    return problem
