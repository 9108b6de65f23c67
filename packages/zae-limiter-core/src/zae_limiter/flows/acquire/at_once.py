"""Admit without a request, a flow or a task: by tokens that this process has prefetched, or by the bucket itself if its
table is in the memory of this process.

The way of every other acquire is ``acquire``. All have the same outcome.
"""

from collections.abc import Callable, Collection, Sequence

from ...exceptions import ValidationError
from ...operations.errors import StoreError
from ...operations.values import NOTHING
from ...schema.items import BucketState
from ...values.limit_status import LimitStatus
from ...values.refusal import LaterStatuses, RateLimitExceeded
from ...values.resolution import Resolved
from .. import acquire as acquiring
from ..bucket.fast_path import take_at_once, take_from_all
from ..bucket.serving import cached_shard, let_prefetch, load
from ..bucket.view import View
from ..bucket.write_plans import plan_new
from ..bucket_queue import BucketRequest, Outcome, Waiter, renewal
from ..prefetch import Prefetch
from ..process.namespace_state import ANY_LEVEL, CachedShard, NamespaceState
from ..steps import play
from ..tally import ONE, Tally
from .claims import Claim, Grant
from .counting import count_at_once
from .fallbacks import ends_with_refusal
from .path import Known, join, parents_to_ask, walk
from .requests import AcquireRequest

Part = tuple[CachedShard, Resolved, BucketState | None]
"""A bucket that an acquire draws on, with its limits, and its shard 0 as it was behind the acquire."""


class GrantAtOnce(Grant):
    """The tokens of an acquire that made no request. Few leases need the claims, so they are made on demand."""

    def __init__(self, request: AcquireRequest, parts: Sequence[Part], at_ms: int) -> None:
        self.request = request
        self.consumed = request.amounts
        self.rollback = request.rollback
        self.parts = parts
        self.at_ms = at_ms
        self._lock = None  # of its own, which is found sooner than the class's

    def close(self) -> bool:
        self.open = False
        return self._lock is not None and super().close()  # without a lock, it was not changed

    @property
    def claims(self) -> Sequence[Claim]:
        """The claims, as if each had been served by a write."""
        with self.lock:
            if not self._claims:
                states = {home: state for home, _, state in self.parts}
                self._claims = _claims(self.request, self.parts, self.at_ms)
                for claim in self._claims:
                    claim.new_request().outcome = Outcome("admitted", states[claim.home], self.at_ms)
            return self._claims


class StatusesAtOnce(LaterStatuses):
    """The statuses of a refusal that made no request, by one bucket as it was then."""

    def __init__(self, request: AcquireRequest, part: Part, at_ms: int, short_of: Sequence[str]) -> None:
        self.request = request
        self.part = part
        self.short_of = short_of
        self.at_ms = at_ms

    @property
    def buckets(self) -> Collection[tuple[str, str]]:  # type: ignore[override]
        """The bucket."""
        return (self.request.asker,)

    def _make(self) -> Sequence[LimitStatus]:
        _, _, state = self.part
        claims = _claims(self.request, (self.part,), self.at_ms)
        for claim in claims:
            claim.decided_by_view = View(() if state is None else (state,), claim.config, self.at_ms)
        return acquiring.statuses.refusal_statuses(claims, self.at_ms)


def _claims(request: AcquireRequest, parts: Sequence[Part], at_ms: int) -> list[Claim]:
    known = {(home.id.entity_id, home.id.resource): (home, resolved, False) for home, resolved, _ in parts}
    claims, _ = walk(request, lambda *place: known[place], lambda: at_ms)
    return join(request, claims)


def grant_at_once(
    namespace_state: NamespaceState, request: AcquireRequest, post: Callable[[Waiter], object]
) -> Grant | None:
    """Return the grant of an acquire that needs no request; ``None`` if it has to go the ordinary way.

    ``post`` puts a request into its queue, which takes the next reservation in good time. Raises
    ``RateLimitExceeded``.
    """
    home = namespace_state.cached_shards.get((request.entity_id, request.resource, 0))
    if request.limits or request.shadow:
        return None
    if home is None or (resolved := home.resolved) is None:
        return _grant_of_new(namespace_state, request)
    prefetch, table = home.prefetch, namespace_state.own_table
    if table is None and (prefetch is None or not prefetch.is_used):
        return None
    now_ms = namespace_state.now()
    policy = request.on_refused or resolved.on_refused
    may_overflow_early = policy is not None and policy.at is not None
    if home.is_waited_for or may_overflow_early or not namespace_state.is_current(resolved, now_ms):
        return None
    if request.draws or request.money or (resolved.parent_ids and parents_to_ask(request, request.entity_id, resolved)):
        return _grant_of_path(namespace_state, request, now_ms, post)
    if prefetch is not None and _is_by(prefetch, resolved) and prefetch.move(request.amounts, now_ms):
        if prefetch.due:
            _renew(namespace_state, home, prefetch, resolved, post)
        namespace_state.configs.hits += 1
        return GrantAtOnce(request, ((home, resolved, home.state),), now_ms)
    if table is None or request.learns:
        return None
    found = take_at_once(namespace_state, table, home, resolved, request.amounts, now_ms)
    if found is None:
        return None
    state, short_of = found
    if short_of:
        statuses = StatusesAtOnce(request, (home, resolved, state), now_ms, short_of)
        if not (ends_with_refusal(namespace_state, request) and count_at_once(namespace_state, home, statuses, now_ms)):
            return None
        namespace_state.configs.hits += 1
        raise RateLimitExceeded(statuses, request.entity_id, request.resource)
    namespace_state.configs.hits += 1
    return GrantAtOnce(request, ((home, resolved, state),), now_ms)


def _grant_of_new(namespace_state: NamespaceState, request: AcquireRequest) -> Grant | None:
    """Return the grant of the first acquire of an entity on a resource from the own table: its limits are read, and its
    bucket is created, by the steps of every other way, but without queues: no answer has to be waited for.
    """
    table, amounts = namespace_state.own_table, request.amounts
    if table is None or not namespace_state.is_identified or not request.is_plain:
        return None
    home = cached_shard(namespace_state, request.entity_id, request.resource)
    if home.known or home.busy:
        return None
    play(load(namespace_state, home, ()), table.execute)
    resolved, now_ms = home.resolved, namespace_state.now()
    if home.state is not None or resolved is None or not resolved.is_of_tokens_alone:
        return None
    config = resolved.config
    if not amounts.keys() <= config.by_name.keys() or not all(amounts.values()):
        return None
    put, batch, plan = plan_new(namespace_state, home, BucketRequest(home, amounts, config, ONE), now_ms)
    if not batch.carried:
        return None
    try:
        table.execute(put)
    except StoreError:  # another thread was faster
        return None
    state = plan.made(put)
    if home.state is None:  # else another thread has seen more
        home.learn(put.item, now_ms, own_writes=1, made=state)
    home.passed = ANY_LEVEL
    namespace_state.configs.misses += 1
    return GrantAtOnce(request, ((home, resolved, state),), now_ms)


def _grant_of_path(
    namespace_state: NamespaceState, request: AcquireRequest, now_ms: int, post: Callable[[Waiter], object]
) -> Grant | None:
    """Return the grant of an acquire that draws on several buckets, or asks for money: all are held, or all
    are in the own table.
    """
    if any(draw.limits for draw in request.draws):
        return None

    def look(entity_id: str, resource: str) -> Known | None:
        home = namespace_state.cached_shards.get((entity_id, resource, 0))
        if home is None or home.is_waited_for or (resolved := home.resolved) is None:
            return None
        if not namespace_state.is_current(resolved, now_ms):
            return None
        return home, resolved, False

    claims, gap = walk(request, look, lambda: now_ms)
    if gap is not None:
        return None
    try:
        claims = join(request, claims)
    except ValidationError:  # the way of every other acquire finds out whether that still holds
        return None
    states = _prefetched(namespace_state, claims, now_ms, post) or _taken(namespace_state, claims, now_ms)
    if states is None:
        return None
    namespace_state.configs.hits += 1
    if request.draws:
        for claim, state in zip(claims, states, strict=True):
            claim.new_request().outcome = Outcome("admitted", state, now_ms)
        return Grant(request, claims)
    parts = [(claim.home, claim.resolved, state) for claim, state in zip(claims, states, strict=True)]
    return GrantAtOnce(request, parts, now_ms)


def _taken(
    namespace_state: NamespaceState, claims: Sequence[Claim], now_ms: int
) -> Sequence[BucketState | None] | None:
    """Take the amounts of all claims from the own table, if there is one, or nothing; return the states afterwards."""
    table = namespace_state.own_table
    if table is None or claims[0].call.learns:
        return None
    asked = [
        (claim.home, claim.resolved, claim.amounts, claim.place > 0, claim.unlimited)
        for claim in claims
        if claim.amounts or claim.unlimited
    ]
    if len(asked) == len(claims):
        return take_from_all(namespace_state, table, asked, now_ms)
    # a bucket that neither limits nor counts anything of the call is left alone, and counts no acquire
    if not all(claim.amounts or claim.unlimited or claim.resolved.is_plain for claim in claims):
        return None
    taken = take_from_all(namespace_state, table, asked, now_ms)
    if taken is None:
        return None
    states = iter(taken)
    return [next(states) if claim.amounts or claim.unlimited else claim.home.state for claim in claims]


def _prefetched(
    namespace_state: NamespaceState, claims: Sequence[Claim], now_ms: int, post: Callable[[Waiter], object]
) -> Sequence[BucketState | None] | None:
    """Take the amounts of all claims from their holds, or nothing; return the last seen states."""
    states = [claim.home.state for claim in claims]
    for claim in claims:
        prefetch = claim.home.prefetch
        if prefetch is None or not _is_by(prefetch, claim.resolved):
            return None
    if not _move_all(claims, now_ms, post):
        return None
    for claim in claims:
        if (prefetch := claim.home.prefetch) is not None and prefetch.due:
            _renew(namespace_state, claim.home, prefetch, claim.resolved, post)
    return states


def _is_by(prefetch: Prefetch, resolved: Resolved) -> bool:
    """Return whether a bucket is held by these limits."""
    limits = resolved.config.limits
    return limits is prefetch.terms.limits or limits == prefetch.terms.limits


def _move_all(claims: Sequence[Claim], now_ms: int, post: Callable[[Waiter], object]) -> bool:
    """Take the amounts of all claims from their holds, or nothing."""
    for rank, claim in enumerate(claims):
        prefetch = claim.home.prefetch
        below, counted = 1 if claim.place else 0, claim.unlimited or NOTHING
        if prefetch is not None and prefetch.move(claim.amounts, now_ms, below=below, counted=counted):
            continue
        for before in claims[:rank]:
            _put_back(before, now_ms, post)
        return False
    return True


def _put_back(claim: Claim, now_ms: int, post: Callable[[Waiter], object]) -> None:
    """Give what a claim has just taken back to its hold, and to the table, if its reservation has ended since."""
    home, prefetch, below = claim.home, claim.home.prefetch, -claim.counts.below
    back = {name: -amount for name, amount in claim.amounts.items()}
    counted = {name: -amount for name, amount in (claim.unlimited or NOTHING).items()}
    if prefetch is not None and prefetch.move(back, now_ms, events=-1, below=below, counted=counted):
        return
    given = {name: amount for name, amount in claim.amounts.items() if amount}
    if given or counted:
        shards = 0 if home.state is None else home.state.shard_count
        post(BucketRequest(home, given=given, counts=Tally(counted, -1, below), shards=shards))


def _renew(
    namespace_state: NamespaceState,
    home: CachedShard,
    prefetch: Prefetch,
    resolved: Resolved,
    post: Callable[[Waiter], object],
) -> None:
    """Take the next reservation before this one runs out, from any shard."""
    prefetch.renews(prefetch.now())
    shard = acquiring.taking.choose_shard(namespace_state, home)
    let_prefetch(namespace_state, home, shard)
    post(renewal(shard, resolved.config, "renew"))
