"""Build the statuses of an acquire's limits from outcomes and from the states of shards.

This module has the one rule for the content of every refusal; ``acquire``, ``waiting`` and ``lease`` decide whether to
refuse.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

from ...operations.values import NOTHING
from ...rules.balances import force_consume, move_anchor
from ...rules.registry import minting_ms
from ...rules.schedules import next_token_through, wait_through
from ...rules.sharding import (
    Part,
    calculate_balance,
    calculate_servable,
    new_part,
    unseen_parts,
)
from ...schema.attributes import CONFIG_READ_AT
from ...schema.items import BucketState
from ...values.limit_status import LimitStatus
from ...values.limits import MILLI, Limit
from ...values.refusal import LaterStatuses, RateLimitExceeded
from ...values.timetables import timetable_of
from ..bucket.shifting import all_shifted
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
    """How one limit stood for a request at an instant: ``parts`` have what all before the request left to it."""

    claim: Claim
    name: str
    amount: int
    parts: Sequence[Part]
    at_ms: int
    refused: bool

    @cached_property
    def wait_seconds(self) -> float:
        """Seconds until the amount is there; 0 if it is. To look for it through a schedule takes time."""
        return wait_through(self.claim.config.scheduled.get(self.name), self.parts, self.amount, self.at_ms)

    @property
    def lag_seconds(self) -> float:
        """The same, but negative for a limit that has more than enough: minus the time in which it gains the
        surplus.
        """
        spare = calculate_servable(self.parts, self.at_ms) - self.amount
        return self.wait_seconds or -minting_ms(self.parts[0].shard_limit.limit, spare) / 1000

    def status(self) -> LimitStatus:
        limit = self.parts[0].shard_limit.limit
        return status_of(self.claim, limit, self.parts, self.amount, self.at_ms, self.wait_seconds)


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
    states = _repaired(claim, seen.states, seen.at_ms)
    balances = {name: calculate_balance(_parts(claim, states, name, seen.at_ms), seen.at_ms) for name in seen.ahead}
    return {name: balances[name] - ahead for name, ahead in seen.ahead.items() if ahead}


def _stood(found: _Found, states: Sequence[BucketState], at_ms: int, left: Mapping[str, int] = NOTHING) -> list[_Stood]:
    """Return how the limits stood on these shards, with what everything before the claim ``left`` of them, where that
    is known.
    """
    claim, stood = found.claim, []
    repaired = _repaired(claim, states, at_ms)
    for name, amount in claim.amounts.items():
        parts = _parts(claim, repaired, name, at_ms)
        if name in left and (len(parts) == 1 or found.seen is not None):  # what an outcome says is of one shard
            parts = [_whole(parts[0], left[name], at_ms)]
        stood.append(_Stood(claim, name, amount, parts, at_ms, found.refused))
    return stood


def _balance(claim: Claim, outcome: Outcome, name: str) -> int:
    seen = _repaired(claim, _states(outcome), outcome.at_ms)
    return calculate_balance(_parts(claim, seen, name, outcome.at_ms), outcome.at_ms)


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
    seen, statuses = _repaired(claim, states.values(), at_ms), []
    held = _held(claim)
    for name, amount in amounts.items():
        parts = _parts(claim, seen, name, at_ms, count_unseen=False)
        if held:
            parts = [_less(parts[0], -held.get(name, 0), at_ms), *parts[1:]]
        if owed_by:
            parts = [_less(part, owed_by.get(part.shard_limit.shard, NOTHING).get(name, 0), at_ms) for part in parts]
        statuses.append(status_of(claim, parts[0].shard_limit.limit, parts, amount, at_ms, short.get(name, 0.0)))
    return statuses


def _held(claim: Claim) -> Mapping[str, int]:
    """Return what this process holds of the claim's bucket: nobody else has it, and the process admits by it."""
    hold = claim.cached.queue.hold
    return NOTHING if hold is None else hold.left()


def _whole(part: Part, tokens_milli: int, at_ms: int) -> Part:
    """Return the whole of a limit with so many tokens, in the window of a part."""
    moved, _ = move_anchor(*part, at_ms)
    return Part(moved if moved.shards == 1 else replace(moved, shard=0, shards=1, fraction=None), tokens_milli)


def _less(part: Part, amount: int, at_ms: int) -> Part:
    return Part(*force_consume(*part, amount, at_ms))


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
                [part, *_] = _parts(claim, _repaired(claim, _states(at), at.at_ms), name, at.at_ms)
                limit = part.shard_limit.limit
                parts = [_whole(part, left[name], at.at_ms)]
                wait = wait_through(claim.config.scheduled.get(name), parts, amount, at.at_ms)
                found.append(status_of(claim, limit, parts, amount, at.at_ms, wait))
    return found


def _states(outcome: Outcome) -> Sequence[BucketState]:
    return () if outcome.state is None else (outcome.state,)


def status_of(
    claim: Claim, limit: Limit, parts: Sequence[Part], amount: int, at_ms: int, wait_seconds: float
) -> LimitStatus:
    """Return the status of a limit of a claim, which has so much on each shard."""
    declared = claim.config.scheduled.get(limit.name)
    return LimitStatus(
        entity_id=claim.cached.id.entity_id,
        resource=claim.cached.id.resource,
        limit_name=limit.name,
        limit=replace(limit, shadow=True) if limit.name in claim.config.shadow else limit,
        available=calculate_balance(parts, at_ms) // MILLI,
        requested=amount // MILLI,
        exceeded=wait_seconds > 0,
        retry_after_seconds=wait_seconds,
        next_token_seconds=next_token_through(declared, parts, at_ms),
        path=claim.path or (claim.cached.id.entity_id,),
        place=claim.place,
        schedule="" if declared is None else timetable_of(declared).at(at_ms).text,
        draw=claim.draw,
    )


def _repaired(claim: Claim, states: Iterable[BucketState], at_ms: int) -> list[BucketState]:
    """Return the states as the next write of each would leave them: the anchor repaired, the values those of now."""
    return all_shifted([state.repaired(at_ms) for state in states], claim.config, at_ms)


def _parts(
    claim: Claim, seen: Sequence[BucketState], name: str, at_ms: int, *, count_unseen: bool = True
) -> list[Part]:
    """Return the limit on each shard; full where a shard lacks it, and if there is no bucket.

    With ``count_unseen``, a shard that was not seen counts as full. Otherwise a refusal could say "never" for an amount
    that fits.
    """
    limit = claim.config.by_name[name]
    parts = [state.part(limit, at_ms) for state in seen]
    if count_unseen:
        parts += unseen_parts(limit, at_ms, {state.id.shard: state.shard_count for state in seen})
    if any(part.shard_limit.limit != parts[0].shard_limit.limit for part in parts[1:]):
        parts = [_changed(part, _newest(claim, seen, limit), at_ms) for part in parts]
    return parts or [new_part(limit, at_ms)]


def _newest(claim: Claim, seen: Sequence[BucketState], limit: Limit) -> Limit:
    """Return the claim's limit, or the one that a shard has by newer limits: the next write to each shard brings it."""
    newest = max(seen, key=lambda state: int(state.item[CONFIG_READ_AT]))
    older = claim.config.is_older_than(newest.item[CONFIG_READ_AT])
    return newest.shard_limits[limit.name].limit if older and limit.name in newest.shard_limits else limit


def _changed(part: Part, limit: Limit, at_ms: int) -> Part:
    """Return a part with another limit in place of its own: it keeps its tokens, up to the lower ceiling."""
    return Part(*move_anchor(*part, at_ms, limit))
