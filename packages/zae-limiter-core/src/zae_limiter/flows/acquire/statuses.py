"""Say how the limits of an acquire stood, by outcomes and by the states of shards; ``view`` makes each status.

This module has the one rule for the content of every refusal; ``acquire``, ``waiting`` and ``lease`` decide whether to
refuse.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

from ...operations.values import NOTHING
from ...rules.registry import minting_ms
from ...rules.sharding import (
    calculate_servable,
)
from ...schema.items import BucketState
from ...values.limit_status import LimitStatus
from ...values.refusal import LaterStatuses, RateLimitExceeded
from ..bucket.view import View
from ..bucket_queue import BucketQueue, BucketRequest, Outcome
from ..process.namespace_state import NamespaceState
from .claims import Claim, Seen
from .requests import AcquireRequest

ONE_MILLISECOND = 0.001


def refusal_of(
    request: AcquireRequest, claims: Sequence[Claim], now_ms: int, least_seconds: float = ONE_MILLISECOND
) -> RateLimitExceeded:
    """Return the refusal of a call that draws on these claims. Every refusal is made here.

    It has every limit that the call draws on. A limit counts as exceeded if it is short of the amount after everything
    before the call in its batch or line. If none is short by now (others came first, or tokens came back), the one that
    was short last counts. The limit with the longest wait waits for at least ``least_seconds``. The statuses are made
    when somebody reads them, from what is known now.
    """
    found = [_found(claim, now_ms) for claim in claims]
    buckets = {(claim.cached.id.entity_id, claim.cached.id.resource) for claim in claims}
    return RateLimitExceeded(LaterStatuses(partial(_refused, found, least_seconds), buckets), *request.asker)


def _refused(found: Iterable["_Found"], least_seconds: float) -> list[LimitStatus]:
    stood = [each for of_claim in found for each in _before(of_claim)]
    statuses = [each.status() for each in stood]
    worst = max(_deciding(stood), key=lambda place: stood[place].lag_seconds)
    wait_seconds = max(least_seconds, statuses[worst].retry_after_seconds)
    statuses[worst] = replace(statuses[worst], exceeded=True, retry_after_seconds=wait_seconds)
    return statuses


class _Found(NamedTuple):
    """What decided about a claim, whose requests may be asked again afterwards; its limits and amounts stay."""

    claim: Claim
    seen: Seen | None
    outcome: Outcome | None
    refused: bool
    now_ms: int


def _found(claim: Claim, now_ms: int) -> _Found:
    outcome = claim.last[0].outcome if claim.last else None
    return _Found(claim, claim.seen, outcome, bool(claim.last) and claim.refused, now_ms)


def _deciding(stood: Sequence["_Stood"]) -> list[int]:
    """Return the places of the limits that can have refused: those of the claims that were refused last, if any was."""
    enforced = [place for place, each in enumerate(stood) if each.name not in each.claim.config.shadow]
    short = [place for place in enforced if stood[place].wait_seconds]
    return short or [place for place in enforced if stood[place].refused] or enforced


def statuses_before(claim: Claim, now_ms: int) -> list[LimitStatus]:
    """Return how the limits of a claim stood before it took anything."""
    return [each.status() for each in _before(_found(claim, now_ms))]


Owed = Mapping[BucketQueue, Mapping[str, int]]  # what a write to a shard is still to take, in millitokens by limit


def statuses_after(namespace_state: NamespaceState, owing: Iterable[tuple[Claim, Owed]]) -> list[LimitStatus]:
    """Return the status of every limit taken from, after the last write that took from it, minus what is still owed to
    it.

    Other shards are as last seen.
    """
    return [status for claim, owed in owing for status in _after(namespace_state, claim, owed)]


@dataclass(frozen=True)
class _Stood:
    """How one limit stood for a request, in the view that has what everything before the request left to it."""

    claim: Claim
    name: str
    amount: int
    view: View
    refused: bool

    @cached_property
    def wait_seconds(self) -> float:
        """Seconds until the amount is there; 0 if it is. To look for it through a schedule takes time."""
        return self.view.wait(self.name, self.amount)

    @property
    def lag_seconds(self) -> float:
        """The same, but negative for a limit that has more than enough: minus the time in which it gains the
        surplus.
        """
        parts = self.view.parts(self.name)
        spare = calculate_servable(parts, self.view.at_ms) - self.amount
        return self.wait_seconds or -minting_ms(parts[0].shard_limit.limit, spare) / 1000

    def status(self) -> LimitStatus:
        return self.view.status(self.claim, self.name, self.amount, self.wait_seconds)


def _before(found: _Found) -> list[_Stood]:
    """Return how the limits of a claim stood before it took anything."""
    claim, outcome, seen = found.claim, found.outcome, found.seen
    if seen is not None:
        return _stood(found, seen.states, seen.at_ms, _behind(claim, seen))
    if outcome is None:
        return _stood(found, (), found.now_ms)
    left = outcome.left
    if outcome.verdict == "admitted":  # it was there, though a correction beside it may have taken more
        left = {name: max(amount, _balance(claim, outcome, name) + amount) for name, amount in claim.amounts.items()}
    return _stood(found, _states(outcome), outcome.at_ms, {**left, **outcome.shadow_short})


def _behind(claim: Claim, seen: Seen) -> dict[str, int]:
    """Return what the callers before this one in its line leave of the limits that they wait for."""
    view = View.of(seen.states, claim.config, seen.at_ms)
    return {name: view.available(name) - ahead for name, ahead in seen.ahead.items() if ahead}


def _stood(found: _Found, states: Sequence[BucketState], at_ms: int, left: Mapping[str, int] = NOTHING) -> list[_Stood]:
    """Return how the limits stood on these shards, with what everything before the claim ``left`` of them, where that
    is known.
    """
    claim, view = found.claim, View.of(states, found.claim.config, at_ms)
    if left and (found.seen is not None or all(len(view.parts(name)) == 1 for name in claim.amounts)):
        view = view._replace(before=left)  # what an outcome says is of one shard
    return [_Stood(claim, name, amount, view, found.refused) for name, amount in claim.amounts.items()]


def _balance(claim: Claim, outcome: Outcome, name: str) -> int:
    return View.of(_states(outcome), claim.config, outcome.at_ms).available(name)


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
    view = View.of(states.values(), claim.config, at_ms)._replace(
        mine=claim.cached.queue.held(), owed=owed_by, guesses=False
    )
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
