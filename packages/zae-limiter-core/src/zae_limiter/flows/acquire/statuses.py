"""Say how the limits of an acquire stood, by outcomes and by the states of shards; ``view`` makes each status.

This module has the one rule for the content of a refusal by balances; ``acquire``, ``copies``, ``waiting`` and
``lease`` decide whether to refuse.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from ...operations.values import NOTHING
from ...runtime.dataclass import replace
from ...schema.items import BucketState
from ...values.limit_status import LimitStatus
from ...values.refusal import LaterStatuses, RateLimitExceeded
from ..bucket.view import View
from ..bucket_queue import BucketRequest, Outcome, RunQueue
from ..process.namespace_state import NamespaceState
from .claims import Claim
from .requests import AcquireRequest

ONE_MILLISECOND = 0.001


def refusal_of(
    request: AcquireRequest,
    claims: Sequence[Claim],
    now_ms: int,
    least_seconds: float = ONE_MILLISECOND,
    short_of: Sequence[str] = (),
) -> RateLimitExceeded:
    """Return the refusal of a call that draws on these claims. Every refusal by a bucket's balance is made here; one by
    a share, by a switch, or behind an overflow is made where it is decided.

    It has every limit that the call draws on. A limit counts as exceeded if it is short of the amount after everything
    before the call in its batch or line. If none is short by now (others came first, or tokens came back), the one that
    was short last counts. The limit with the longest wait waits for at least ``least_seconds``. The statuses are made
    when somebody reads them, from what is known now. ``short_of``: the limits of the first claim that were short, if
    that is known already.
    """
    buckets = {(claim.home.id.entity_id, claim.home.id.resource) for claim in claims}
    later = LaterStatuses(partial(refusal_statuses, claims, now_ms, least_seconds), buckets)
    later.short_of = short_of
    return RateLimitExceeded(later, *request.asker)


def refusal_statuses(claims: Iterable[Claim], now_ms: int, least_seconds: float = ONE_MILLISECOND) -> list[LimitStatus]:
    """Return the statuses of ``refusal_of``."""
    statuses, ranks = list[LimitStatus](), list[tuple[bool, bool, bool, float]]()
    for claim in claims:
        view, refused = _before(claim, now_ms), bool(claim.last) and claim.refused
        for name, amount in claim.amounts.items():
            status = view.status(claim, name, amount)
            wait, enforced = status.retry_after_seconds, name not in claim.config.shadow
            # the longest wait decides; if nothing is short by now, the limit with least to spare of those that refused
            ranks.append((enforced, wait > 0, refused and not wait, wait or -view.spare_seconds(name, amount)))
            statuses.append(status)
    worst = max(range(len(ranks)), key=ranks.__getitem__)
    wait = max(least_seconds, statuses[worst].retry_after_seconds)
    statuses[worst] = replace(statuses[worst], exceeded=True, retry_after_seconds=wait)
    return statuses


def statuses_before(claim: Claim, now_ms: int) -> list[LimitStatus]:
    """Return how the limits of a claim stood before it took anything."""
    view = _before(claim, now_ms)
    return [view.status(claim, name, amount) for name, amount in claim.amounts.items()]


def _before(claim: Claim, now_ms: int) -> View:
    """Return the bucket of a claim with what everything before the claim left of its limits."""
    if (seen := claim.decided_by_view) is not None:
        return View.of(seen.states, seen.config, seen.at_ms)._replace(before=seen.before)
    outcome = claim.last[0].outcome if claim.last else None
    if outcome is None:
        return View.of((), claim.config, now_ms)
    view, left = View.of(_states(outcome), claim.config, outcome.at_ms), outcome.left
    if outcome.verdict == "admitted":  # it was there, though a correction beside it may have taken more
        left = {name: max(amount, view.available(name) + amount) for name, amount in claim.amounts.items()}
    is_whole = all(len(view.parts(name)) == 1 for name in claim.amounts)  # what an outcome says is of one shard
    return view._replace(before={**left, **outcome.shadow_short}) if is_whole else view


Owed = Mapping[RunQueue, Mapping[str, int]]  # what a write to a shard is still to take, in millitokens by limit


def statuses_after(namespace_state: NamespaceState, owing: Iterable[tuple[Claim, Owed]]) -> list[LimitStatus]:
    """Return the status of every limit taken from, after the last write that took from it, minus what is still owed to
    it.

    Other shards are as last seen.
    """
    return [status for claim, owed in owing for status in _after(namespace_state, claim, owed)]


def _after(namespace_state: NamespaceState, claim: Claim, owed: Owed) -> list[LimitStatus]:
    requests = [
        request for request in claim.requests if request.admitted and request.outcome is not None and request.amounts
    ]
    if not requests:
        return []
    states = {state.id.shard: state for state in namespace_state.states(claim.home)} if claim.is_split else {}
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
    view = View.of(states.values(), claim.config, at_ms)._replace(mine=claim.home.held(), owed=owed_by, guesses=False)
    return [view.status(claim, name, amount, short.get(name, 0.0)) for name, amount in amounts.items()]


def shadowed(claims: Iterable[Claim], known: Collection[BucketRequest] = ()) -> tuple[LimitStatus, ...]:
    """Return the statuses of the shadow limits that would have refused, except those of ``known`` requests.

    Each status is from before the write that took nothing from the limit.
    """
    return tuple(status for claim in claims for status in _shadowed(claim, known))


def _shadowed(claim: Claim, known: Collection[BucketRequest] = ()) -> list[LimitStatus]:
    found = []
    for request in claim.requests:
        if request in known:
            continue
        if request.admitted and request.outcome is not None and request.outcome.shadow_short:
            at, left = request.outcome, request.outcome.shadow_short
            for name, amount in request.not_taken.items():
                view = View.of(_states(at), claim.config, at.at_ms)._replace(before=left)
                found.append(view.status(claim, name, amount))
    return found


def _states(outcome: Outcome) -> Sequence[BucketState]:
    return () if outcome.state is None else (outcome.state,)
