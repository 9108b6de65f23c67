"""Let a retried call count once: the tries of one idempotency key, around ``acquire`` and the end of its block.

The problem: a client whose answer was lost sends its call again, maybe beside the first try, to another process. Both
acquire, and both take tokens. The choice: ``acquire`` first, as always; then claim the key, by one conditional put of
the key's item. Who puts it is the *first* try, and its tokens stay. Any other is a *repeat*: it counts itself in
the item, and gives back what it has just taken. From then on the tokens belong to the key: the first try gives nothing
back any more, though its block raises. To claim first, and acquire behind it, would cost the same; but a process that
dies between the two would leave a key that admits for nothing. A number of those that hold a key would be wrong
after each process that dies, and each lost answer; that of repeats only grows. It has a bound, because a caller who
sends every key a hundred times would have a hundred times the limit.

What each order comes to, of a first try F and a repeat R:

====================================================  =================================================
F ends, then R                                        R is admitted and takes nothing
F and R acquire at once                               one puts the item; the other gives back
F raises before R comes                               F releases the key, and gives back; R is decided anew
F raises, R runs or has ended                         the tokens stay with the key
R raises                                              nothing is written: the tokens are the key's
both raise                                            the tokens stay, for the next retry of this key
R is refused for lack of tokens, F was admitted       R is admitted: it reads the key before it gives up
F was refused                                         no item: R is decided anew
R gets no slot, F was admitted                        R is refused, and is not counted
R is the eleventh repeat                              it counts, as a call without a key
F dies before it puts the item                        its tokens are lost, as those of any process that dies
F dies later                                          the tokens stay, R is admitted
F's put was not answered                              F keeps its tokens, whatever its block does
F settles, then R                                     F's settlement is written, R's is dropped
R settles, F died or goes on                          R's is written, from what F took; F's is dropped
who settles dies before it corrects                   the correction is lost, as that of any process that dies
====================================================  =================================================

So what is lost is lost tokens; no order gives back, or admits, twice what one try took. A repeat takes its slots anew,
because it does run beside the first. An item whose ``ttl`` has passed counts as none, by this process's clock; to
release a key is to let it expire. What an outage lets through has no key.
"""

import os
from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from ...exceptions import IdempotencyKeyError, ValidationError
from ...operations.errors import OUTAGE, ConditionFailed, NotApplied, RaceLost, StoreError
from ...operations.values import NOTHING, Conditions, Item, Key, Put, Update
from ...runtime.dataclass import replace
from ...schema.attributes import FIRST, REPEATS, SETTLED, TTL
from ...schema.calls import KeptCall, call_item, call_key, expiry_of, place_of_draw, read_call
from ...values.naming import check_idempotency_key
from ...values.refusal import AccessDisabled, RateLimitExceeded
from ..bucket.serving import cached_shard, resolve
from ..bucket_queue import BucketRequest
from ..process.namespace_state import NamespaceState
from ..process.queueing import give_back_all
from ..public_errors import with_public_errors
from ..retry import ATTEMPTS, read, with_retries
from ..steps import Flow
from .claims import Claim, Grant
from .disabling import refuse_if_disabled
from .fallbacks import acquire_with_fallbacks, policy_of
from .lease import correct, roll_back
from .outage import go_on_without_store
from .overflow import overflow_of, overflow_request
from .path import find_claims, known_claims
from .requests import AcquireRequest
from .statuses import refusal_of

DAY: Final = 24 * 3600
LONGEST_LIFE: Final = 30 * DAY
MOST_REPEATS: Final = 10
LAST_INSTANT: Final = 2**53  # epoch seconds: never
Role = Literal["undecided", "first", "repeat", "without a key"]


class Try:
    """One try of a call with a key.

    ``id`` names it in the key's item, and ``first`` the try whose tokens stay. ``doubtful``: the item may say that this
    try is the first without an answer, so its tokens never go back. ``acquired``: the requests of its acquire;
    others of its lease are what the block took beside it. ``place``: whose key it is, an entity on a resource; of a
    run those of no call.
    ``ends_at``: the instant in epoch seconds at which the key ends at the latest.
    """

    role: Role = "undecided"
    first = ""
    doubtful = False
    acquired: frozenset[BucketRequest] = frozenset()

    def __init__(self, request: AcquireRequest, key: str, life: float | None) -> None:
        self.request = request
        self.place = request.asker
        self.ends_at = LAST_INSTANT
        self.key = check_idempotency_key("idempotency_key", key)
        self.life = DAY if life is None else check_life("key_life", life)
        self.id = os.urandom(9).hex()

    def address(self, namespace_state: NamespaceState) -> tuple[str, str]:
        """Return the key of the item."""
        return call_key(namespace_state.namespace_id, *self.place, self.key)

    def kept(self, grant: Grant) -> KeptCall:
        """Return what the key stands for once this try is the first."""
        return KeptCall(
            self.id,
            {**self.request.amounts, **grant.request.amounts},
            {_place(each.request): each.request.amounts for each in grant.draws},
            None if grant.overflow is None else grant.request.resource,
        )

    def put(self, namespace_state: NamespaceState, kept: KeptCall) -> Put:
        """Return the put of the item, on the condition that there is none, or one that has expired."""
        now = namespace_state.now() // 1000
        expires_at = min(now + max(1, round(self.life)), self.ends_at)
        item = call_item(self.address(namespace_state), *self.request.asker, kept, expires_at=expires_at)
        return Put(item, Conditions(below={TTL: now + 1}))

    def check(self, kept: KeptCall) -> None:
        """Raise ``IdempotencyKeyError`` if the key stands for a call with other amounts; estimates may differ."""
        asked, learned = self.request, frozenset(self.request.learns or ())
        pairs = [(kept.amounts, asked.amounts, learned)]
        for each in asked.draws:
            own = learned if each.as_called else frozenset(each.learns or ())
            pairs.append((kept.draws.get(_place(each), NOTHING), each.amounts, own))
        if len(kept.draws) == len(asked.draws) and all(_agree(*pair) for pair in pairs):
            return
        entity_id, resource = asked.asker
        problem = f"stands for a call of {entity_id}/{resource} with other amounts or draws: take another key"
        raise IdempotencyKeyError("idempotency_key", self.key, problem)


def check_life(field: str, seconds: object) -> float:
    """Return for how many seconds a key counts. Raises ``ValidationError``."""
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 1 <= seconds <= LONGEST_LIFE:
        return float(seconds)
    raise ValidationError(field, seconds, f"must be a number of seconds from 1 to {LONGEST_LIFE}")


def _agree(kept: Mapping[str, int], asked: Mapping[str, int], learned: frozenset[str]) -> bool:
    return kept.keys() == asked.keys() and all(name in learned or kept[name] == asked[name] for name in asked)


def _place(draw: AcquireRequest) -> str:
    return place_of_draw(draw.entity_id, draw.resource)


# the entry


def enter(namespace_state: NamespaceState, this: Try) -> Flow[Grant]:
    """Return the grant of an acquire, whose tokens ``claim`` is to give to the key; or that of a repeat, if the key is
    known before: one that would wait for tokens which it has, or is refused for the lack of them.

    Raises the errors of ``acquire``, and ``IdempotencyKeyError``.
    """
    request = this.request
    if namespace_state.is_identified and _waits(namespace_state, request):
        grant = yield from _known(namespace_state, this)
        if grant is not None:
            return grant
    try:
        return (yield from acquire_with_fallbacks(namespace_state, request))
    except RateLimitExceeded as refusal:
        if refusal.by_share or isinstance(refusal, AccessDisabled):
            raise
        grant = yield from _known(namespace_state, this)
        if grant is None:
            raise
        return grant


def _waits(namespace_state: NamespaceState, request: AcquireRequest) -> bool:
    """Return whether the call would wait for tokens, by its own word or that of its levels as they are known."""
    policy = policy_of(namespace_state, request)
    return bool(request.max_wait or (policy is not None and policy.wait))


def _known(namespace_state: NamespaceState, this: Try) -> Flow[Grant | None]:
    """Return the grant of a repeat; ``None`` if the key has no item, or the store does not say so."""
    try:
        found = yield from read(Key(*this.address(namespace_state)))
        if found is None or expiry_of(found) <= namespace_state.now() // 1000:
            return None
    except StoreError:
        return None
    this.check(kept := read_call(found))
    if kept.repeats >= MOST_REPEATS:
        return None
    # its slots first: a repeat that gets none is refused, and so it is not counted, and holds no tokens of the key
    grant = yield from with_public_errors(namespace_state.stack, _grant_of_repeat(namespace_state, this, kept))
    try:
        joined = yield from _join(namespace_state, this, found, kept)
    except StoreError:
        joined = False
    if not joined:
        yield from roll_back(namespace_state, grant)
        return None
    return grant


def claim(namespace_state: NamespaceState, this: Try, grant: Grant) -> Flow[Grant]:
    """Return the grant of the first try, which is the one that acquired, or that of a repeat, which gives it back.

    If the store does not answer, the policy of ``acquire`` decides whether the call goes on without a key. Raises
    ``IdempotencyKeyError``, ``RateLimitExceeded`` for the slots of a repeat, and ``InfrastructureError``.
    """
    if this.role != "undecided" or grant.outage is not None:
        this.role = "without a key" if this.role == "undecided" else this.role
        return grant
    this.acquired = frozenset(grant.requests)
    return (yield from with_public_errors(namespace_state.stack, _claim(namespace_state, this, grant)))


def _claim(namespace_state: NamespaceState, this: Try, grant: Grant) -> Flow[Grant]:
    silences: list[None] = []
    for _ in range(ATTEMPTS):
        put = this.put(namespace_state, this.kept(grant))
        this.doubtful = True  # if this is cut off, the put may be applied, or come late
        try:
            yield from with_retries(put, partial(silences.append, None))
        except ConditionFailed as failed:
            found = failed.item
        except StoreError as error:
            this.doubtful = isinstance(error, OUTAGE) or not isinstance(error, NotApplied)
            yield from go_on_without_store(namespace_state, this.request, error)
            this.role = "without a key"
            return grant
        else:
            this.doubtful, this.role, this.first = bool(silences), "first", this.id
            return grant
        if found is not None and found.get(FIRST) == this.id:  # the put was applied, and its answer lost
            this.doubtful, this.role, this.first = len(silences) > 1, "first", this.id
            return grant
        this.doubtful = bool(silences)
        if found is None:
            continue
        this.check(kept := read_call(found))
        if kept.repeats >= MOST_REPEATS:
            this.role = "without a key"
            return grant
        if (yield from _join(namespace_state, this, found, kept)):
            yield from give_back_all(grant.requests)
            return (yield from _grant_of_repeat(namespace_state, this, kept))
    raise RaceLost(f"others changed the key of a call of {this.request.entity_id} during {ATTEMPTS} attempts")


def _join(namespace_state: NamespaceState, this: Try, found: Item, kept: KeptCall) -> Flow[bool]:
    """Count a repeat in the item; return ``False`` if its first try has released it meanwhile, or had too many."""
    key = Key(*this.address(namespace_state))
    when = Conditions(equals={FIRST: kept.first, TTL: found[TTL]}, below={REPEATS: MOST_REPEATS})
    try:
        yield from with_retries(Update(key, add={REPEATS: 1}, when=when))  # one that is sent twice may count twice
    except ConditionFailed:
        return False
    this.role, this.first, this.doubtful = "repeat", kept.first, False  # a put that comes late finds the item
    return True


def _grant_of_repeat(namespace_state: NamespaceState, this: Try, kept: KeptCall) -> Flow[Grant]:
    """Return the grant of a repeat: it has what the key holds, and took nothing itself but its slots."""
    request = this.request
    if kept.overflow is not None:
        grant = yield from _overflowed(namespace_state, request, kept.overflow)
    else:
        claims = yield from _claims(namespace_state, request)
        grant = Grant(request, claims)
        if any(_slots_of(claim) for claim in claims):
            grant = yield from acquire_with_fallbacks(namespace_state, _with_slots_alone(request, claims))
    this.acquired = frozenset(grant.requests)
    _give_kept(grant, kept)
    return grant


def _give_kept(grant: Grant, kept: KeptCall) -> None:
    """Give a repeat the amounts that its key holds: all but its slots, which are its own."""
    for each in grant.all:
        amounts = kept.amounts if each is grant else kept.draws.get(_place(each.request), NOTHING)
        each.consumed = {name: amounts.get(name, n) for name, n in each.consumed.items()} if each.claims else amounts
        slots = {name for claim in each.claims for name in _slots_of(claim)}
        each.of_key = {name: 0 if name in slots else amount for name, amount in each.consumed.items()}


def _claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[Claim]]:
    """Return the buckets of a repeat, by limits that have not expired. Raises ``AccessDisabled``."""
    claims = known_claims(namespace_state, request)
    if claims is None or any(claim.stale for claim in claims):
        claims = yield from find_claims(namespace_state, request)
    refuse_if_disabled(namespace_state, request, claims)
    return claims


def _slots_of(claim: Claim) -> list[str]:
    """Return the limits with slots of which a claim asks for some."""
    limits = claim.config.by_name
    return [name for name, amount in claim.amounts.items() if amount and limits[name]._has_slots]


def _with_slots_alone(request: AcquireRequest, claims: list[Claim]) -> AcquireRequest:
    """Return the request of a repeat: for slots, and for nothing of any other limit."""
    slots = {(claim.draw, name) for claim in claims for name in _slots_of(claim)}
    parts = [
        replace(part, amounts={name: n if (number, name) in slots else 0 for name, n in part.amounts.items()})
        for number, part in enumerate(request.parts)
    ]
    return replace(parts[0], draws=tuple(parts[1:]))


def _overflowed(namespace_state: NamespaceState, request: AcquireRequest, resource: str) -> Flow[Grant]:
    """Return the grant of a repeat whose first try overflowed: on the resource that served it."""
    resolved = yield from resolve(
        namespace_state, cached_shard(namespace_state, request.entity_id, resource), bucket_too=True
    )
    refused = yield from _claims(namespace_state, request)
    other = overflow_request(request, resource, resolved)
    claims = [] if other is None else (yield from _claims(namespace_state, other))
    grant = Grant(replace(request, resource=resource) if other is None else other, claims)
    grant.overflow = overflow_of(request, refused, claims, refusal_of(request, refused, namespace_state.now()))
    return grant


# the end


def leave(namespace_state: NamespaceState, this: Try, grant: Grant) -> Flow[None]:
    """Give back what the lease took, unless the key has its tokens by now; then what the block took beside them."""
    if this.doubtful:
        goes_back = False
    elif this.role == "first":
        goes_back = yield from _release(namespace_state, this)
    else:  # what a repeat took itself is back, unless it was cut off before
        goes_back = this.role != "repeat" or not grant.of_key
    if goes_back:
        return (yield from roll_back(namespace_state, grant))
    return (yield from _drop_corrections(namespace_state, this, grant))


def _release(namespace_state: NamespaceState, this: Try) -> Flow[bool]:
    """Let the item expire, unless it is repeated; return whether it certainly has."""
    key, gone = Key(*this.address(namespace_state)), namespace_state.now() // 1000 - DAY  # for every clock
    when = Conditions(equals={FIRST: this.id}, absent=(REPEATS,))
    try:
        yield from with_retries(Update(key, set={TTL: gone}, when=when))
    except StoreError:
        return False
    return True


def settle(namespace_state: NamespaceState, this: Try, grant: Grant) -> Flow[None]:
    """Write the corrections of the lease, if no other try of its key has settled before; those of what a stream took by
    pieces in any case, because what flows counts in each try.
    """
    if this.role == "without a key" or not grant.corrected or (this.role == "repeat" and _is_of_stream(grant)):
        return (yield from correct(namespace_state, grant))
    key = Key(*this.address(namespace_state))
    when = Conditions(equals={FIRST: this.first}, absent=(SETTLED,))
    try:
        yield from with_retries(Update(key, set={SETTLED: this.id}, when=when))
    except ConditionFailed as failed:
        found = failed.item or {}
        if found.get(FIRST) != this.first:  # the key has expired, and who settled is not known: give nothing back
            for each in grant.all:
                of_stream = _of_stream(this, each)
                each.corrections = {name: max(0, amount) for name, amount in each.corrections.items()} | of_stream
        elif found.get(SETTLED) != this.id:
            return (yield from _drop_corrections(namespace_state, this, grant))
    except StoreError as error:
        yield from go_on_without_store(namespace_state, this.request, error)
        grant.unavailable = error
        return (yield from _drop_corrections(namespace_state, this, grant))
    return (yield from correct(namespace_state, grant))


def _drop_corrections(namespace_state: NamespaceState, this: Try, grant: Grant) -> Flow[None]:
    """Leave with the key what it holds: give back what the block took beside it, but for its stream, and free the
    slots.
    """
    beside = list[BucketRequest]()
    for each in grant.all:
        each.corrections, each.settled = _of_stream(this, each), each.settled & each.flowing
        taken = (request for claim in each.claims for request in claim.requests if request not in this.acquired)
        beside += [request for request in taken if each.flowing.isdisjoint([*request.amounts, *request.unlimited])]
    yield from give_back_all(beside)
    yield from correct(namespace_state, grant)


def _is_of_stream(grant: Grant) -> bool:
    """Return whether a lease has only settled what its stream took by pieces."""
    return all(each.flowing.issuperset(each.corrections) for each in grant.all)


def _of_stream(this: Try, grant: Grant) -> dict[str, int]:
    """Return the corrections of what a stream took by pieces, after which its key keeps what another try settled."""
    of_key = grant.request.amounts if this.role == "first" else NOTHING
    return {name: grant.corrections[name] + of_key.get(name, 0) for name in grant.flowing & grant.corrections.keys()}
