"""An acquire that waits for its tokens.

Asking again and again until the tokens are there costs a request for each try, and serves the caller that asks at the
right moment. Here a caller sleeps until the tokens of all callers before it in the line and its own are due, by the
last seen states, and then acquires. If that is later than it may wait, it is refused at once. Sleeping costs no
request.

Callers of a crowd that are due within the same moment acquire together: one write serves them all. The price is that a
caller may get its tokens up to ``MOMENT_MS`` late; less if the bucket would fill up meanwhile, because a full bucket
mints nothing. Each process has its moments at others of each, at random, or the tokens that come between two processes
would always be those of the same one; a caller that waits alone adds a jitter.

What other processes take is not foreseen. A caller that comes too late by it waits again, in its place; alone each time
longer, up to ``MOMENT_MS`` and to the end of its time: an attempt has its price. It may be refused after it has waited.
docs/design/admission.md ("Waiting lines"), docs/limiter.md ("Waiting"). This module has the pauses of a caller;
``acquire`` asks and writes, ``waiting_line`` keeps the order, ``taking`` takes.
"""

import math
from collections.abc import Sequence
from itertools import count

from ...operations.errors import BudgetSpent
from ...rules.registry import minting_ms, price
from ...rules.rule import FOREVER_MS
from ...schema.items import BucketId
from ...values.refusal import RateLimitExceeded
from ..bucket.view import View
from ..process.fair_order import OWN
from ..process.namespace_state import CachedShard, NamespaceState
from ..process.waiting_line import LOOKS_AGAIN_MS, SEEDS, Turn
from ..steps import Flow, Wait
from .acquire import acquire
from .claims import Claim, Grant
from .disabling import is_disabled
from .outage import or_by_policy
from .path import known_claims
from .requests import AcquireRequest
from .statuses import refusal_of
from .taking import ANY_PARTS, until_decided

MOMENT_MS = 100
MOMENTS_TO_FILL = 2  # a bucket must not fill up while its crowd waits for the next moment
A_BIT_MS = 2  # behind another one, times the distance, so that a long line does not look all the time
JITTER = 0.1  # of the wait of a caller that waits alone
LONGEST_JITTER_MS = 50
SETTLES_MS = (
    1000  # behind its time, a caller settles for half as much of each shard, and for a third behind two of them
)

_arrivals = count(1)


class Caller:
    """A caller that may wait: in the line of its own bucket, and also in those above while no bucket before them holds
    it up longer.

    ``_short``: the bucket that is short for longest, as far as it is known. ``_claims``: by the limits known last.
    """

    def __init__(self, namespace_state: NamespaceState, request: AcquireRequest) -> None:
        self._namespace_state = namespace_state
        self._request = request
        self._claims: Sequence[Claim] = ()
        self._lines: list[CachedShard] = []
        self._short: Claim | None = None
        self._due_ms: int | None = None
        self._begun_ms = namespace_state.now()
        self._asked_again = False
        self._slept_ms = 0.0
        self._turn = Turn(next(_arrivals), self._begun_ms)

    @property
    def waited(self) -> float:
        """The seconds that it slept."""
        return self._slept_ms / 1000

    def acquire(self) -> Flow[Grant]:
        """Return the grant of ``acquire``, within the request's ``max_wait`` seconds.

        Raises the errors of ``acquire``; raises ``RateLimitExceeded`` as soon as it is clear that the tokens come too
        late.
        """
        try:
            return (yield from self._acquire())
        finally:
            self._leave()

    def _acquire(self) -> Flow[Grant]:
        refused_ms, refusals, refusal, slept_ms = 0, 0, None, -1.0
        self._join_others()
        while True:
            yield from self._wait(refusal, refused_ms)
            self._turn.wake(self._namespace_state.now())
            try:
                grant = yield from or_by_policy(self._namespace_state, self._request, self._attempt())
            except RateLimitExceeded as error:
                if math.isinf(error.retry_after_seconds):
                    raise
                refusal, refusals = error, refusals + 1
                # alone it asks less often, the more it was refused. A crowd asks once in a moment anyhow, and would
                # lose to other processes the more, the more it has lost
                backs_off_ms = 1 if self._short is not None and len(self._short.home.line) > 1 else MOMENT_MS
                again_ms = max(1, int(min(1 << min(refusals, 7), backs_off_ms, self._left_ms())))
                refused_ms = max(math.ceil(_ms(error.retry_after_seconds)), again_ms)
                if self._turn.is_blocked:  # it was not asked whether its own tokens are there
                    # in a forgotten line it may see no blocker: then it pauses all the same
                    refused_ms = 0 if self._slept_ms > slept_ms else again_ms
                slept_ms = self._slept_ms
                self._stay(refusal)
            else:
                grant.waited = self.waited
                return grant

    def _attempt(self) -> Flow[Grant]:
        """Acquire. If the time of the attempt is over, but it was refused before, or the store answered meanwhile, so
        that others were before it, that is a refusal, and no outage.
        """
        try:
            return (yield from acquire(self._namespace_state, self._request, self._turn))
        except BudgetSpent as over:
            self._claims = known_claims(self._namespace_state, self._request) or self._claims
            shards = (shard for claim in self._claims for shard in self._namespace_state.shards(claim.home))
            if self._turn.is_refused or any(shard.seen_at_ms > self._turn.due_ms for shard in shards):
                raise self._too_late(None, A_BIT_MS) from over
            raise

    def _wait(self, refusal: RateLimitExceeded | None, refused_ms: int) -> Flow[None]:
        """Sleep until the tokens are due and no caller is to be served first, at least until ``refused_ms``.

        Raises ``RateLimitExceeded`` if that is too late.
        """
        while True:
            wait_ms, left_ms = self._wait_at_least(refused_ms, refusal), self._left_ms()
            ripens_ms = self._ripens_ms(wait_ms, left_ms)
            blocked_ms = 0 if wait_ms or ripens_ms else self._blocked_ms()
            if not (wait_ms or ripens_ms or blocked_ms):
                return
            is_over = left_ms <= 0  # at its end, one whom others are before does not overtake them
            if is_over or wait_ms > left_ms or wait_ms >= FOREVER_MS:
                late = self._too_late(refusal, max(wait_ms, A_BIT_MS))
                if is_over or not (yield from self._asks_again(late)):
                    raise late
                continue
            look_ms = max((cached.line.look_ms for cached in self._lines), default=LOOKS_AGAIN_MS)
            pause_ms = min(self._pause_ms(max(wait_ms, ripens_ms), blocked_ms), left_ms, look_ms)
            asleep_ms, sleeper = self._namespace_state.now(), self._turn if self._waits_for_slots else None
            self._turn.due_ms = asleep_ms + math.ceil(pause_ms)
            try:
                yield Wait(pause_ms / 1000, sleeper)
            except BudgetSpent:  # of the attempt before, which was refused at its very end
                raise self._too_late(refusal, max(wait_ms, A_BIT_MS)) from None
            if sleeper is not None:  # it may have been woken
                pause_ms = min(pause_ms, max(0, self._namespace_state.now() - asleep_ms))
            self._slept_ms, refused_ms = self._slept_ms + pause_ms, 0

    @property
    def _waits_for_slots(self) -> bool:
        """Whether it is short of slots, which come back at any time."""
        limits = {} if self._short is None else self._short.config.by_name
        return self._short is not None and any(limits[name]._has_slots for name in self._short.checked)

    def _left_ms(self) -> float:
        """Return the rest of the time that it may wait."""
        return _ms(self._request.max_wait) - max(self._slept_ms, self._namespace_state.now() - self._begun_ms)

    def _join_others(self) -> None:
        """Join the line of its own bucket if others wait there, and every other line that exists."""
        claims = known_claims(self._namespace_state, self._request) or []
        if any(claim.home.line and claim.checked for claim in claims) and not any(map(self._is_hopeless, claims)):
            self._join(claims, [claim.home for claim in claims if claim.home.line or claim is claims[0]])

    def _wait_at_least(self, refused_ms: int, refusal: RateLimitExceeded | None) -> int:
        """Return the time until the tokens are due: of one that a share refused, by that share alone."""
        due_ms = self._due_in_ms()
        return refused_ms if refusal is not None and refusal.by_share else max(due_ms, refused_ms)

    def _due_in_ms(self) -> int:
        """Return the time until the buckets have the amounts of all callers up to this one; 0 if it is not known.

        Also 0 for a caller that can never have its tokens, and for the first in line if the limits are to be read
        again.
        """
        now, self._turn.behind = self._namespace_state.now(), ()
        claims = known_claims(self._namespace_state, self._request) if self._lines else None
        is_to_read = claims is None or any(claim.stale for claim in claims)
        if is_to_read and self._is_first(now):
            return 0
        self._claims = claims or self._claims
        if any(map(self._is_hopeless, self._claims)):
            self._leave()
            return 0
        longest, held = 0, list[Claim]()
        for claim in self._claims:
            if claim.checked and (claim.home in self._lines or (self._lines and claim.home.line)):
                if claim.home in self._lines:
                    self._take_place(claim)  # again, if the others took it for gone
                wait_ms = self._wait_ms(claim, now)
                if wait_ms >= longest:  # who waits longer for a bucket below does not delay others above
                    longest, held = wait_ms, [*held, claim]
                    self._short = claim if wait_ms else self._short
        self._hold(held)
        return longest

    def _ripens_ms(self, wait_ms: int, left_ms: float) -> int:
        """Return the time until ready shards have the amounts of all callers up to this one; 0 if there is no need to
        wait.

        The longer a caller is overdue, the smaller the parts that it accepts; at the end of its time, any.
        """
        now = self._namespace_state.now()
        self._due_ms = now if wait_ms or self._due_ms is None else self._due_ms
        self._turn.parts = 1 + max(0, now - self._due_ms) // SETTLES_MS  # the clock may have been put back
        split = [claim for claim in self._claims if claim.is_split and claim.home in self._lines]
        longest = max((self._wait_ms(claim, now, self._turn.parts) for claim in split), default=0)
        if longest < left_ms or not all(claim.home.line.is_first(self._turn, now) for claim in split):
            return longest
        self._turn.parts = ANY_PARTS
        return 0

    def _blocked_ms(self) -> int:
        """Return the time until another look at the callers that come first and sleep, or are about to sleep because
        they were refused; 0 without one.
        """
        now = self._namespace_state.now()
        found = [cached.line.blocker(self._turn, now) for cached in self._lines]
        blockers = [blocker for blocker in found if blocker is not None]
        self._turn.behind = [blocker.turn for blocker in blockers]
        return max((max(each.due_ms - now, A_BIT_MS * each.distance) for each in blockers), default=0)

    def _stay(self, refusal: RateLimitExceeded) -> None:
        """Wait in the line of the bucket that is short for longest, and in the line of the caller's own bucket."""
        claims = known_claims(self._namespace_state, self._request) or self._claims
        worst = refusal.primary_violation
        short = BucketId(self._namespace_state.namespace_id, worst.entity_id, worst.resource)
        self._join(claims, [each.home for each in claims if each is claims[0] or each.home.id == short])
        self._turn.sleep()
        self._due_ms = None

    def _asks_again(self, late: RateLimitExceeded) -> Flow[bool]:
        """Return whether tokens came back meanwhile that the last seen states lacked; once."""
        if self._asked_again:
            return False
        self._asked_again = yield from until_decided(self._namespace_state, self._claims, late)
        return self._asked_again

    def _leave(self) -> None:
        """Leave the lines."""
        for cached in self._lines:
            cached.line.leave(self._turn)
        self._lines = []

    def _pause_ms(self, wait_ms: int, blocked_ms: int) -> int:
        """Return the wait, prolonged to a common moment of the crowd; at random for a caller that waits alone.

        A caller that waits only for others looks again when they do, or soon.
        """
        now = self._namespace_state.now()
        if not wait_ms:
            return blocked_ms
        if self._short is None:  # this process no longer knows the bucket
            return wait_ms
        line, limits = self._short.home.line, self._short.config.enforced.values()
        if len(line) == 1:
            return wait_ms + self._namespace_state.pick(1 + min(LONGEST_JITTER_MS, int(wait_ms * JITTER)))
        fill_ms = min((minting_ms(each, each._ceiling_milli) for each in limits), default=0)
        return line.moment(now + wait_ms, max(1, min(MOMENT_MS, fill_ms // MOMENTS_TO_FILL))) - now

    def _too_late(self, refusal: RateLimitExceeded | None, wait_ms: int) -> RateLimitExceeded:
        """Return the refusal of a waiting caller, by the last seen states and the amounts of all callers before it."""
        if refusal is not None and (refusal.by_share or not any(claim.checked for claim in self._claims)):
            return refusal  # the store is away, this process no longer knows the buckets, or no limit refuses by now
        now = self._namespace_state.now()
        for claim in self._claims:
            view = View.of(self._namespace_state.states(claim.home), claim.config, now)
            earlier = self._earlier(claim, now)
            claim.decided_by_view = view._replace(
                before={name: view.available(name) - n for name, n in earlier.items() if n}
            )
        return refusal_of(self._request, self._claims, now, math.inf if wait_ms >= FOREVER_MS else wait_ms / 1000)

    def _wait_ms(self, claim: Claim, now_ms: int, parts: float | None = None) -> int:
        """Return the milliseconds until the bucket has the amounts of all callers up to this one, or until its shards
        that are ready for so many ``parts`` have them; 0 if no state of it is known.
        """
        cached, config = claim.home, claim.config
        view = View.of(self._namespace_state.states(cached), config, now_ms)._replace(guesses=False)
        before, longest = cached.line.up_to(self._turn, now_ms), 0
        ripe = [] if parts is None else view.ripe(claim.checked, parts).values()
        for name, amount in claim.checked.items() if view.states else ():
            needed = before.get(name, 0) + (0 if cached in self._lines else amount)
            there = view.available(name) if parts is None else sum(each[name] for each in ripe)
            if needed <= there:
                continue
            if view.is_full(name):
                # time brings nothing more. If its own amount is there, it waits for those before it, who may wait for
                # it in another line; if not, for a write that brings its limits to all shards
                wait_ms = 0 if amount <= there else LOOKS_AGAIN_MS
            else:
                wait_ms = view.brings_ms(name, needed - there, cached.seen_at_ms)
            longest = max(longest, wait_ms)
        until_ms = config.until_ms(now_ms) if longest else None
        if until_ms is not None:  # other values hold from then on, so it looks again
            longest = min(longest, max(A_BIT_MS, until_ms - now_ms))
        return longest

    def _earlier(self, claim: Claim, now_ms: int) -> dict[str, int]:
        """Return the amounts of all callers before this one in the line of a bucket, by limit that it needs."""
        line = claim.home.line
        if not line or not claim.checked:
            return {}
        self._take_place(claim)  # as it would have, unless it has one
        up_to = line.up_to(self._turn, now_ms)
        if claim.home not in self._lines:
            line.leave(self._turn)
        return {name: max(0, up_to.get(name, 0) - amount) for name, amount in claim.checked.items()}

    def _join(self, claims: Sequence[Claim], lines: Sequence[CachedShard]) -> None:
        """Use these claims, and wait in those of these lines whose tokens they need."""
        wanted = [claim for claim in claims if claim.home in lines and claim.checked]
        self._claims, self._short = claims, next((claim for claim in (*reversed(wanted), *claims)), None)
        self._hold(wanted)

    def _hold(self, wanted: Sequence[Claim]) -> None:
        """Take a place in the line of each of these claims, and leave every other line."""
        kept = [claim.home for claim in wanted]
        for cached in self._lines:
            if cached not in kept:
                cached.line.leave(self._turn)
        for claim in wanted:
            if not claim.home.line:
                claim.home.line.seed = self._namespace_state.pick(SEEDS)
            self._take_place(claim)
        self._lines = kept

    def _take_place(self, claim: Claim) -> None:
        """Wait in the line of a claim's bucket, behind those of the same child; keep a place that exists already."""
        line = claim.home.line
        if self._turn not in line:
            prices = {name: price(claim.config.by_name[name]) for name in claim.checked}
            line.join(self._turn, claim.checked, (*claim.way, OWN), prices)

    def _is_first(self, now_ms: int) -> bool:
        """Return whether it is the first of a line above its own bucket, if it waits in one."""
        lines = self._lines[1:] or self._lines
        return not lines or any(cached.line.is_first(self._turn, now_ms) for cached in lines)

    def _is_hopeless(self, claim: Claim) -> bool:
        """Return whether the limits can never hold the amounts, or a switch refuses everybody, as known last."""
        if is_disabled(self._request, claim.home.resolved or claim.resolved):
            return True
        return any(amount > claim.config.most_milli(name) for name, amount in claim.checked.items())


def _ms(seconds: float) -> float:
    """Return milliseconds without the error of a float: 1.001 s are not 1000.9999999999999 ms."""
    return round(seconds * 1000, 6)
