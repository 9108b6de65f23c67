"""An acquire that waits for its tokens.

Lives here: the pauses of a caller. Never: what an acquire asks and writes (acquire), who is before whom (waiting_line).

A caller sleeps until the tokens of all before it in the line and its own are due, by the last seen states. Then it
acquires. No caller wakes another one, so one that is cancelled leaves nothing behind. Callers of a crowd that are due
within the same moment acquire together: one write serves them all.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from ...exceptions import RateLimitExceeded
from ...limits import MILLI, Limit, LimitStatus
from ...schema.items import BucketState
from ...sharding import calculate_balance
from ..bucket.serving import cached_bucket
from ..process.namespace_state import CachedBucket, NamespaceState
from ..process.waiting_line import Turn
from ..steps import Flow, Wait
from .acquire import acquire, known_claims
from .claims import AcquireRequest, Claim, Grant
from .counting import count_refusal

LONGEST_PAUSE_MS = 1000  # then a caller looks again: others may have left the line
MOMENT_MS = 100
MOMENTS_TO_FILL = 2  # a bucket must not fill up while its crowd waits for the next moment
A_BIT_MS, PATIENCE = 1, 1000  # times that a caller looks again whether all before it are served
JITTER = 0.1  # of the wait of a caller that waits alone
LONGEST_JITTER_MS = 50

_arrivals = count(1)


def acquire_in_time(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    """The grant of ``acquire``, within the request's ``max_wait`` seconds.

    Raises the errors of ``acquire``; ``RateLimitExceeded`` as soon as it is clear that the tokens come too late.
    """
    try:
        if not request.max_wait:
            return (yield from acquire(namespace_state, request))
        return (yield from _acquire_in_line(namespace_state, request))
    except RateLimitExceeded as refusal:
        yield from count_refusal(namespace_state, refusal)
        raise


def _acquire_in_line(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
    caller = _Caller(namespace_state, request)
    try:
        return (yield from _acquire_in_turn(namespace_state, request, caller))
    finally:
        caller.leave()


def _acquire_in_turn(namespace_state: NamespaceState, request: AcquireRequest, caller: "_Caller") -> Flow[Grant]:
    begun, slept_ms, refused_ms = namespace_state.now(), 0.0, 0
    refusal: RateLimitExceeded | None = None
    caller.join_others(known_claims(namespace_state, request) or ())
    while True:
        while (wait_ms := max(caller.wait_ms(), refused_ms)) or caller.is_blocked():
            left_ms = request.max_wait * 1000 - max(slept_ms, namespace_state.now() - begun)
            if wait_ms > left_ms or left_ms <= 0:  # at its end, one whom others are before does not overtake them
                raise caller.too_late(refusal, max(wait_ms, A_BIT_MS))
            pause_ms = min(caller.pause_ms(wait_ms), left_ms, LONGEST_PAUSE_MS)
            caller.turn.due_ms = namespace_state.now() + math.ceil(pause_ms)
            yield Wait(pause_ms / 1000)
            slept_ms, refused_ms = slept_ms + pause_ms, 0
        caller.turn.wake()
        try:
            grant = yield from acquire(namespace_state, replace(request, turn=caller.turn if caller.joined else None))
        except RateLimitExceeded as error:
            if math.isinf(error.retry_after_seconds):
                raise
            refusal, refused_ms = error, max(1, math.ceil(error.retry_after_seconds * 1000))
            caller.sleep_for(refusal)
        else:
            grant.waited = slept_ms / 1000
            return grant


class _Place(NamedTuple):
    """What a caller wants of a bucket in whose line it waits; amounts in millitokens by limit."""

    limits: Mapping[str, Limit]
    amounts: Mapping[str, int]


class _Caller:
    """A caller in the line of its own bucket, and in that of the parent's while this is short for longer.

    ``_short``: the bucket that is short for longest, as far as it is known.
    """

    def __init__(self, namespace_state: NamespaceState, request: AcquireRequest) -> None:
        self._namespace_state = namespace_state
        self._entity_id = request.entity_id
        self._places: dict[CachedBucket, _Place] = {}
        self._short: CachedBucket
        self._patience = PATIENCE
        self.turn = Turn(next(_arrivals))

    @property
    def joined(self) -> bool:
        """Whether it has a place."""
        return bool(self._places)

    def join_others(self, claims: Sequence[Claim]) -> None:
        """Join the line of its own bucket, and all lines that there are, if others wait already."""
        if any(claim.cached.line and claim.checked for claim in claims):
            for claim in claims:
                if claim.checked and (claim.cached.line or claim is claims[0]):
                    self._join(claim.cached, claim.config.enforced, claim.checked)

    def is_blocked(self) -> bool:
        """Whether it is the turn of another one first, who wakes in a moment, or whose write is under way."""
        self._patience -= 1
        return self._patience > 0 and not all(cached.line.is_next(self.turn) for cached in self._places)

    def sleep_for(self, refusal: RateLimitExceeded) -> None:
        """Wait in the line of the bucket that is short for longest, and in that of the own one."""
        worst = refusal.primary_violation
        short = (self._entity_id, worst.entity_id)
        for cached in [cached for cached in self._places if cached.id.entity_id not in short]:
            del self._places[cached]
            cached.line.leave(self.turn)
        for entity_id in dict.fromkeys(short):
            mine = [each for each in refusal.statuses if each.entity_id == entity_id and not each.limit.shadow]
            if mine:
                amounts = {status.limit_name: status.requested * MILLI for status in mine}
                cached = cached_bucket(self._namespace_state, entity_id, worst.resource)
                self._join(cached, {status.limit_name: status.limit for status in mine}, amounts)
        self.turn.sleep()
        self._patience = PATIENCE

    def leave(self) -> None:
        """Leave the lines."""
        for cached in self._places:
            cached.line.leave(self.turn)
        self._places = {}

    def wait_ms(self) -> int:
        """The time until the buckets have the amounts of all up to this turn; 0 if it is not known."""
        longest, now = 0, self._namespace_state.now()
        for cached, place in self._places.items():
            states, needed = self._states(cached), cached.line.up_to(self.turn)
            waits = [_wait_ms(limit, states, needed.get(name, 0), now) for name, limit in place.limits.items()]
            if max(waits) > longest:
                longest, self._short = max(waits), cached
        return longest

    def pause_ms(self, wait_ms: int) -> int:
        """The wait, prolonged to a common moment of the crowd; at random for a caller that waits alone.

        A caller that waits only for others looks again when they do, or soon.
        """
        now = self._namespace_state.now()
        if not wait_ms:
            return max(A_BIT_MS, max(cached.line.due_ms(self.turn) for cached in self._places) - now)
        line, limits = self._short.line, self._places[self._short].limits.values()
        if len(line) == 1:
            return wait_ms + self._namespace_state.pick(1 + min(LONGEST_JITTER_MS, int(wait_ms * JITTER)))
        fill_ms = min(1000 * each.burst * each.refill_period // each.refill_amount for each in limits)
        return wait_ms + (line.phase_ms - now - wait_ms) % max(1, min(MOMENT_MS, fill_ms // MOMENTS_TO_FILL))

    def too_late(self, refusal: RateLimitExceeded | None, wait_ms: int) -> RateLimitExceeded:
        """The refusal with the wait of the whole line, which the limits of the line's bucket have."""
        statuses = self._statuses() if refusal is None else refusal.statuses
        bucket = self._short.id.entity_id
        return RateLimitExceeded(
            [
                replace(status, exceeded=True, retry_after_seconds=max(wait_ms / 1000, status.retry_after_seconds))
                if status.entity_id == bucket and not status.limit.shadow
                else status
                for status in statuses
            ]
        )

    def _join(self, cached: CachedBucket, limits: Mapping[str, Limit], amounts: Mapping[str, int]) -> None:
        """Join the line of a bucket; a place in that line already is kept."""
        before = self._places.get(cached)
        if before is None:
            if not cached.line:
                cached.line.phase_ms = self._namespace_state.pick(MOMENT_MS)
            cached.line.join(self.turn, amounts)
        self._places[cached] = _Place(limits, amounts if before is None else before.amounts)
        self._short = cached

    def _states(self, cached: CachedBucket) -> list[BucketState]:
        now = self._namespace_state.now()
        return [state.repaired(now) for state in self._namespace_state.states(cached)]

    def _statuses(self) -> list[LimitStatus]:
        cached, now = self._short, self._namespace_state.now()
        place = self._places[cached]
        return [
            LimitStatus(
                entity_id=cached.id.entity_id,
                resource=cached.id.resource,
                limit_name=name,
                limit=place.limits[name],
                available=_balance(place.limits[name], self._states(cached), now) // MILLI,
                requested=amount // MILLI,
                exceeded=True,
                retry_after_seconds=0.0,
            )
            for name, amount in place.amounts.items()
        ]


def _wait_ms(limit: Limit, states: list[BucketState], needed: int, now_ms: int) -> int:
    """Milliseconds until the limit has so many millitokens, also above its ceiling; 0 if no state is known."""
    short = needed - _balance(limit, states, now_ms) if states else 0
    return max(0, -(-short * limit.refill_period // limit.refill_amount))


def _balance(limit: Limit, states: list[BucketState], now_ms: int) -> int:
    return calculate_balance([state.part(limit, now_ms) for state in states], now_ms)
