"""Acquire: find the claims of the path, take from all of them, give back after a refusal.

This module orders the requests; ``group_commit`` writes one bucket. Layers around it: ``outage`` follows the policy
without the store, ``waiting`` asks again. ``fallbacks`` is the way in of every call (``acquire_with_fallbacks``): it
waits, overflows and counts.
"""

from collections.abc import Iterable, Sequence

from ...operations.errors import RaceLost, StoreError
from ...runtime.dataclass import replace
from ...values.refusal import RateLimitExceeded
from .. import acquire as acquiring
from ..bucket.serving import resolve
from ..bucket.view import View
from ..process.namespace_state import NamespaceState
from ..process.queueing import enqueue_and_wait, give_back_all
from ..process.waiting_line import Turn
from ..steps import Enqueue, Flow, Sleep
from .claims import Claim, Grant
from .disabling import read_if_old_and_disabled, refuse_if_disabled
from .path import find_claims, known_claims
from .requests import AcquireRequest

ROUNDS, AGAIN_SECONDS = 8, 0.01


def acquire(namespace_state: NamespaceState, request: AcquireRequest, turn: Turn | None = None) -> Flow[Grant]:
    """Take the amounts of every limit, or nothing. ``turn``: that of a caller which may wait in lines.

    Raises ``RateLimitExceeded``, ``AccessDisabled``, ``ValidationError``, ``StoreError``.
    """
    attempt, asked_again = 0, 0
    while attempt < ROUNDS:
        if attempt > 1:  # let others finish
            yield Sleep(AGAIN_SECONDS * attempt)
        # go by the limits that were read last: those that have expired are read again beside the write
        if attempt:
            request = replace(request, rereads=attempt)
        claims = known_claims(namespace_state, request) or (yield from find_claims(namespace_state, request))
        try:
            if (yield from _take(namespace_state, request, claims, turn)):
                grant = Grant(request, claims)
                for claim in claims:
                    if (state := claim.home.state) is not None and state.slots:
                        yield from grant.keep_slots(claim, namespace_state.now)
                return grant
        except RateLimitExceeded as refusal:
            # calls under way may give back what this one lacks: once they are decided, it asks again
            if asked_again == acquiring.taking.ASKS_AGAIN or not (
                yield from acquiring.taking.until_decided(namespace_state, claims, refusal)
            ):
                raise
            asked_again += 1
        else:
            attempt += 1
    raise RaceLost(f"the limits of {request.entity_id}/{request.resource} changed during {ROUNDS} attempts")


def _take(
    namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim], turn: Turn | None
) -> Flow[bool]:
    """Take from all buckets, or from none. Return and raise as ``_conclude`` does."""
    claim, *others = claims
    waits = turn is not None and any(turn in each.home.line for each in claims)
    # a bucket that refused no caller, and whose queue is empty, is not worth a look
    if not (others or claim.stale or waits) and (claim.target.short_ms or claim.target.busy):
        acquiring.copies.refuse_by_copies(namespace_state, request, claims)
        acquiring.outdated.doubt_short(namespace_state, claim)
    if not (others or claim.stale or waits):
        request_of_claim = claim.new_request()
        if request_of_claim.queue.prefetch is None:
            yield Enqueue(request_of_claim)  # as `enqueue_and_wait` does, at less cost: most acquires come by here
        else:
            yield from enqueue_and_wait([request_of_claim])
        if request_of_claim.admitted:
            return True
        yield from acquiring.taking.try_other_shards(namespace_state, claims)
        return (yield from _conclude(namespace_state, request, claims))
    try:
        if any(each.stale for each in claims):  # as each that is disabled
            if (yield from read_if_old_and_disabled(namespace_state, request, claims)):
                return False
            refuse_if_disabled(namespace_state, request, claims)
        if others or not waits:  # a caller that waits for one bucket has looked at the copy
            acquiring.copies.refuse_by_copies(namespace_state, request, claims)
            for each in claims:
                if each.target.short_ms:
                    acquiring.outdated.doubt_short(namespace_state, each)
        if turn is not None and waits:
            yield from acquiring.taking.take_in_turn(namespace_state, claims, turn)
        else:
            yield from acquiring.taking.take_together(namespace_state, claims)
        return (yield from _conclude(namespace_state, request, claims))
    finally:
        for each in claims:
            each.decide()


def _conclude(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]) -> Flow[bool]:
    """Return ``True`` if all claims are admitted and their configs are current; else give back what was taken.

    Then raise the reason, or return ``False`` if the acquire has to be decided again.
    """
    # beside the write, limits that had expired were read again: the write counts if it used the same
    read = [(claim.resolved, claim.home.resolved) for claim in claims if claim.stale]
    changed = any(now is not None and not now.agrees_with(before) for before, now in read)
    if not changed and all(claim.admitted for claim in claims):
        return True
    yield from give_back_all([bucket_request for claim in claims for bucket_request in claim.last])
    outcomes = [bucket_request.outcome for claim in claims for bucket_request in claim.last]
    if any(outcome is not None and outcome.verdict == "outdated" for outcome in outcomes):
        for claim in claims:
            yield from resolve(namespace_state, claim.home, bucket_too=True)
        return False
    if changed:
        return False
    error = first_error(claims)
    if error is not None:
        raise error
    refusal = yield from refusal_by_answers(namespace_state, request, claims)
    refused, now_ms = [claim for claim in claims if claim.refused], namespace_state.now()
    old = [each for each in refused if not _may_refuse(namespace_state, each, now_ms)]
    if not old:
        acquiring.outdated.doubt_later(namespace_state, refused, now_ms)
        raise refusal
    for claim in old:
        namespace_state.expire(claim.home)
    return False


def _may_refuse(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> bool:
    """Return whether the limits of a claim may refuse it, beside the states that decided it."""
    decided_by = acquiring.outdated.decided_by(claim)
    return acquiring.outdated.may_refuse(namespace_state, claim, decided_by, now_ms)


def first_error(claims: Iterable[Claim]) -> StoreError | None:
    """Return the first store error of a claim, ``None`` if there is none."""
    for claim in claims:
        for bucket_request in claim.last:
            if bucket_request.outcome is not None and bucket_request.outcome.error is not None:
                return bucket_request.outcome.error
    return None


def refusal_by_answers(
    namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]
) -> Flow[RateLimitExceeded]:
    """Return the refusal after the last try of each claim; read a bucket of several shards as a whole, if the store
    answers.
    """
    for claim in claims:
        if claim.is_split and claim.decided_by_view is None:
            try:
                view = yield from acquiring.taking.read_view(namespace_state, claim)
            except StoreError:  # also a spent budget: the refusal itself is certain
                view = View(namespace_state.states(claim.home), claim.config, namespace_state.now())
            claim.decided_by_view = view if view.states else None
    return acquiring.statuses.refusal_of(request, claims, namespace_state.now())
