"""What goes on without the store: follow the policy, take from this process's shares, and pay for them afterwards.

This module decides; ``process.shares`` has the tokens, ``process.consumption`` says which part of a limit is this
process's.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from ...exceptions import RateLimiterUnavailable
from ...operations.errors import StoreError
from ...rules.balances import refill_bucket
from ...schema.attributes import UNCOUNTED
from ...values.limit_status import LimitStatus
from ...values.limits import MILLI, OnUnavailable, Policy
from ...values.refusal import RateLimitExceeded
from ..bucket.limit_removal import TooManyLimits
from ..bucket.serving import cached_bucket
from ..bucket_queue import in_tokens
from ..process.consumption import MILLION
from ..process.namespace_state import CachedBucket, NamespaceState
from ..process.queueing import queue
from ..process.shares import LimitShare, Share
from ..public_errors import public_error
from ..steps import Flow, Log, Post
from .claims import Claim, Grant
from .requests import AcquireRequest
from .view import status_of

WHAT: Final[Mapping[Policy, str]] = {
    OnUnavailable.ALLOW: "not counted",
    OnUnavailable.SHARE: "goes by this process's share, and is counted later",
}


def grant_without_store(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Flow[Grant]:
    """Return the grant of an acquire that the store did not answer. Raises the errors of ``let_through``."""
    parts = (request, *request.also)
    anew = [anew for claim in claims for anew in for_each([claim], parts[claim.draw].amounts)]
    if (yield from let_through(namespace_state, request, error, anew)) == "allow":
        _remember_uncounted(namespace_state, parts)
        return Grant(request, (), error)
    grant = Grant(request, anew, error)
    for each in grant.all:
        each.uncounted = each.shared = each.consumed
    return grant


def _remember_uncounted(namespace_state: NamespaceState, parts: Iterable[AcquireRequest]) -> None:
    """Remember acquires that the outage lets through: the next write of this process to their bucket adds their number.

    Without the id of the namespace there is no bucket to remember them by.
    """
    for part in parts if namespace_state.is_identified else ():
        if any(part.amounts.values()):
            cached = cached_bucket(namespace_state, part.entity_id, part.resource)
            namespace_state.refusals.add(cached, namespace_state.now(), (UNCOUNTED,))


def let_through(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Flow[Policy]:
    """Return the policy by which this outage lets the amounts of the claims through, and log a line, at most one a
    minute.

    ``allow`` lets them through uncounted, also if all ``claims`` are for shadow limits; ``share`` takes them from the
    shares of this process. The policy of the call comes before any other.

    Raises ``RateLimiterUnavailable`` if the policy is ``block``, or if the process has no share, ``RateLimitExceeded``
    if its share is used up, and the public error of any other problem.
    """
    policy = _policy_for(namespace_state, request, error, claims)
    if policy == "share":
        _take(namespace_state, request, claims, error)
    yield from _say(namespace_state, request, error, policy)
    return policy


def let_corrections_through(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    error: StoreError,
    claims: Sequence[Claim],
    not_written: Sequence[tuple[Claim, Mapping[str, int]]],
) -> Flow[None]:
    """Do the same for corrections, of which ``share`` refuses none: it keeps those that were certainly not written."""
    policy = _policy_for(namespace_state, request, error, claims)
    if policy == "share":
        for claim, amounts in not_written:
            correct_share(namespace_state, claim, amounts)
    yield from _say(namespace_state, request, error, policy)


def for_each(claims: Sequence[Claim], amounts: Mapping[str, int]) -> list[Claim]:
    """Return the claims that limit or count these amounts, for these amounts, as if they had asked for nothing yet."""
    more = []
    for claim in claims:
        known = {name: amount for name, amount in amounts.items() if name in claim.config.by_name}
        names = claim.unlimited_names if len(known) < len(amounts) else ()
        counted = {name: amount for name, amount in amounts.items() if name in names}
        if known or counted:
            anew = replace(claim, amounts=known, unlimited=counted, stale=False, seen=None)
            anew.requests, anew.last = [], ()
            more.append(anew)
    return more


def to_share(grant: Grant) -> dict[str, int]:
    """Return the amounts that the corrections of a lease give back to the shares which they came from."""
    return {name: min(-amount, grant.shared.get(name, 0)) for name, amount in grant.corrections.items() if amount < 0}


def give_to_share(namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int]) -> None:
    """Give amounts back that were taken from the shares of this process."""
    given = {name: -amount for name, amount in amounts.items() if amount}
    for claim in for_each(grant.claims, given):
        correct_share(namespace_state, claim, claim.asked)


def _policy_for(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Policy:
    """Return ``allow`` or ``share``: of the call, else of the system config read last, else of the repository.

    Raises the public error if the policy is ``block``, or if this is no outage.
    """
    if isinstance(error, TooManyLimits):
        raise error.problem from None
    shown = public_error(namespace_state.stack, error)
    only_shadow = bool(claims) and not any(claim.checked for claim in claims)
    policy = request.on_unavailable or ("allow" if only_shadow else None)
    policy = policy or namespace_state.configs.on_unavailable or namespace_state.settings.on_unavailable
    if not isinstance(shown, RateLimiterUnavailable) or policy == "block":
        raise shown from error
    return policy


def _say(namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, policy: Policy) -> Flow[None]:
    more = namespace_state.degraded.count(namespace_state.now())
    if more is not None:
        what, before = f"{request.entity_id}/{request.resource}", f"; {more} more since the last line" if more else ""
        yield Log(
            __name__,
            logging.WARNING,
            "%s: %s, because the store is away: %s%s",
            values=(what, WHAT[policy], error, before),
        )


def _take(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim], error: StoreError) -> None:
    """Take the amounts from the shares of all claims, or nothing."""
    now, shares = namespace_state.now(), namespace_state.shares
    with shares.lock:
        found = [(claim, _share_of(namespace_state, claim, now)) for claim in claims]
        waits = [
            _status(claim, name, amount, share.limits[name], now)
            for claim, share in found
            for name, amount in claim.checked.items()
        ]
        _raise_if_impossible(request, waits, claims, error)
        if any(status.exceeded for status in waits):
            raise RateLimitExceeded(waits, *request.asker, by_share=True) from error
        for claim, share in found:
            shares.hold(_key(claim), share)
            events = 1 if any(claim.asked.values()) else 0
            share.count(claim.asked, now, events=events, below=events if claim.place else 0)


def _raise_if_impossible(
    request: AcquireRequest, statuses: Sequence[LimitStatus], claims: Sequence[Claim], error: StoreError
) -> None:
    """Raise ``RateLimiterUnavailable`` if the shares can never have the amounts, but the whole limits could."""
    bucket = f"{request.entity_id}/{request.resource}"
    if not claims:
        raise RateLimiterUnavailable(f"{error}; this process does not know the limits of {bucket}") from error
    for status in statuses:
        if status.retry_after_seconds == inf and status.requested * MILLI <= status.limit.ceiling_milli:
            what = f"{status.requested} {status.limit_name} of {status.entity_id}/{status.resource}"
            problem = f"{error}; the share of this process can never hold {what}"
            raise RateLimiterUnavailable(problem) from error


def _status(claim: Claim, name: str, amount: int, share: LimitShare, now_ms: int) -> LimitStatus:
    wait = share.wait_seconds(amount, now_ms)
    return status_of(claim, claim.config.by_name[name], share.available(now_ms), amount, wait)


def _share_of(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Share[CachedBucket]:
    """Return the share of a bucket, with the enforced limits that the claim asks for. It begins with the outage."""
    shares = namespace_state.shares
    share = shares.share_of(_key(claim), now_ms)
    if share is None:
        _end(namespace_state, _key(claim), now_ms)
        share = Share(claim.cached, claim.config, claim.cached.seen_at_ms, now_ms)
    share.used_ms = now_ms
    for name in claim.checked:
        if name not in share.limits:
            share.limits[name] = _begin(namespace_state, claim, name, now_ms)
        share.limits[name].follow(claim.config.by_name[name], now_ms)
    return share


def _begin(namespace_state: NamespaceState, claim: Claim, name: str, now_ms: int) -> LimitShare:
    """Return the share of one limit, by the last looks of this process at the shards of the bucket."""
    limit, shards = claim.config.by_name[name], _shards(namespace_state, claim.cached)
    part, tokens = 0, -namespace_state.shares.owed_to(shards, name)
    for shard in shards if not limit.has_slots else ():  # nobody counts slots without the store
        if (state := shard.state) is not None and name in state.shard_limits:
            of_shard = shard.part(name, now_ms)
            part += of_shard
            tokens += of_shard * refill_bucket(*state.repaired(now_ms).part(limit, now_ms), now_ms) // MILLION
    return LimitShare(limit, part // len(shards), tokens, now_ms)


def correct_share(namespace_state: NamespaceState, claim: Claim, amounts: Mapping[str, int]) -> None:
    """Take more from the share of a bucket, into debt if need be; negative amounts come back.

    Without a share, the process owes it to the bucket.
    """
    now, shares = namespace_state.now(), namespace_state.shares
    with shares.lock:
        share = shares.share_of(_key(claim), now)
        if share is not None:
            share.count({name: amount for name, amount in amounts.items() if name in share.limits}, now)
        rest = {name: amount for name, amount in amounts.items() if share is None or name not in share.limits}
        taken = {name: amount for name, amount in rest.items() if name in claim.config.enforced}
        shares.owe(claim.cached, claim.config, taken=taken, counted=rest)


def pay_shares(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Pay for the shares whose outage is over: those of ``claims``, which the store has just served, and those that no
    longer hold. Nobody waits for it.
    """
    now, shares = namespace_state.now(), namespace_state.shares
    with shares.lock:
        for key in [*map(_key, claims), *shares.ended(now)]:
            _end(namespace_state, key, now)
        requests, lost = shares.pay(now, partial(_home_of, namespace_state))
    for line in lost:
        yield Log(__name__, logging.WARNING, "%s", values=(line,))
    for request in requests:
        yield Post(request)


def pay_the_rest(namespace_state: NamespaceState) -> Flow[None]:
    """Pay for all shares, as far as the store answers within the budget of the run."""
    now, shares = namespace_state.now(), namespace_state.shares
    with shares.lock:
        for key in list(shares.held):
            _end(namespace_state, key, now)
        for owed in shares.owed.values():
            owed.tried_ms = 0
    while True:
        with shares.lock:
            requests, lost = shares.pay(now, partial(_home_of, namespace_state))
        for line in lost:
            yield Log(__name__, logging.WARNING, "%s", values=(line,))
        if not requests:
            break
        yield from queue(requests)
    if shares.owed:
        amounts = "; ".join(f"{shard.id}: {in_tokens(owed.counted)}" for shard, owed in shares.owed.items())
        yield Log(
            __name__, logging.WARNING, "the store is away, so these amounts are never counted: %s", values=(amounts,)
        )


def _end(namespace_state: NamespaceState, key: tuple[str, str], now_ms: int) -> None:
    share = namespace_state.shares.held.get(key)
    if share is not None:
        namespace_state.shares.end(key, _shards(namespace_state, share.home), now_ms)


def _home_of(namespace_state: NamespaceState, shard: CachedBucket) -> CachedBucket:
    return cached_bucket(namespace_state, shard.id.entity_id, shard.id.resource)


def _key(claim: Claim) -> tuple[str, str]:
    return claim.cached.id.entity_id, claim.cached.id.resource


def _shards(namespace_state: NamespaceState, home: CachedBucket) -> list[CachedBucket]:
    others = range(1, home.shard_count)
    of = home.id
    return [home, *(cached_bucket(namespace_state, of.entity_id, of.resource, shard=each) for each in others)]
