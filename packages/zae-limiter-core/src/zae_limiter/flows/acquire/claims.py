"""Claims and grants of an acquire, as plain data."""

from _thread import RLock  # that of `threading` is a function around it
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ...exceptions import InfrastructureError, ValidationError
from ...operations.errors import StoreError
from ...operations.values import NOTHING, sums
from ...runtime.dataclass import dataclass, field
from ...runtime.named_tuple import NamedTuple
from ...schema.items import BucketId
from ...values.limit_status import LimitStatus
from ...values.refusal import RateLimitExceeded
from ...values.resolution import Config, Resolved
from ...values.weights import Weights
from ..bucket.view import View
from ..bucket_queue import BucketRequest, Outcome, slot_renewal
from ..process.namespace_state import CachedShard
from ..process.waiting_line import Turn
from ..slots import HeldSlots, TakenSlots
from ..steps import Flow, Remind
from ..tally import NO_TALLY, ONE, ONE_BELOW, Tally
from .requests import AcquireRequest

Levels = Mapping[str, tuple[Config, Sequence[str]]]  # the limits of each entity of a path, and who is above


@dataclass  # without slots: what has not happened yet is the class's, and costs an acquire nothing
class Claim:
    """One bucket that an acquire draws on: the entity's own, or that of an entity above it.

    ``home`` is its shard 0, ``target`` the shard asked next, chosen at random. ``last``: the requests of the last
    try. ``decided_by_view``: what decided without a request.
    ``path``: the entities from the one that asks to this one, the claim of ``place`` 0 being its own. Both begin with
    the entity of a ``draw``, if it belongs to one (from 1). ``unlimited``: the amounts that are counted in this bucket
    and not limited by it (``counted_names``). ``levels``: the limits of all buckets of the path, with who is above, by
    entity.
    ``call``: the request of the acquire, or of a call that would be one. ``turn``: of a caller that waits in its line.
    ``among_others``: another bucket may refuse the call, so what this one gives is undecided until all are asked.
    """

    home: CachedShard
    target: CachedShard
    resolved: Resolved
    config: Config
    amounts: Mapping[str, int]
    call: AcquireRequest
    stale: bool = False
    path: tuple[str, ...] = ()
    place: int = 0
    draw: int = 0
    unlimited: Mapping[str, int] | None = field(default=None, init=False)
    levels: Levels | None = field(default=None, init=False)
    turn: Turn | None = field(default=None, init=False)
    decided_by_view: View | None = field(default=None, init=False)
    requests: list[BucketRequest] = field(default_factory=list, init=False)
    last: Sequence[BucketRequest] = field(default=(), init=False)
    among_others: bool = field(default=False, init=False)

    @property
    def bucket(self) -> BucketId:
        """The bucket."""
        return self.home.id

    @property
    def part(self) -> AcquireRequest:
        """The request that it is of: that of the call, or that of a draw."""
        return self.call.parts[self.draw]

    @property
    def way(self) -> tuple[str, ...]:
        """The entities below its bucket, down to the one that asks; to a draw, that one is one more."""
        below = self.path[:-1]
        return tuple(reversed((self.call.entity_id, *below) if self.draw else below))

    @property
    def limited(self) -> Collection[str]:
        """The names of the limits of all buckets of the path."""
        return {name for config, _ in (self.levels or {}).values() for name in config.by_name}

    @property
    def limited_above(self) -> Collection[str]:
        """The names that the bucket does not limit, and one above it does."""
        levels, entities, found = self.levels or {}, [self.path[-1]], set[str]()
        for entity in entities:  # which grow while they are walked
            config, above = levels.get(entity, (self.config, ()))
            found.update(config.by_name)
            entities += [each for each in above if each in levels and each not in entities]
        return found.difference(self.config.by_name)

    @property
    def counted_names(self) -> frozenset[str]:
        """The names whose amounts the bucket only counts: it has no limit for them."""
        return self.unlimited_names.union(self.limited_above)

    @property
    def unlimited_names(self) -> frozenset[str]:
        """The names that some level knows, the winning level does not limit, and no bucket of the path limits.

        The winning level decided so: an amount of such a name is admitted, and counted as usage of the bucket. A bucket
        that is unlimited counts all that is asked for.
        """
        if self.config.is_unlimited:
            return self.known_names.union(self.limited, self.call.amounts)
        return self.known_names.difference(self.config.by_name, self.limited)

    @property
    def known_names(self) -> frozenset[str]:
        """The names of limits that some level has, or the caller's defaults."""
        return self.resolved.dropped.union(
            self.resolved.config.by_name, (limit.name for limit in self.call.default_limits)
        )

    @property
    def asked(self) -> Mapping[str, int]:
        """The amounts that the bucket limits, and those that it only counts."""
        return {**self.amounts, **self.unlimited} if self.unlimited else self.amounts

    @property
    def checked(self) -> Mapping[str, int]:
        """The amounts that must be there: those of enforced limits."""
        shadow = self.config.shadow
        return {name: n for name, n in self.amounts.items() if name not in shadow} if shadow else self.amounts

    @property
    def shadow_amounts(self) -> Mapping[str, int]:
        """The amounts of shadow limits."""
        return {name: n for name, n in self.amounts.items() if name in self.config.shadow}

    @property
    def admitted(self) -> bool:
        """Whether the last try took all amounts; ``True`` if there were none."""
        for bucket_request in self.last:  # noqa: SIM110 - a generator costs more, and every acquire with a parent asks
            if not bucket_request.admitted:
                return False
        return True

    @property
    def refused(self) -> bool:
        """Whether the last try was refused for lack of tokens, and for no other reason."""
        verdicts = {
            bucket_request.outcome.verdict for bucket_request in self.last if bucket_request.outcome is not None
        }
        return "refused" in verdicts and verdicts <= {"refused", "admitted"}

    @property
    def not_taken(self) -> Mapping[str, int]:
        """The amounts that were only counted, and not taken: of shadow limits, and of limits that had gone when a
        lease took more. Their corrections are only counted, too.
        """
        not_taken: dict[str, int] = {}
        for bucket_request in self.requests:
            if bucket_request.admitted:
                not_taken = sums(sums(not_taken, bucket_request.not_taken), bucket_request.unlimited)
        return not_taken

    @property
    def taken_slots(self) -> Sequence[TakenSlots]:
        """What its requests took of slots: in a forked child nothing, for its parent has them."""
        taken = (each for request in self.requests if request.admitted for each in request.taken_slots)
        return [each for each in taken if not each.is_of_parent]

    @property
    def is_split(self) -> bool:
        """Whether the bucket has more than one shard, by the last seen state."""
        return self.home.shard_count > 1

    @property
    def counts(self) -> Tally:
        """What the acquire counts in the bucket: itself, and whether it comes from an entity below."""
        return ONE_BELOW if self.place else ONE

    def new_request(self) -> BucketRequest:
        """Return a new request for the amounts of the claim, on its target shard."""
        config, amounts = self.config, self.amounts
        checked = self.checked if config.shadow else amounts
        counts = self.counts
        if not (any(amounts.values()) or (self.unlimited and any(self.unlimited.values()))):
            counts = NO_TALLY  # what asks for nothing is not an acquire
        bucket_request = BucketRequest(self.target, checked, config, counts)
        if config.shadow:
            bucket_request.shadow_amounts = self.shadow_amounts
        if self.unlimited:
            bucket_request.unlimited = self.unlimited
        if (turn := self.turn) is not None and checked:  # shadow limits never wait
            bucket_request.turn = self.home.line.order_of(turn)
            turn.asks(self.home.line, [bucket_request])
        if self.among_others:
            bucket_request.queue.undecided.add(bucket_request)
        self.requests.append(bucket_request)
        self.last = (bucket_request,)
        return bucket_request

    def new_requests(self, parts: Iterable[tuple[CachedShard, Mapping[str, int]]]) -> Sequence[BucketRequest]:
        """Return new requests for what is missing, one per shard; exactly one of them counts as the acquire."""
        kept = [request for request in self.last if request.admitted]
        new = [BucketRequest(cached, part, self.config) for cached, part in parts]
        for each in new:
            if self.among_others:
                each.queue.undecided.add(each)
        if not any(request.counts.events for request in kept):
            new[0].shadow_amounts, new[0].unlimited = self.shadow_amounts, self.unlimited or NOTHING
            new[0].counts = self.counts
        self.last = [*kept, *new]
        self.requests += new
        if self.turn is not None:
            self.turn.asks(self.home.line, new)
        return new

    def decide(self) -> None:
        """Note that the call is decided: what was taken for it stays, or is back."""
        for request in self.requests:
            request.queue.undecided.discard(request)

    def is_behind_another(self, now_ms: int) -> bool:
        """Return whether a caller who came before this one waits in the bucket's line and is served first."""
        turn = self.turn
        return turn is not None and bool(self.checked) and self.home.line.blocker(turn, now_ms) is not None

    def refuse(self, now_ms: int, *, blocked: bool) -> None:
        """Refuse the claim without a request; ``blocked``: because callers before it in a line were refused."""
        request = self.new_request()
        request.blocked = blocked
        request.outcome = Outcome("refused", self.target.state, now_ms)

    def fail(self, error: StoreError) -> None:
        """Note that the shards could not be read, so that the claim fails."""
        request = BucketRequest(self.target)
        request.outcome = Outcome("failed", None, 0, error)
        self.last = [*self.last, request]

    @property
    def missing(self) -> Mapping[str, int]:
        """The checked amounts that no request of the last try has taken."""
        taken = [request for request in self.last if request.admitted]
        return {name: n - sum(each.checked.get(name, 0) for each in taken) for name, n in self.checked.items()}


def unknown_limit(field: str, name: str, place: str, known: Iterable[str]) -> ValidationError:
    """Return the error of an amount of a limit that no level knows."""
    return ValidationError(field, name, f"unknown limit {name!r} {place} (known: {', '.join(sorted(known))})")


class Overflow(NamedTuple):
    """What the lease of an overflow has to know of the bucket that comes first, on ``resource``.

    ``why``: the refusal of that bucket, or its limit of which so much is used that it was not asked.
    ``ignored``: the limits of that bucket that this one lacks: its caller may name them, and they count nothing here.
    ``weights``: those of that bucket, because they say what its resource costs.
    """

    resource: str
    why: RateLimitExceeded | LimitStatus
    ignored: frozenset[str]
    weights: Mapping[str, Weights]

    @property
    def refusal(self) -> RateLimitExceeded | None:
        """The refusal after which it came."""
        return self.why if isinstance(self.why, RateLimitExceeded) else None

    @property
    def early(self) -> LimitStatus | None:
        """The limit by which it came before a refusal."""
        return self.why if isinstance(self.why, LimitStatus) else None


class Grant:
    """The tokens that an acquire took, by claim, and what its lease adds to them; amounts in millitokens by limit.

    ``unavailable``: the error that left the amounts ``uncounted``; those of them that this process took from its shares
    are ``shared``. ``waited``: seconds before the tokens were there.
    ``corrections`` wait for the end of the block; ``settled`` names the limits whose real amounts are known,
    ``bounded`` those that were settled for their bound; ``lost``: why the end was not written. ``has_slots``: it took
    slots, which the end frees. ``overflow``: what refused before.
    A change holds the ``lock`` and checks first whether the grant is ``open``: the block may end in another thread.
    ``rollback``: an exception in the block gives everything back.
    ``draws``: what each draw of the call took, as a grant of its own. ``of_key``: what an idempotency key holds of the
    amounts, so that this call did not take it. ``flowing``: the limits whose tokens a stream takes by pieces.
    """

    open = True
    waited = 0.0
    lost: InfrastructureError | None = None
    corrections: Mapping[str, int] = NOTHING
    uncounted: Mapping[str, int] = NOTHING
    shared: Mapping[str, int] = NOTHING
    of_key: Mapping[str, int] = NOTHING
    settled: frozenset[str] = frozenset()
    flowing: frozenset[str] = frozenset()
    bounded: frozenset[str] = frozenset()
    has_slots = False
    draws: "Sequence[Grant]" = ()
    overflow: Overflow | None = None
    unavailable: StoreError | None = None
    _claims: Sequence[Claim] = ()
    _lock: RLock | None = None

    def __init__(self, request: AcquireRequest, claims: Sequence[Claim], unavailable: StoreError | None = None) -> None:
        self.request = request
        self._claims = claims
        if request.draws:
            self._claims = [claim for claim in claims if not claim.draw]
            self.draws = [
                _grant_of_draw(each, [claim for claim in claims if claim.draw == number], unavailable)
                for number, each in enumerate(request.draws, start=1)
            ]
        self.unavailable = unavailable
        self.consumed = request.amounts
        self.rollback = request.rollback

    @property
    def lock(self) -> RLock:
        """The lock of changes, made for the first: most leases have none."""
        if self._lock is None:
            self._lock = self.__dict__.setdefault("_made_lock", RLock())  # one step: two threads get the same
        return self._lock

    @property
    def claims(self) -> Sequence[Claim]:
        """The buckets that the acquire drew on, without those of its draws."""
        return self._claims

    @property
    def weights(self) -> dict[str, Weights]:
        """The weights by limit; those of the entity's own limit if its parent has one of the same name. Those of a
        bucket that has refused come before those of its overflow.
        """
        own = {name: each for claim in reversed(self.claims) for name, each in claim.config.weights.items()}
        return own if self.overflow is None else {**own, **self.overflow.weights}

    def without_ignored(self, milli: dict[str, int]) -> dict[str, int]:
        """Return the amounts that count in these buckets."""
        ignored = () if self.overflow is None else self.overflow.ignored
        return {name: amount for name, amount in milli.items() if name not in ignored} if ignored else milli

    @property
    def all(self) -> "Sequence[Grant]":
        """The grant of the call, then those of its draws."""
        return (self, *self.draws)

    @property
    def all_claims(self) -> Sequence[Claim]:
        """The buckets that the acquire and its draws drew on."""
        return [claim for each in self.all for claim in each.claims] if self.draws else self.claims

    @property
    def requests(self) -> "Iterator[BucketRequest]":
        """The requests of the acquire and of its draws."""
        return (each for claim in self.all_claims for each in claim.requests)

    @property
    def outage(self) -> StoreError | None:
        """The error that left amounts of the call uncounted, or those of its draws."""
        return next((each.unavailable for each in self.all if each.unavailable is not None), None)

    @property
    def corrected(self) -> bool:
        """Whether the end of the block has something to correct."""
        return any(each.corrections for each in self.all) if self.draws else bool(self.corrections)

    @property
    def holds_slots(self) -> bool:
        """Whether the call took slots, or one of its draws did."""
        return any(each.has_slots for each in self.all)

    @property
    def has_end(self) -> bool:
        """Whether the end of the block has something to write: corrections, or slots that it frees."""
        return self.corrected or self.holds_slots

    @property
    def taken_slots(self) -> Sequence[TakenSlots]:
        """The slots that the call and its draws took."""
        return [each for claim in self.all_claims for each in claim.taken_slots] if self.holds_slots else ()

    def keep_slots(self, claim: Claim, now: Callable[[], int]) -> Flow[None]:
        """Renew the slots that the last requests of a claim took, from now on until they are freed."""
        taken = [each for request in claim.last if request.admitted for each in request.taken_slots]
        if not taken:
            return
        self.has_slots = True
        if (max_hold := self.request.max_hold) is not None:
            for each in taken:
                each.ends_ms = now() + max_hold * 1000
        of_shard_0 = claim.home  # which has all slots
        of_shard_0.slots = of_shard_0.slots or HeldSlots()
        seconds = of_shard_0.slots.add(taken, now())
        if seconds is not None:
            yield Remind(slot_renewal(of_shard_0, claim.config, of_shard_0.slots), max(0.0, seconds))

    def draw(self, entity_id: str | None, resource: str | None) -> "Grant":
        """Return what a draw of the call took. Raises ``ValidationError`` if ``draws`` does not name the bucket."""
        called = self.request if self.overflow is None else self.overflow  # the draws are those of the call
        wanted = entity_id or self.request.entity_id, resource or called.resource
        for each in self.draws:
            if (each.request.entity_id, each.request.resource) == wanted:
                return each
        named = ", ".join(f"{each.entity_id}/{each.resource}" for each in self.request.draws) or "none"
        raise ValidationError("draw", "/".join(map(str, wanted)), f"no draw of this call; `draws` names {named}")

    def close(self) -> bool:
        """End the block: nothing can be added any more. Return whether it ``has_end``."""
        self.open = False
        if self._lock is not None:  # a change that began before goes on; later ones see that it is not open
            with self._lock:
                pass
        if not self.draws:
            return bool(self.corrections) or self.has_slots  # as `has_end`, at less cost
        for each in self.draws:
            each.close()
        return self.has_end


def _grant_of_draw(request: AcquireRequest, claims: Sequence[Claim], unavailable: StoreError | None) -> Grant:
    """Return what a draw took: without the amounts of its call for which its buckets have no limits, if known."""
    grant = Grant(request, claims, unavailable)
    if claims:
        known = {name for claim in claims for name in claim.asked}
        grant.consumed = {name: amount for name, amount in request.amounts.items() if name in known}
    return grant
