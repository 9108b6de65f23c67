"""An acquire that waits for its tokens.

Lives here: the pauses of a caller. Never: what an acquire asks and writes (acquire), who is before whom (waiting_line).

A caller sleeps until the tokens of all before it in the line and its own are due, by the last seen states. Then it
acquires. No caller wakes another one, so one that is cancelled leaves nothing behind. Callers of a crowd that are due
within the same moment acquire together: one write serves them all.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from ...exceptions import RateLimitExceeded
from ...limits import MILLI, Limit, LimitStatus
from ...schema.items import BucketState
from ...sharding import calculate_balance
from ..bucket.serving import cached_bucket
from ..process.namespace_state import CachedBucket, NamespaceState
from ..steps import Flow, Wait
from .acquire import acquire, known_claims
from .claims import AcquireRequest, Grant
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
    turn = _Turn(namespace_state)
    try:
        return (yield from _acquire_in_turn(namespace_state, request, turn))
    finally:
        turn.leave()


def _acquire_in_turn(namespace_state: NamespaceState, request: AcquireRequest, turn: "_Turn") -> Flow[Grant]:
    begun, slept_ms, refused_ms = namespace_state.now(), 0.0, 0
    refusal: RateLimitExceeded | None = None
    for claim in known_claims(namespace_state, request) or ():
        if claim.cached.line and claim.checked and not turn.joined:
            turn.join(claim.cached, claim.config.enforced, claim.checked)
    while True:
        while (wait_ms := max(turn.wait_ms(), refused_ms)) or turn.is_blocked():
            left_ms = request.max_wait * 1000 - max(slept_ms, namespace_state.now() - begun)
            if wait_ms > left_ms or left_ms <= 0:  # at its end, one whom others are before does not overtake them
                raise turn.too_late(refusal, max(wait_ms, A_BIT_MS))
            pause_ms = min(turn.pause_ms(wait_ms), left_ms, LONGEST_PAUSE_MS)
            yield Wait(pause_ms / 1000)
            slept_ms, refused_ms = slept_ms + pause_ms, 0
        turn.wake()
        try:
            grant = yield from acquire(namespace_state, replace(request, turn=turn.number if turn.joined else 0))
        except RateLimitExceeded as error:
            if math.isinf(error.retry_after_seconds):
                raise
            refusal, refused_ms = error, max(1, math.ceil(error.retry_after_seconds * 1000))
            turn.sleep_for(refusal)
        else:
            grant.waited = slept_ms / 1000
            return grant


class _Turn:
    """The place of a caller in the line of a bucket, if it has one; amounts in millitokens by limit."""

    def __init__(self, namespace_state: NamespaceState) -> None:
        self._namespace_state = namespace_state
        self._cached: CachedBucket | None = None
        self._limits: Mapping[str, Limit] = {}
        self._amounts: Mapping[str, int] = {}
        self.number = next(_arrivals)
        self._patience = PATIENCE

    @property
    def joined(self) -> bool:
        """Whether it has a place."""
        return self._cached is not None

    def join(self, cached: CachedBucket, limits: Mapping[str, Limit], amounts: Mapping[str, int]) -> None:
        """Join the line of a bucket; a place in that line already is kept."""
        self._limits = limits
        if self._cached is not cached:
            self.leave()
            if not cached.line:
                cached.line.phase_ms = self._namespace_state.pick(MOMENT_MS)
            cached.line.join(self.number, amounts)
            self._cached, self._amounts = cached, amounts

    def is_blocked(self) -> bool:
        """Whether it is the turn of another one first, who wakes in a moment, or whose write is under way."""
        self._patience -= 1
        return self._cached is not None and self._patience > 0 and not self._cached.line.is_next(self.number)

    def wake(self) -> None:
        """Have the turn."""
        if self._cached is not None:
            self._cached.line.wake(self.number)

    def sleep_for(self, refusal: RateLimitExceeded) -> None:
        """Wait in the line of the bucket that is short for longest."""
        worst = refusal.primary_violation
        cached = cached_bucket(self._namespace_state, worst.entity_id, worst.resource)
        mine = [
            status for status in refusal.statuses if status.entity_id == worst.entity_id and not status.limit.shadow
        ]
        limits = {status.limit_name: status.limit for status in mine}
        self.join(cached, limits, {status.limit_name: status.requested * MILLI for status in mine})
        cached.line.sleep(self.number)
        self._patience = PATIENCE

    def leave(self) -> None:
        """Leave the line."""
        if self._cached is not None:
            self._cached.line.leave(self.number)
            self._cached = None

    def wait_ms(self) -> int:
        """The time until the bucket has the amounts of all up to this turn; 0 if it is not known."""
        if self._cached is None:
            return 0
        states, now = self._states(), self._namespace_state.now()
        needed = self._cached.line.up_to(self.number)
        return max(
            (_wait_ms(limit, states, needed.get(name, 0), now) for name, limit in self._limits.items()), default=0
        )

    def pause_ms(self, wait_ms: int) -> int:
        """The wait, prolonged to a common moment of the crowd; at random for a caller that waits alone.

        A caller that waits only for others looks again soon.
        """
        if not wait_ms:
            return A_BIT_MS
        assert self._cached is not None, "only a caller in a line waits"
        line, now = self._cached.line, self._namespace_state.now()
        if len(line) == 1:
            return wait_ms + self._namespace_state.pick(1 + min(LONGEST_JITTER_MS, int(wait_ms * JITTER)))
        fill_ms = min(1000 * each.burst * each.refill_period // each.refill_amount for each in self._limits.values())
        return wait_ms + (line.phase_ms - now - wait_ms) % max(1, min(MOMENT_MS, fill_ms // MOMENTS_TO_FILL))

    def too_late(self, refusal: RateLimitExceeded | None, wait_ms: int) -> RateLimitExceeded:
        """The refusal with the wait of the whole line, which the limits of the line's bucket have."""
        statuses = self._statuses() if refusal is None else refusal.statuses
        bucket = None if self._cached is None else self._cached.id.entity_id
        return RateLimitExceeded(
            [
                replace(status, exceeded=True, retry_after_seconds=max(wait_ms / 1000, status.retry_after_seconds))
                if status.entity_id == bucket and not status.limit.shadow
                else status
                for status in statuses
            ]
        )

    def _states(self) -> list[BucketState]:
        if self._cached is None:
            return []
        now = self._namespace_state.now()
        return [state.repaired(now) for state in self._namespace_state.states(self._cached)]

    def _statuses(self) -> list[LimitStatus]:
        assert self._cached is not None, "only a caller in a line waits"
        states, now, of = self._states(), self._namespace_state.now(), self._cached.id
        return [
            LimitStatus(
                entity_id=of.entity_id,
                resource=of.resource,
                limit_name=name,
                limit=self._limits[name],
                available=_balance(self._limits[name], states, now) // MILLI,
                requested=amount // MILLI,
                exceeded=True,
                retry_after_seconds=0.0,
            )
            for name, amount in self._amounts.items()
        ]


def _wait_ms(limit: Limit, states: list[BucketState], needed: int, now_ms: int) -> int:
    """Milliseconds until the limit has so many millitokens, also above its ceiling; 0 if no state is known."""
    short = needed - _balance(limit, states, now_ms) if states else 0
    return max(0, -(-short * limit.refill_period // limit.refill_amount))


def _balance(limit: Limit, states: list[BucketState], now_ms: int) -> int:
    return calculate_balance([state.part(limit, now_ms) for state in states], now_ms)
