"""The statuses of an acquire's limits, made of outcomes and of the states of shards."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...limits import MILLI, Limit, LimitStatus
from ...operations.values import NOTHING
from ...schema.items import BucketState
from ...sharding import Part, calculate_balance, calculate_next_token, calculate_wait, full_part, unseen_parts
from ...token_bucket import force_consume
from ..process.bucket_queue import BucketQueue, BucketRequest, Outcome
from ..process.namespace_state import NamespaceState
from .claims import Claim

ONE_MILLISECOND = 0.001


def statuses_before(claims: Iterable[Claim], now_ms: int) -> list[LimitStatus]:
    """The status of every checked limit, before this request took anything."""
    return [status for claim in claims for status in _contended(claim, _before(claim, now_ms))]


Owed = Mapping[BucketQueue, Mapping[str, int]]  # what a write to a shard is still to take, in millitokens by limit


def statuses_after(namespace_state: NamespaceState, owing: Iterable[tuple[Claim, Owed]]) -> list[LimitStatus]:
    """The status of every limit taken from, after the last write that took from it, and after what is owed to it.

    Other shards are as last seen.
    """
    return [status for claim, owed in owing for status in _after(namespace_state, claim, owed)]


def _before(claim: Claim, now_ms: int) -> list[LimitStatus]:
    outcome = claim.last[0].outcome if claim.last else None
    if outcome is None or claim.seen:
        return _statuses(claim, claim.amounts, claim.seen, now_ms)
    left = outcome.left
    if outcome.verdict == "admitted":
        left = {name: _balance(claim, outcome, name) + taken for name, taken in claim.amounts.items()} | dict(
            outcome.spared
        )
    return _statuses(claim, claim.amounts, _states(outcome), outcome.at_ms, left=left)


def _balance(claim: Claim, outcome: Outcome, name: str) -> int:
    seen = _repaired(_states(outcome), outcome.at_ms)
    return calculate_balance(_parts(claim, seen, name, outcome.at_ms), outcome.at_ms)


def _contended(claim: Claim, statuses: list[LimitStatus]) -> list[LimitStatus]:
    """All limits as exceeded, if a request was refused although none is: others came first, or tokens came since."""
    if not claim.refused or any(status.exceeded and not status.limit.shadow for status in statuses):
        return statuses
    return [
        replace(status, exceeded=True, retry_after_seconds=ONE_MILLISECOND)
        for status in statuses
        if not status.limit.shadow
    ]


def _after(namespace_state: NamespaceState, claim: Claim, owed: Owed) -> list[LimitStatus]:
    requests = [
        request for request in claim.requests if request.admitted and request.outcome is not None and request.amounts
    ]
    if not requests:
        return []
    states = {state.id.shard: state for state in namespace_state.states(claim.cached)} if claim.is_split else {}
    amounts: dict[str, int] = {}
    owed_by: dict[int, Mapping[str, int]] = {}
    at_ms = 0
    for request in requests:
        assert request.outcome is not None, "what is admitted has an outcome"
        at_ms = max(at_ms, request.outcome.at_ms)
        states |= {state.id.shard: state for state in _states(request.outcome)}
        if owed:
            shards = [state.id.shard for state in _states(request.outcome)] or [0]  # a bucket that is to come
            owed_by |= dict.fromkeys(shards, owed.get(request.queue, NOTHING))
        amounts |= {name: amounts.get(name, 0) + amount for name, amount in request.amounts.items()}
    amounts |= {name: 0 for each in owed.values() for name in each if name not in amounts}
    short = {status.limit_name: status.retry_after_seconds for status in _shadowed(claim)}
    seen, statuses = _repaired(states.values(), at_ms), []
    for name, amount in amounts.items():
        parts = _parts(claim, seen, name, at_ms, count_unseen=False)
        if owed_by:
            parts = [_less(part, owed_by.get(part.shard_limit.shard, NOTHING).get(name, 0), at_ms) for part in parts]
        statuses.append(_status(claim, parts[0].shard_limit.limit, parts, amount, at_ms, short.get(name, 0.0)))
    return statuses


def _less(part: Part, amount: int, at_ms: int) -> Part:
    return part._replace(tokens_milli=force_consume(*part, amount, at_ms))


def shadowed(claims: Iterable[Claim], known: Collection[BucketRequest] = ()) -> tuple[LimitStatus, ...]:
    """The statuses of the shadow limits that would have refused, but for those of ``known`` requests.

    Each is from before the write that took nothing from it.
    """
    return tuple(status for claim in claims for status in _shadowed(claim, known))


def _shadowed(claim: Claim, known: Collection[BucketRequest] = ()) -> list[LimitStatus]:
    found = []
    for request in claim.requests:
        if request in known:
            continue
        if request.admitted and request.outcome is not None and request.outcome.spared:
            at, left = request.outcome, request.outcome.spared
            for name, amount in request.spared.items():
                limit = claim.config.by_name[name]
                parts = [full_part(limit, at.at_ms)._replace(tokens_milli=left[name])]
                wait = calculate_wait(parts, amount, at.at_ms)
                found.append(_status(claim, limit, parts, amount, at.at_ms, wait))
    return found


def _states(outcome: Outcome) -> Sequence[BucketState]:
    return () if outcome.state is None else (outcome.state,)


def _statuses(
    claim: Claim,
    amounts: Mapping[str, int],
    states: Sequence[BucketState],
    at_ms: int,
    *,
    left: Mapping[str, int] = NOTHING,
) -> list[LimitStatus]:
    seen, statuses = _repaired(states, at_ms), []
    for name, amount in amounts.items():
        parts = _parts(claim, seen, name, at_ms)
        if name in left and len(parts) == 1:  # one shard: what it had left for this request
            parts = [Part(shard_limit, left[name] - shard_limit.minted_since_anchor(at_ms)) for shard_limit, _ in parts]
        wait = calculate_wait(parts, amount, at_ms)
        statuses.append(_status(claim, parts[0].shard_limit.limit, parts, amount, at_ms, wait))
    return statuses


def _status(
    claim: Claim, limit: Limit, parts: Sequence[Part], amount: int, at_ms: int, wait_seconds: float
) -> LimitStatus:
    return LimitStatus(
        entity_id=claim.cached.id.entity_id,
        resource=claim.cached.id.resource,
        limit_name=limit.name,
        limit=replace(limit, shadow=True) if limit.name in claim.config.shadow else limit,
        available=calculate_balance(parts, at_ms) // MILLI,
        requested=amount // MILLI,
        exceeded=wait_seconds > 0,
        retry_after_seconds=wait_seconds,
        next_token_seconds=calculate_next_token(parts, at_ms),
    )


def _repaired(states: Iterable[BucketState], at_ms: int) -> list[BucketState]:
    return [state.repaired(at_ms) for state in states]


def _parts(
    claim: Claim, seen: Sequence[BucketState], name: str, at_ms: int, *, count_unseen: bool = True
) -> list[Part]:
    """The limit on each shard; full where a shard lacks it, and if there is no bucket.

    With ``count_unseen``, a shard that was not seen counts as full: else a refusal could say "never" for an amount that
    fits.
    """
    limit = claim.config.by_name[name]
    parts = [state.part(limit, at_ms) for state in seen]
    if count_unseen:
        parts += unseen_parts(limit, at_ms, {state.id.shard: state.shard_count for state in seen})
    return parts or [full_part(limit, at_ms)]
