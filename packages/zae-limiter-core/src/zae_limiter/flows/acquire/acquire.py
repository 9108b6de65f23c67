"""Acquire: find the claims of the path, take from all of them, give back after a refusal.

This module orders the requests; ``group_commit`` writes one bucket, ``outage`` follows the policy without the store.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...operations.errors import BudgetSpent, RaceLost, StoreError
from ...schema.items import BucketState
from ...values.refusal import RateLimitExceeded
from ...values.resolution import Config
from ..bucket.serving import resolve
from ..process.namespace_state import NamespaceState
from ..process.queueing import give_back_all, queue
from ..steps import Enqueue, Flow, Sleep
from .claims import Claim, Grant, Seen
from .create_path import create_path
from .disabling import refuse_if_disabled
from .outage import grant_without_store
from .outdated import expire_what_a_bucket_outdates, expire_what_nobody_told, is_refused_by_old_limits
from .path import find_claims, fresh_enough, known_claims
from .requests import AcquireRequest
from .shard_selection import cached_shards, fresh_shards, read_shards, try_other_shards
from .statuses import refusal_of
from .taking_in_turn import take_in_turn
from .taking_together import ASKS_AGAIN, less_coming_back, take_together, until_decided
from .view import View

ROUNDS, AGAIN_SECONDS = 8, 0.01


def acquire(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    """Take the amounts of every limit, or nothing.

    Raises ``RateLimitExceeded``, ``AccessDisabled``, ``ValidationError``, ``RateLimiterUnavailable`` in an outage if
    the policy does not let the call through, and another ``InfrastructureError`` for an error that is no outage.
    """
    claims: list[Claim] | None = None
    attempt, asked_again = 0, 0
    try:
        while attempt < ROUNDS:
            if attempt > 1:  # let others finish
                yield Sleep(AGAIN_SECONDS * attempt)
            request.rereads = attempt
            known = fresh_enough(namespace_state, known_claims(namespace_state, request))
            claims = known or (yield from find_claims(namespace_state, request))
            claim = claims[0]
            alone = claim is claims[-1] and not claim.stale and request.turn is None
            try:
                if alone:
                    # a bucket that nobody was refused by, and whose queue is empty, is not worth a look
                    if (claim.target.short_ms or claim.target.queue.busy) and _looks_short(namespace_state, claim):
                        refuse_by_copies(namespace_state, request, claims)
                    bucket_request = claim.enter()
                    if bucket_request.queue.hold is None:
                        yield Enqueue(bucket_request)  # as `queue` does, at less cost
                    else:
                        yield from queue([bucket_request])
                    taken = bucket_request.admitted or (yield from _take_elsewhere(namespace_state, request, claims))
                else:
                    taken = yield from _take_with_others(namespace_state, request, claims)
                if taken:
                    grant = Grant(request, claims)
                    if not alone or ((state := claim.target.state) is not None and state.slots):
                        yield from grant.keep_slots(claims, namespace_state.now)
                    return grant
            except RateLimitExceeded as refusal:
                if asked_again == ASKS_AGAIN or not (yield from until_decided(namespace_state, claims, refusal)):
                    raise
                asked_again += 1
            else:
                attempt += 1
        raise RaceLost(f"the limits of {request.entity_id}/{request.resource} changed during {ROUNDS} attempts")
    except StoreError as error:
        refuse_if_disabled(namespace_state, request, known_claims(namespace_state, request) or ())
        _raise_if_answered(request, claims or (), error)
        return (yield from grant_without_store(namespace_state, request, error, claims or ()))


class NotYet(Exception):
    """The store answered, but the attempt of a waiting caller ran out of time: others were before it."""


def _raise_if_answered(request: AcquireRequest, claims: Sequence[Claim], error: StoreError) -> None:
    """Raise ``NotYet`` if the time is over, but an answer has shown one of the buckets since the attempt of a caller
    that may wait began.
    """
    if isinstance(error, BudgetSpent) and request.since_ms > 0:
        seen = (each.seen_at_ms for claim in claims for each in (claim.cached, claim.target))
        if any(seen_at_ms > request.since_ms for seen_at_ms in seen):
            raise NotYet from error


def _take_elsewhere(namespace_state: NamespaceState, request: AcquireRequest, claims: list[Claim]) -> Flow[bool]:
    """Ask other shards for what the first one lacked. Return and raise as ``_conclude`` does."""
    yield from try_other_shards(namespace_state, claims)
    return (yield from _conclude(namespace_state, request, claims))


def _take_with_others(namespace_state: NamespaceState, request: AcquireRequest, claims: list[Claim]) -> Flow[bool]:
    """Take where the fast way does not do: there are parents, a config has expired, or the turn of a waiting caller has
    come. Return and raise as ``_conclude`` does.
    """
    try:
        for claim in claims:
            if claim.stale:  # as each that is disabled
                refuse_if_disabled(namespace_state, request, claims)
                break
        if len(claims) > 1 or request.turn is None:  # a caller that waits for one bucket has looked at the copy
            refuse_by_copies(namespace_state, request, claims)
        if request.turn is not None:
            yield from take_in_turn(namespace_state, claims)
        elif creating := _without_buckets(claims):
            yield from create_path(namespace_state, creating)
            yield from try_other_shards(namespace_state, claims)
        else:
            yield from take_together(namespace_state, claims)
        return (yield from _conclude(namespace_state, request, claims))
    finally:
        for claim in claims:
            claim.decide()


def _without_buckets(claims: Sequence[Claim]) -> Sequence[Claim]:
    """Return the claims that take something if there are several, and none of them has a bucket; else none."""
    taking: list[Claim] = []
    for claim in claims:
        if any(claim.amounts.values()) or (claim.unlimited and any(claim.unlimited.values())):
            if claim.cached.state is not None or claim.stale:
                return ()
            taking.append(claim)
    return taking if len(taking) > 1 else ()


def refuse_by_copies(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]) -> None:
    """Raise ``RateLimitExceeded`` if fresh copies of a claim's shards show that the tokens are not there.

    The refusal shows every claim, so this process must know each of them well enough.
    """
    now = namespace_state.now()
    short = [claim for claim in claims if _rules_out(namespace_state, claim, now)]
    if not short:
        return
    seen = [namespace_state.states(claim.cached) for claim in claims]
    if all(_is_presentable(namespace_state, claim, states, now) for claim, states in zip(claims, seen, strict=True)):
        for claim, states in zip(claims, seen, strict=True):
            claim.seen = Seen(states, now)
        raise refusal_of(request, claims, now)
    for claim in short:
        claim.target.short_ms = now


def _looks_short(namespace_state: NamespaceState, claim: Claim) -> bool:
    """Return whether the shard that is asked first may lack the amounts. Most shards have them, and need no closer
    look.
    """
    state = claim.target.state
    return state is None or state.is_short_of(claim.checked, namespace_state.now())


def _rules_out(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> bool:
    states = cached_shards(namespace_state, claim, now_ms)
    view = View(states, claim.config, now_ms)
    if not states or view.fits(claim.checked):
        return False
    less = less_coming_back(namespace_state, claim)
    return less == claim.checked or not view.fits(less)


def _is_presentable(namespace_state: NamespaceState, claim: Claim, states: Sequence[BucketState], now_ms: int) -> bool:
    """Return whether the limits still hold, the bucket has them, and its balance is no older than limits may be.

    If this process knows of no bucket, nobody may have told it of other limits, so they must not be what refuses. Nor
    must a bucket that was told since it was seen.
    """
    recent = claim.target.is_fresh(now_ms, namespace_state.settings.config_ttl_ms)
    if not states and is_refused_by_old_limits(namespace_state, claim, now_ms):
        return False
    is_fresh = not states or fresh_shards(namespace_state, claim, now_ms)
    if not is_fresh and not View(states, claim.config, now_ms).fits(claim.checked):
        return False
    return recent and not claim.stale and namespace_state.agree(claim.cached, claim.config)


def _conclude(namespace_state: NamespaceState, request: AcquireRequest, claims: list[Claim]) -> Flow[bool]:
    """Return ``True`` if all claims are admitted and their configs are current; else give back what was taken.

    Then raise the reason, or return ``False`` if the acquire has to be decided again.
    """
    changed = any(claim.stale and _changed(claim) for claim in claims)
    if not changed and all(claim.admitted for claim in claims):
        for claim in claims:
            _renew(claim)
        return True
    yield from give_back_all([bucket_request for claim in claims for bucket_request in claim.last])
    outcomes = [bucket_request.outcome for claim in claims for bucket_request in claim.last]
    if any(outcome is not None and outcome.verdict == "outdated" for outcome in outcomes):
        for claim in claims:
            yield from resolve(namespace_state, claim.cached, bucket_too=True)
        return False
    if changed:
        return False
    error = first_error(claims)
    if error is not None:
        raise error
    if request.rereads == 0 and expire_what_nobody_told(namespace_state, claims):
        return False
    refusal = yield from refusal_by_answers(namespace_state, request, claims)
    if request.rereads == 0 and expire_what_a_bucket_outdates(namespace_state, claims):
        return False
    raise refusal


def first_error(claims: Iterable[Claim]) -> StoreError | None:
    """Return the first store error of a claim, ``None`` if there is none."""
    for claim in claims:
        for bucket_request in claim.last:
            if bucket_request.outcome is not None and bucket_request.outcome.error is not None:
                return bucket_request.outcome.error
        if claim.error is not None:
            return claim.error
    return None


def refusal_by_answers(
    namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim]
) -> Flow[RateLimitExceeded]:
    """Return the refusal after the last try of each claim; read a bucket of several shards as a whole, if the store
    answers.
    """
    for claim in claims:
        if claim.is_split and claim.seen is None:
            try:
                states = yield from read_shards(namespace_state, claim)
            except StoreError:  # also a spent budget: the refusal itself is certain
                states = namespace_state.states(claim.cached)
            claim.seen = Seen(states, namespace_state.now()) if states else None
    return refusal_of(request, claims, namespace_state.now())


def _changed(claim: Claim) -> bool:
    """Return whether the read beside the write found other limits than those that the write used."""
    now = claim.cached.resolved
    return now is not None and (not now.agrees_with(claim.resolved) or _went_by_older(claim, now.config))


def _renew(claim: Claim) -> None:
    """Let the lease use the limits that were just read beside the write: they are the same, and newer."""
    now = claim.cached.resolved
    if claim.stale and now is not None and not claim.config.follows:
        read_at_ms = now.config.born_ms
        born_ms = read_at_ms if claim.config.stored else claim.config.born_ms
        claim.config = replace(claim.config, born_ms=born_ms, read_at_ms=read_at_ms)


def _went_by_older(claim: Claim, config: Config) -> bool:
    """Return whether a shard decided by limits that are newer than the claim's and older than ``config``."""
    if claim.config.follows:
        return False
    asked = [request.outcome for request in claim.last if request.takes]
    decided = [outcome for outcome in asked if outcome is not None and outcome.verdict in {"admitted", "refused"}]
    states = [outcome.state for outcome in decided if outcome.state is not None]
    return any(state.compare(config) == "newer" for state in states)
