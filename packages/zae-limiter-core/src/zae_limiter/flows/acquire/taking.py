"""How an acquire takes: from several buckets, from several shards of one, and whose turn in a waiting line has come.

*Several buckets*, any of which may refuse. Asked at the same time they cost one round trip. But what one of them gave
goes back when another one refuses, and a caller that asks for these tokens meanwhile is refused: a key that is over its
own limit and goes on calling would keep its siblings from an organisation that has enough for them. So a bucket that
was short lately is asked alone, and the others once it admits. The price is a round trip more for a call that it
admits; nothing is written that was not before. The first call on a short bucket does not know it. Until such a call is
decided, what it took of other buckets is *undecided* (``RunQueue.undecided``). A call of this process that is refused
beside such amounts, by an answer or by a copy, waits until they are decided, and asks again if some came back. What
other processes have under way is unknown here.

If none of the buckets exists, one transaction creates all, which other callers of the same path share: created one
after the other, they would cost a round trip each, and a refusal by the last one would have to be given back to all
before it. The price is two write units for each item. If one of them exists, the transaction does nothing, and each
bucket is asked as ever.

*In turn.* A caller from a line must neither overtake nor waste: of a crowd, many are refused, because other processes
have taken the tokens. If it took from its own bucket and the parent's at the same time, it would have to give back what
one of them gave, at every refusal of the other: three writes for nothing, and while they are under way no caller behind
it knows whether it is served. So it asks the topmost bucket first, for whose tokens most are waiting, and its own only
when it has those of all above. All callers have the same order (``_from_the_top``): of two that begin at different
ends, the later one is served first.

*Ready shards.* On a bucket of many shards each shard has few tokens at a time, a fraction of one perhaps. A caller that
takes every fraction as soon as the sum is enough writes to all shards for one token, collides with every other one, and
gives back. So for a caller from a line a shard counts only once it is *ready*: it has the whole amount, or most of what
it can ever hold. One that has been due for long settles for smaller parts (``Turn.parts``), and the first of a line for
any at the end of its time. Those of one process take different shards (``WaitingLine.asked``). One that may
wait does so before it is in the line, if others are, or ask several shards: many come at once while none is in it.

``waiting`` has the pauses of a caller, ``group_commit`` writes a shard, ``splitting`` splits it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ...operations.errors import BudgetSpent, StoreError, Throttled, TransactionCancelled
from ...operations.values import NOTHING, Item, Put, Transact
from ...rules.sharding import Amounts
from ...schema.attributes import SHARD_COUNT
from ...schema.items import BucketId, BucketState
from ...values.limits import MILLI
from ...values.refusal import RateLimitExceeded
from .. import bucket
from ..bucket.serving import cached_shard
from ..bucket.view import View
from ..bucket.write_plans import plan_new
from ..bucket_queue import BucketRequest, Outcome, RunQueue, Waiter
from ..process.namespace_state import CREATING_NOTHING, CachedShard, NamespaceState
from ..process.queueing import enqueue_and_wait
from ..process.waiting_line import Turn
from ..retry import with_retries
from ..steps import Enqueue, Flow, Parallel, Sleep, call
from .claims import Claim
from .copies import fresh_shard, states_to_divide

LATELY_MS: Final = 10_000
ASKS_AGAIN: Final = 3  # times at most: among many callers, another one that is refused elsewhere may come first
PAUSES: Final = tuple(min(0.15, 0.005 * 1.3**more) for more in range(32))  # about as long as a request may take
ELSEWHERE: Final = 2
ROUNDS: Final = 4
ANY_PARTS: Final = float("inf")


def choose_shard(
    namespace_state: NamespaceState, home: CachedShard, amounts: Mapping[str, int] = NOTHING
) -> CachedShard:
    """Return the shard that an acquire asks first, chosen at random; shard 0 if it needs slots, which are all there."""
    state = home.state
    if state is None or state.item[SHARD_COUNT] == 1 or not state.slots.isdisjoint(amounts):
        return home
    return shard_of(namespace_state, home, namespace_state.pick(state.shard_count))


def take_together(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Take from all claims, and read expired configs beside the writes: from those first, one by one, that were short
    lately. If one of these refuses, the others are only looked at, with two exceptions (``_look_at_others``).
    """
    if [claim for claim in claims if claim.home.state is None][1:]:
        taking = [claim for claim in claims if any(claim.asked.values())]
        if len(taking) > 1 and all(claim.home.state is None and not claim.stale for claim in taking):
            yield from _create_path(namespace_state, taking)
            return (yield from try_other_shards(namespace_state, claims))
    waiters, first, others = list[Waiter](), list[Claim](), list[Claim]()
    now, several = namespace_state.now(), len(claims) > 1
    for claim in claims:
        claim.among_others = several
        if claim.stale:
            waiters.append(Waiter(claim.home.loading))
        if claim.amounts or claim.unlimited:  # those that are `asked`
            (first if several and _was_short_lately(namespace_state, claim, now) else others).append(claim)
    for claim in first:  # nearest first: what the topmost gives, most are waiting for
        yield from enqueue_and_wait([claim.new_request(), *waiters])
        yield from try_other_shards(namespace_state, [claim])
        waiters = []
        if not claim.admitted:
            return (yield from _look_at_others(namespace_state, claims))
    for claim in others:
        waiters.append(claim.new_request())
    yield from enqueue_and_wait(waiters)
    return (yield from try_other_shards(namespace_state, claims))


def _was_short_lately(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> bool:
    """Return whether the shard that is asked first refused this process lately, or is short by a copy however old; the
    fresh ones have not refused.
    """
    target = claim.target
    if target.short_ms and 0 <= now_ms - target.short_ms < LATELY_MS:
        return True
    if target.state is None or target.is_fresh(now_ms, namespace_state.settings.staleness_ms):
        return False
    return not View((target.state,), claim.config, now_ms).fits(claim.checked)


def _look_at_others(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Let a refusal show the buckets that were not asked as they were at most as long ago as limits may be. Ask those
    that this process has not seen, because who is refused gets a bucket that counts it, and those of other limits.
    """
    others, now = [claim for claim in claims if claim.asked and not claim.last], namespace_state.now()
    try:
        for claim in others:
            if claim.home.known and not claim.target.is_fresh(now, namespace_state.settings.config_ttl_ms):
                yield from read_view(namespace_state, claim)
    except StoreError:  # the refusal itself is certain
        return show_unasked(namespace_state, claims)
    yield from enqueue_and_wait([claim.new_request() for claim in others if not claim.target.agrees_with(claim.config)])
    return show_unasked(namespace_state, claims)


def take_in_turn(namespace_state: NamespaceState, claims: Sequence[Claim], turn: Turn) -> Flow[None]:
    """Take from the buckets above, the topmost first, then from the caller's own, until one refuses.

    Read expired configs first: beside the write, a caller would ask its own bucket later than those behind it. A bucket
    that is not asked has no request, only the state that was seen last.
    """
    yield from enqueue_and_wait([Waiter(claim.home.loading) for claim in claims if claim.stale])
    for claim in _from_the_top(claims):
        claim.turn, claim.among_others = turn, len(claims) > 1
        if not claim.asked:
            continue
        if claim.is_behind_another(namespace_state.now()):
            claim.refuse(namespace_state.now(), blocked=True)
        else:
            yield from _take_ready(namespace_state, claim)
        if not claim.admitted:
            break
    show_unasked(namespace_state, claims)


def _take_ready(namespace_state: NamespaceState, claim: Claim) -> Flow[None]:
    """Take from one bucket in turn: from its ready shards, if it has several."""
    if not (claim.is_split and any(claim.checked.values())):
        yield from enqueue_and_wait([claim.new_request()])
        return (yield from try_other_shards(namespace_state, [claim]))
    yield from _take_from_shards(namespace_state, claim)
    if not claim.last:
        claim.refuse(namespace_state.now(), blocked=False)
    return None


def _from_the_top(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims by the levels above their buckets, the caller's own last. So any two buckets have the same
    order for all callers that draw on both.
    """
    levels = {claim.home.id.entity_id: 0 for claim in claims}
    above = {claim.home.id.entity_id: claim.resolved for claim in claims}
    for _ in claims:  # as often as there can be levels
        for entity_id, resolved in above.items():
            if resolved.cascade:
                levels[entity_id] = max((levels.get(each, 0) + 1 for each in resolved.parent_ids), default=0)
    own_last = not any(claim.draw for claim in claims)  # of draws, each bucket may be the own one of another caller

    def order(claim: Claim) -> tuple[bool, int, str, str]:
        of = claim.home.id
        return own_last and claim is claims[0], levels[of.entity_id], of.entity_id, of.resource

    return sorted(claims, key=order)


def try_other_shards(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Ask other shards for the claims whose first shard was short, then all shards together."""
    if not (short := _short(claims)):
        return
    tried = {id(claim): {claim.target.id.shard} for claim in claims}
    while short:
        again = [claim for claim in short if _go_elsewhere(namespace_state, claim, tried[id(claim)])]
        if not again:
            break
        yield from enqueue_and_wait([claim.new_request() for claim in again])
        short = _short(claims)
    for claim in short:
        yield from _take_from_shards(namespace_state, claim)


def _short(claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that other shards may help. Return none if one claim cannot be helped."""
    short = [claim for claim in claims if not claim.admitted]
    return short if all(claim.refused and claim.is_split for claim in short) else []


def _go_elsewhere(namespace_state: NamespaceState, claim: Claim, tried: set[int]) -> bool:
    """Choose another shard, at random, that is not known to be short; return ``False`` if there is none.

    At most two others are tried; all of them if the amounts are 0, which any shard without a debt admits.
    """
    if len(tried) > ELSEWHERE and any(claim.checked.values()):
        return False
    now, hopeful = namespace_state.now(), list[int]()
    for shard in range(claim.home.shard_count):
        if shard not in tried:
            state = fresh_shard(namespace_state, claim, shard, now)
            if state is None or View((state,), claim.config, now).fits(claim.checked):
                hopeful.append(shard)
    if not hopeful:
        return False
    shard = hopeful[namespace_state.pick(len(hopeful))]
    tried.add(shard)
    claim.target = shard_of(namespace_state, claim.home, shard)
    return True


def _take_from_shards(namespace_state: NamespaceState, claim: Claim) -> Flow[None]:
    """Serve a request from several shards, or let its claim fail: what other claims took has to go back."""
    try:
        yield from _take_from_many(namespace_state, claim)
    except StoreError as error:
        claim.fail(error)


def _take_from_many(namespace_state: NamespaceState, claim: Claim) -> Flow[None]:
    """Serve a request from several shards. Keep what some of them gave while asking others for the rest."""
    line, turn = claim.home.line, claim.turn or _turn_before_any_line(namespace_state, claim)
    try:
        for _ in range(ROUNDS):
            if turn is not None:
                line.asked[turn] = {}  # shows others already that it asks
            view = yield from read_view(namespace_state, claim)
            parts = view.divided(claim.missing) if turn is None else _ripe_parts(namespace_state, claim, view, turn)
            if parts is None and not any(request.admitted for request in claim.last):
                claim.decided_by_view = view if view.states else None
            if not parts:
                return
            asked = [(shard_of(namespace_state, claim.home, shard), part) for shard, part in parts.items()]
            if turn is not None:
                line.asked[turn] = parts
            yield from enqueue_and_wait(claim.new_requests(asked))
            if claim.admitted or not claim.refused:
                return
    finally:
        if turn is not None:
            line.asked.pop(turn, None)


def _turn_before_any_line(namespace_state: NamespaceState, claim: Claim) -> Turn | None:
    """Return the turn of the first attempt of a caller that may wait: it takes any parts, unless it is one of many."""
    if not (claim.call.max_wait and any(claim.checked.values())):
        return None
    turn = Turn(0, namespace_state.now())
    if not claim.home.line.is_crowded:
        turn.parts = ANY_PARTS
    return turn


def _ripe_parts(namespace_state: NamespaceState, claim: Claim, view: View, turn: Turn) -> Mapping[int, Amounts] | None:
    """Return one ready shard that has all that is missing, at random, else several, the fullest first."""
    missing, headrooms = claim.missing, view.ripe(claim.checked, turn.parts)
    others = [asked for other, asked in list(claim.home.line.asked.items()) if other is not turn]
    for shard, there in headrooms.items():
        for name in there:
            there[name] -= sum(asked[shard].get(name, 0) for asked in others if shard in asked)
    whole = [
        shard for shard, there in headrooms.items() if all(amount <= there[name] for name, amount in missing.items())
    ]
    if whole:
        return {whole[namespace_state.pick(len(whole))]: missing}
    return view.divided(missing, headrooms)


def read_view(namespace_state: NamespaceState, claim: Claim) -> Flow[View]:
    """Return the bucket under the values that hold now: the copies of its shards if all are fresh, else what the store
    has. This process keeps what it has read, also of shards that it has not asked yet.
    """
    now = namespace_state.now()
    states = states_to_divide(namespace_state, claim, now)
    if not states:
        [states] = yield from bucket.reading.read_whole([claim.home.id])
        if not states:
            namespace_state.learn_beside(claim.home.id, None, now)
        for state in states:
            shard_of(namespace_state, claim.home, state.id.shard)
            namespace_state.learn_beside(state.id, state.item, now)
        now = namespace_state.now()
    return View.of(states, claim.config, now)


def shard_of(namespace_state: NamespaceState, home: CachedShard, shard: int) -> CachedShard:
    """Return a shard of the bucket whose shard 0 is ``home``, even one that this process has not seen."""
    return cached_shard(namespace_state, home.id.entity_id, home.id.resource, shard=shard)


def show_unasked(namespace_state: NamespaceState, claims: Iterable[Claim]) -> None:
    """Let a refusal show the buckets that were not asked as they were seen last."""
    for claim in claims:
        if not claim.last:
            claim.decided_by_view = View(namespace_state.states(claim.home), claim.config, namespace_state.now())


def until_decided(namespace_state: NamespaceState, claims: Sequence[Claim], refusal: RateLimitExceeded) -> Flow[bool]:
    """Wait for the requests whose amounts would have served a refused call, while it is open whether these come back.
    Return whether to ask again: some of them did.
    """
    under_way = [(claim.home.id, those) for claim in claims if (those := _beside(namespace_state, claim))]
    if not under_way:  # then what was short does not matter
        return False
    beside = _would_serve(under_way, refusal)
    try:
        for pause in PAUSES:
            if not any(map(_is_open, beside)):
                break
            yield Sleep(pause)
    except BudgetSpent:
        return False
    return any(each.returned or each.given for each in beside)


def _is_open(request: BucketRequest) -> bool:
    return request.outcome is None or request in request.queue.undecided


def _would_serve(
    under_way: Sequence[tuple[BucketId, Iterable[BucketRequest]]], refusal: RateLimitExceeded
) -> list[BucketRequest]:
    """Return the requests by which something could come back beside a refusal; none if it would stand all the same."""
    found: list[BucketRequest] = []
    for short in refusal.violations:
        beside = [
            request
            for bucket, requests in under_way
            if (bucket.entity_id, bucket.resource) == (short.entity_id, short.resource)
            for request in requests
        ]
        back = sum((request.given or request.taken).get(short.limit_name, 0) for request in beside)
        if back <= (short.requested - short.available - 1) * MILLI:  # `available` is rounded down
            return []
        found += beside
    return found


def _beside(namespace_state: NamespaceState, claim: Claim) -> Sequence[BucketRequest]:
    """Return the requests by which something could come back when the claim was refused."""
    found = [each for request in claim.requests for each in request.beside] if claim.requests else []
    if claim.decided_by_view is not None:  # just now, by copies
        for shard in namespace_state.shards(claim.home):
            found += shard.may_return()
    return list(dict.fromkeys(found)) if found else found


class PathRequest(Waiter):
    """The requests of one acquire to all buckets of its path, for one transaction."""

    droppable = True

    def __init__(self, queue: RunQueue, requests: Sequence[BucketRequest]) -> None:
        super().__init__(queue)
        self.requests = requests

    def fail(self, error: StoreError) -> None:
        """Settle all requests as failed, too: the transaction may have been applied."""
        if self.outcome is None:
            for request in self.requests:
                request.fail(error)
        super().fail(error)

    def unwind(self) -> Sequence[BucketRequest]:
        return [back for request in self.requests for back in request.unwind()]


def _create_path(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Create the buckets of all claims, and take from all. If one of them exists, take from each separately."""
    first, buckets = claims[0].home, [claim.home for claim in claims]
    above = tuple(each.id.pk for each in buckets[1:])
    shared = first.creating.get(above)
    if shared is None:
        shared = RunQueue(partial(_create, namespace_state, buckets))
        first.creating = {above: shared}
    request = PathRequest(shared, [claim.new_request() for claim in claims])
    yield Enqueue(request)
    first.creating = CREATING_NOTHING  # who comes now finds the buckets
    if unsettled := [each for each in request.requests if each.outcome is None]:
        for each in unsettled:
            each.queue.undecided.add(each)
        yield Parallel(tuple(map(Enqueue, unsettled)))


def _create(
    namespace_state: NamespaceState, buckets: Sequence[CachedShard], waiting: Sequence[PathRequest]
) -> Flow[None]:
    """Create the buckets for the first request. The others find them."""
    if all(cached.state is None for cached in buckets):
        yield from _create_for(namespace_state, buckets, waiting[0].requests)
    for each in waiting:
        each.outcome = Outcome("admitted", None, namespace_state.now())


def _create_for(
    namespace_state: NamespaceState, buckets: Sequence[CachedShard], requests: Sequence[BucketRequest]
) -> Flow[None]:
    now = namespace_state.now()
    puts = [plan_new(namespace_state, cached, request, now) for cached, request in zip(buckets, requests, strict=True)]
    writes = tuple(put for put, batch, _ in puts if batch.carried)
    if len(writes) < len(puts):
        return
    try:
        yield from _put_all(namespace_state, writes, now)
    except TransactionCancelled as cancelled:
        for cached, reason in zip(buckets, cancelled.reasons, strict=True):
            if reason.item is not None:
                _learn(cached, reason.item, now)
    except StoreError as error:
        if isinstance(error, Throttled) and error.may_repeat():
            return  # not applied; each claim decides for itself
        for request in requests:
            request.outcome = Outcome("failed", None, now, error)
    else:
        for cached, request, (put, batch, plan) in zip(buckets, requests, puts, strict=True):
            short, made = batch.shadow_short.get(request, NOTHING), plan.made(put)
            request.outcome = Outcome("admitted", made, now, shadow_short=short)
            _learn(cached, put.item, now, made)


def _put_all(namespace_state: NamespaceState, puts: Sequence[Put], now_ms: int) -> Flow[None]:
    """Put the items in one transaction, which a request token makes safe to repeat."""
    tokens = namespace_state.write_tokens
    if tokens is None:
        return (yield from call(Transact(tuple(puts))))
    return (yield from with_retries(Transact(tuple(puts), tokens.request_token(now_ms))))


def _learn(cached: CachedShard, item: Item, now_ms: int, made: BucketState | None = None) -> None:
    """Store the state that the transaction showed, unless the bucket's queue is at work or has seen a later one."""
    if cached.state is None and not cached.busy:
        cached.learn(item, now_ms, own_writes=0, made=made)
