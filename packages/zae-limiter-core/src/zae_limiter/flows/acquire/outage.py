"""What goes on without the store: follow the policy, take from this process's shares, and pay for them afterwards.

The problem: without the table the balance is unknown, but a process knows its part of the recent consumption
(``process.consumption``). The choice: an outage splits a bucket, as if each process had a shard of it. A share is a
token bucket of ``part * rate`` and ``part * burst`` that begins with ``part * balance``. When the table is back, the
shares are merged: a process takes from the bucket what its share lacks, which is the difference between the tokens that
the share would have if nothing had been taken, and those that it has. That is at most ``part * burst``, however long
the outage was, unless corrections went into debt. All amounts are added to the usage.

The alternatives were to charge all amounts, which would block everybody after a long outage although the tokens minted
in it cover them, and to charge nothing, which would hand out those tokens twice: docs/decisions/share-of-an-outage.md.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from threading import RLock
from typing import Final

from ...exceptions import RateLimiterUnavailable
from ...operations.errors import NotApplied, StoreError
from ...operations.values import NOTHING
from ...rules.balances import ShardLimit, force_consume, is_quota, move_anchor, refill_bucket
from ...rules.balances import share as split
from ...rules.registry import rule_of
from ...rules.rule import FOREVER_MS, Rule
from ...rules.sharding import Part, calculate_wait
from ...runtime import forks
from ...runtime.dataclass import dataclass, field, replace
from ...schema.attributes import UNCOUNTED
from ...values.limit_status import LimitStatus
from ...values.limits import MILLI, Limit, OnUnavailable, Policy
from ...values.refusal import RateLimitExceeded
from ...values.resolution import Config
from ..bucket.limit_removal import TooManyLimits
from ..bucket.serving import cached_shard
from ..bucket.view import status_of
from ..bucket_queue import BucketRequest, RunQueue, in_tokens
from ..process.consumption import MILLION, is_void
from ..process.namespace_state import CachedShard, NamespaceState
from ..process.queueing import enqueue_and_wait
from ..public_errors import public_error
from ..steps import Flow, Log, Post
from ..tally import NO_TALLY, Tally
from .claims import Claim, Grant
from .disabling import refuse_if_disabled
from .path import Place, known_claims
from .requests import AcquireRequest

WHAT: Final[Mapping[Policy, str]] = {
    OnUnavailable.ALLOW: "not counted",
    OnUnavailable.SHARE: "goes by this process's share, and is counted later",
}
SCAN_MS: Final = 1_000  # between two looks for shares that have ended
AT_ONCE: Final = 100

# the policy


def or_by_policy(namespace_state: NamespaceState, request: AcquireRequest, attempt: Flow[Grant]) -> Flow[Grant]:
    """Return the grant of an attempt to acquire; without the store, that of the policy.

    Raises what the attempt raises but for errors of the store; ``RateLimiterUnavailable`` in an outage if the policy
    does not let the call through, and another ``InfrastructureError`` for an error that is not an outage.
    """
    try:
        grant = yield from attempt
    except StoreError as error:
        claims = _still_enabled(namespace_state, request)
        return (yield from grant_without_store(namespace_state, request, error, claims))
    if (shares := namespace_state.shares) is not None and shares.pending:
        yield from pay_shares(namespace_state, grant.all_claims)
    return grant


def _still_enabled(namespace_state: NamespaceState, request: AcquireRequest) -> Sequence[Claim]:
    """Return what this process knows of the buckets of a call. Raises ``AccessDisabled``: an outage enables no one."""
    claims = known_claims(namespace_state, request) or ()
    refuse_if_disabled(namespace_state, request, claims)
    return claims


def grant_without_store(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Flow[Grant]:
    """Return the grant of an acquire that the store did not answer. Raises the errors of ``let_through``."""
    parts = request.parts
    anew = [anew for claim in claims for anew in for_each([claim], parts[claim.draw].amounts)]
    if (yield from let_through(namespace_state, request, error, anew)) == "allow":
        _remember_uncounted(namespace_state, parts)
        return Grant(request, (), error)
    grant = Grant(request, anew, error)
    for each in grant.all:
        each.uncounted = each.shared = each.consumed
    return grant


def _remember_uncounted(namespace_state: NamespaceState, parts: Iterable[AcquireRequest]) -> None:
    """Remember acquires that the outage lets through: the next write of this process to their bucket adds their number.

    Without the id of the namespace there is no bucket to remember them by.
    """
    for part in parts if namespace_state.is_identified else ():
        if any(part.amounts.values()):
            cached = cached_shard(namespace_state, part.entity_id, part.resource)
            namespace_state.pending_refusals.add(cached, namespace_state.now(), (UNCOUNTED,))


def let_through(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Flow[Policy]:
    """Return the policy by which this outage lets the amounts of the claims through, and log a line, at most one a
    minute.

    ``allow`` lets them through uncounted, also if all ``claims`` are for shadow limits; ``share`` takes them from the
    shares of this process. The policy of the call comes before any other.

    Raises ``RateLimiterUnavailable`` if the policy is ``block``, or if the process has no share, ``RateLimitExceeded``
    if its share is used up, and the public error of any other problem.
    """
    policy = _policy_for(namespace_state, request, error, claims)
    if policy == "share":
        _take(namespace_state, request, claims, error)
    yield from _say(namespace_state, request, error, policy)
    return policy


def let_corrections_through(
    namespace_state: NamespaceState,
    request: AcquireRequest,
    error: StoreError,
    claims: Sequence[Claim],
    not_written: Sequence[tuple[Claim, Mapping[str, int]]],
) -> Flow[None]:
    """Do the same for corrections, of which ``share`` refuses none: it keeps those that were certainly not written."""
    policy = _policy_for(namespace_state, request, error, claims)
    if policy == "share":
        for claim, amounts in not_written:
            correct_share(namespace_state, claim, amounts)
    yield from _say(namespace_state, request, error, policy)


def go_on_without_store(namespace_state: NamespaceState, request: AcquireRequest, error: StoreError) -> Flow[None]:
    """Do the same for a call that has its tokens, and goes on without what it asked of the store beside them."""
    yield from _say(namespace_state, request, error, _policy_for(namespace_state, request, error, ()))


def for_each(claims: Sequence[Claim], amounts: Mapping[str, int]) -> list[Claim]:
    """Return the claims that limit or count these amounts, for these amounts, as if they had asked for nothing yet."""
    more = []
    for claim in claims:
        known = {name: amount for name, amount in amounts.items() if name in claim.config.by_name}
        names = claim.counted_names if len(known) < len(amounts) else ()
        counted = {name: amount for name, amount in amounts.items() if name in names}
        if known or counted:
            anew = replace(claim, amounts=known, stale=False)
            anew.call = anew.call.at_once()
            anew.unlimited, anew.levels = counted, claim.levels
            more.append(anew)
    return more


def to_share(grant: Grant) -> dict[str, int]:
    """Return the amounts that the corrections of a lease give back to the shares which they came from."""
    return {name: min(-amount, grant.shared.get(name, 0)) for name, amount in grant.corrections.items() if amount < 0}


def give_to_share(namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int]) -> None:
    """Give amounts back that were taken from the shares of this process."""
    given = {name: -amount for name, amount in amounts.items() if amount}
    for claim in for_each(grant.claims, given):
        correct_share(namespace_state, claim, claim.asked)


def _policy_for(
    namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, claims: Sequence[Claim]
) -> Policy:
    """Return ``allow`` or ``share``: of the call, else of the system config read last, else of the repository.

    Raises the public error if the policy is ``block``, or if this is not an outage.
    """
    if isinstance(error, TooManyLimits):
        raise error.problem from None
    shown = public_error(namespace_state.stack, error)
    only_shadow = bool(claims) and not any(claim.checked for claim in claims)
    policy = request.on_unavailable or ("allow" if only_shadow else None)
    policy = policy or namespace_state.configs.on_unavailable or namespace_state.settings.on_unavailable
    if not isinstance(shown, RateLimiterUnavailable) or policy == "block":
        raise shown from error
    return policy


def _say(namespace_state: NamespaceState, request: AcquireRequest, error: StoreError, policy: Policy) -> Flow[None]:
    ending = namespace_state.said["degraded"].ending(namespace_state.now())
    if ending is not None:
        values = f"{request.entity_id}/{request.resource}", WHAT[policy], error, ending
        yield Log(__name__, logging.WARNING, "%s: %s, because the store is away: %s%s", values=values)


# the tokens


class PartOfRule(Rule):
    """What a part of a limit mints; ``part`` is in millionths."""

    __slots__ = ("_part", "_rule")

    def __init__(self, rule: Rule, part: int) -> None:
        self._rule, self._part = rule, part

    def minted(self, t_ms: int) -> int:
        """Return the part of what was minted up to ``t_ms``."""
        return self._rule.minted(t_ms) * self._part // MILLION

    def reached(self, minted_milli: int) -> int:
        """Return the first instant up to which so much was minted."""
        if minted_milli <= 0 or not self._part:
            return 0 if minted_milli <= 0 else FOREVER_MS
        return self._rule.reached(-(-minted_milli * MILLION // self._part))


@dataclass(slots=True)
class SharedLimit(ShardLimit):
    """A limit as this process has it: like one on a shard that gets ``millionths`` of the whole."""

    millionths: int = 0

    __hash__ = ShardLimit.__hash__

    def __post_init__(self) -> None:
        self.rule, self.unit, self.fraction = rule_of(self.limit), 0, 0
        self.part = PartOfRule(self.rule, self.millionths)
        self.ceiling_milli = self.limit._ceiling_milli * self.millionths // MILLION
        self.minted_at_anchor = self.part.minted(self.anchor_ms)

    @property
    def nominal_milli(self) -> int:
        """What the part has of which nothing was used."""
        whole = self.limit.capacity * MILLI if is_quota(self.limit) else self.limit._ceiling_milli
        return whole * self.millionths // MILLION

    def moved(self, at_ms: int, limit: Limit | None = None, mark: int | None = None) -> ShardLimit:
        """Return the same part of a limit, or of another one in its place, as of another anchor."""
        return SharedLimit(limit or self.limit, at_ms, mark=mark, millionths=self.millionths)


class LimitShare:
    """The tokens that this process ``has`` of one limit, and what it would have if nothing had been taken."""

    __slots__ = ("_untouched", "has")

    def __init__(self, limit: Limit, part: int, tokens_milli: int, now_ms: int) -> None:
        shared = SharedLimit(limit, now_ms, millionths=part)
        self.has = self._untouched = Part(shared, min(tokens_milli, shared.ceiling_milli))

    def available(self, now_ms: int) -> int:
        """Return the tokens at ``now_ms``; negative in debt."""
        return refill_bucket(*self.has, now_ms)

    def follow(self, limit: Limit, now_ms: int) -> None:
        """Go on by another rule from ``now_ms``, with the tokens that are there, up to the new ceiling."""
        if limit != self.has.shard_limit.limit:
            self.has, self._untouched = (
                Part(*move_anchor(*part, now_ms, limit)) for part in (self.has, self._untouched)
            )

    def take(self, amount_milli: int, now_ms: int) -> None:
        """Take an amount, into debt if need be; a negative one comes back, up to the ceiling."""
        self.has = Part(*force_consume(*self.has, amount_milli, now_ms))

    def lacks(self, now_ms: int) -> int:
        """Return what it has less than if nothing had been taken."""
        return max(0, refill_bucket(*self._untouched, now_ms) - self.available(now_ms))


@dataclass(slots=True)
class Share:
    """The share of one bucket. It holds until an answer later than ``seen_at_ms``, while it is used in each window.

    ``served``: what it let through, net.
    """

    home: CachedShard
    config: Config
    seen_at_ms: int
    used_ms: int
    limits: dict[str, LimitShare] = field(default_factory=dict)
    served: Tally = field(default_factory=Tally)

    def count(self, amounts: Mapping[str, int], now_ms: int, acquires: Tally = NO_TALLY) -> None:
        """Take the amounts, even into debt, and count them; limits that have no tokens here are only counted."""
        self.served.add(acquires.of(amounts))
        for name, amount in amounts.items():
            if name in self.limits:
                self.limits[name].take(amount, now_ms)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether it no longer holds."""
        return self.home.seen_at_ms != self.seen_at_ms or is_void(self.used_ms, now_ms)


@dataclass(slots=True)
class Owed:
    """What this process owes one shard: ``taken`` is to be taken from the tokens, ``served`` to be counted.

    Both are net, in millitokens by limit. ``request``: what is under way to pay it; ``tried_ms``: since when.
    """

    config: Config
    taken: Tally = field(default_factory=Tally)
    served: Tally = field(default_factory=Tally)
    request: BucketRequest | None = None
    tried_ms: int = 0

    def pay(self, queue: RunQueue, now_ms: int) -> BucketRequest:
        """Return a new request that pays everything."""
        taken, served = self.taken.amounts, self.served
        unchecked = {name: amount for name, amount in taken.items() if amount > 0}
        given = {name: -amount for name, amount in taken.items() if amount < 0}
        rest = {name: amount - taken.get(name, 0) for name, amount in served.amounts.items()}
        counts = served.of({name: amount for name, amount in rest.items() if amount})
        request = BucketRequest(queue, config=self.config, unchecked=unchecked, given=given, counts=counts)
        self.request, self.tried_ms = request, now_ms
        return request


class Shares:
    """The shares of this process by bucket, and what it owes by shard. Use it under its ``lock``.

    ``held`` has the shares that are in use. ``pending``: there is anything to use, to pay, or to see paid.
    """

    def __init__(self) -> None:
        self._begin_anew()
        forks.register(self)

    def _begin_anew(self) -> None:
        self.lock = RLock()
        self.pending = False  # no property: every acquire asks for it
        self.held: dict[Place, Share] = {}
        self.owed: dict[CachedShard, Owed] = {}
        self._paying: dict[CachedShard, Owed] = {}
        self._scanned_ms = 0

    def forget(self) -> None:
        """Begin again in a child process: the shares, and what they owe, are the parent's."""
        self._begin_anew()

    @property
    def owes(self) -> bool:
        """Whether there is something to pay that is not being paid."""
        return bool(self.held or self.owed)

    def owe(self, shard: CachedShard, config: Config, taken: Mapping[str, int], served: Tally) -> None:
        """Owe a shard more: what is ``taken`` from its tokens, and what is counted."""
        if served.events or any(taken.values()) or any(served.amounts.values()):
            self.pending = True
            owed = self.owed.setdefault(shard, Owed(config))
            owed.taken.add_amounts(taken)
            owed.served.add(served)

    def owed_to(self, shards: Iterable[CachedShard], limit: str) -> int:
        """Return what the process owes these shards of a limit, in millitokens."""
        found = [owed for shard in shards for owed in (self.owed.get(shard), self._paying.get(shard)) if owed]
        return sum(owed.taken.amounts.get(limit, 0) for owed in found)

    def end(self, namespace_state: NamespaceState, place: Place, now_ms: int) -> None:
        """End a share, and owe what it lacks: equal parts to all shards, the counts to the first."""
        share = self.held.pop(place, None)
        if share is None:
            return
        shards, served = _shards(namespace_state, share.home), share.served
        lacks = {name: limit.lacks(now_ms) for name, limit in share.limits.items()}
        for number, shard in enumerate(shards):
            taken = {name: split(amount, number, len(shards)) for name, amount in lacks.items() if amount}
            self.owe(shard, share.config, taken, Tally(taken))
        rest = {name: amount - lacks.get(name, 0) for name, amount in served.amounts.items()}
        self.owe(shards[0], share.config, NOTHING, served.of(rest))

    def share_of(self, place: Place, now_ms: int) -> Share | None:
        """Return the share of a bucket, if there is one that still holds."""
        share = self.held.get(place)
        return None if share is None or share.has_ended(now_ms) else share

    def ended(self, now_ms: int) -> list[Place]:
        """Return the shares that no longer hold; looks at all of them at most once a second."""
        if abs(now_ms - self._scanned_ms) < SCAN_MS:
            return []
        self._scanned_ms = now_ms
        return [place for place, share in self.held.items() if share.has_ended(now_ms)]

    def pay(self, namespace_state: NamespaceState, now_ms: int) -> tuple[list[BucketRequest], list[Log]]:
        """Return requests that pay what is owed, and a line for each payment of which it is not known whether it was
        made.

        What certainly was not written is paid again, after a second at the earliest. What a shard that is gone was to
        get, shard 0 gets.
        """
        lost = []
        for shard, owed in [*self._paying.items()]:
            outcome = None if owed.request is None else owed.request.outcome
            if outcome is None:
                continue
            del self._paying[shard]
            is_gone = outcome.verdict == "outdated" and outcome.state is None
            home = cached_shard(namespace_state, *_place(shard)) if is_gone else shard
            if isinstance(outcome.error, NotApplied) or home is not shard:
                self.owe(home, owed.config, owed.taken.amounts, owed.served)
                self.owed[home].tried_ms = 0 if is_gone else owed.tried_ms
            elif outcome.error is not None:
                what = f"{shard.id}: {in_tokens(owed.served.amounts)} of an outage may not be counted: {outcome.error}"
                lost.append(Log(__name__, logging.WARNING, "%s", values=(what,)))
        waiting = [each for each, owed in self.owed.items() if abs(now_ms - owed.tried_ms) >= SCAN_MS]
        due = [shard for shard in waiting if shard not in self._paying][:AT_ONCE]
        for shard in due:
            self._paying[shard] = self.owed.pop(shard)
        self.pending = bool(self.held or self.owed or self._paying)
        return [self._paying[shard].pay(shard, now_ms) for shard in due], lost


def shares_of(namespace_state: NamespaceState) -> Shares:
    """Return the shares of a process, which has none before its first outage."""
    if namespace_state.shares is None:
        namespace_state.shares = Shares()
        namespace_state.ledgers.append(namespace_state.shares)
    assert isinstance(namespace_state.shares, Shares), "only this module makes them"
    return namespace_state.shares


def _take(namespace_state: NamespaceState, request: AcquireRequest, claims: Sequence[Claim], error: StoreError) -> None:
    """Take the amounts from the shares of all claims, or nothing."""
    now, shares = namespace_state.now(), shares_of(namespace_state)
    with shares.lock:
        found = [(claim, _share_of(namespace_state, claim, now)) for claim in claims]
        statuses = [
            _status(claim, name, amount, share.limits[name], now)
            for claim, share in found
            for name, amount in claim.checked.items()
        ]
        _raise_if_impossible(request, statuses, claims, error)
        if any(status.exceeded for status in statuses):
            raise RateLimitExceeded(statuses, *request.asker, by_share=True) from error
        for claim, share in found:
            shares.held[_place(claim.home)], shares.pending = share, True
            share.count(claim.asked, now, claim.counts if any(claim.asked.values()) else NO_TALLY)


def _raise_if_impossible(
    request: AcquireRequest, statuses: Sequence[LimitStatus], claims: Sequence[Claim], error: StoreError
) -> None:
    """Raise ``RateLimiterUnavailable`` if the shares can never have the amounts, but the whole limits could."""
    bucket = f"{request.entity_id}/{request.resource}"
    if not claims:
        raise RateLimiterUnavailable(f"{error}; this process does not know the limits of {bucket}") from error
    for status in statuses:
        if status.retry_after_seconds == inf and status.requested * MILLI <= status.limit._ceiling_milli:
            what = f"{status.limit.show(status.requested)} {status.limit_name} of {status.entity_id}/{status.resource}"
            problem = f"{error}; the share of this process can never hold {what}"
            raise RateLimiterUnavailable(problem) from error


def _status(claim: Claim, name: str, amount: int, share: LimitShare, now_ms: int) -> LimitStatus:
    wait = calculate_wait([share.has], amount, now_ms)
    return status_of(claim, claim.config.by_name[name], share.available(now_ms), amount, wait)


def _share_of(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> Share:
    """Return the share of a bucket, with the enforced limits that the claim asks for. It begins with the outage."""
    shares, place = shares_of(namespace_state), _place(claim.home)
    share = shares.share_of(place, now_ms)
    if share is None:
        shares.end(namespace_state, place, now_ms)
        share = Share(claim.home, claim.config, claim.home.seen_at_ms, now_ms)
    share.used_ms = now_ms
    for name in claim.checked:
        if name not in share.limits:
            share.limits[name] = _begin(namespace_state, claim, name, now_ms)
        share.limits[name].follow(claim.config.by_name[name], now_ms)
    return share


def _begin(namespace_state: NamespaceState, claim: Claim, name: str, now_ms: int) -> LimitShare:
    """Return the share of one limit, by the last looks of this process at the shards of the bucket."""
    limit, shards = claim.config.by_name[name], _shards(namespace_state, claim.home)
    part, tokens = 0, -shares_of(namespace_state).owed_to(shards, name)
    for shard in shards if not limit._has_slots else ():  # slots are not counted without the store
        if (state := shard.state) is not None and name in state.shard_limits:
            of_shard = shard.others.part(name, shard.seen_at_ms, now_ms)
            part += of_shard
            tokens += of_shard * refill_bucket(*state.repaired(now_ms).part(limit, now_ms), now_ms) // MILLION
    return LimitShare(limit, part // len(shards), tokens, now_ms)


def correct_share(namespace_state: NamespaceState, claim: Claim, amounts: Mapping[str, int]) -> None:
    """Take more from the share of a bucket, into debt if need be; negative amounts come back.

    Without a share, the process owes it to the bucket.
    """
    now, shares = namespace_state.now(), shares_of(namespace_state)
    with shares.lock:
        share = shares.share_of(_place(claim.home), now)
        known = NOTHING if share is None else {name: n for name, n in amounts.items() if name in share.limits}
        if share is not None:
            share.count(known, now)
        rest = {name: amount for name, amount in amounts.items() if name not in known}
        taken = {name: amount for name, amount in rest.items() if name in claim.config.enforced}
        shares.owe(claim.home, claim.config, taken, Tally(rest))


# the payment


def pay_shares(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Pay for the shares whose outage is over: those of ``claims``, which the store has just served, and those that no
    longer hold. No caller waits for it.
    """
    now, shares = namespace_state.now(), shares_of(namespace_state)
    with shares.lock:
        for place in [*(_place(claim.home) for claim in claims), *shares.ended(now)]:
            shares.end(namespace_state, place, now)
        requests, lost = shares.pay(namespace_state, now)
    yield from lost
    for request in requests:
        yield Post(request)


def pay_the_rest(namespace_state: NamespaceState) -> Flow[None]:
    """Pay for all shares, as far as the store answers within the budget of the run."""
    if namespace_state.shares is None:
        return
    now, shares = namespace_state.now(), shares_of(namespace_state)
    with shares.lock:
        for place in list(shares.held):
            shares.end(namespace_state, place, now)
        for owed in shares.owed.values():
            owed.tried_ms = 0
    while True:
        with shares.lock:
            requests, lost = shares.pay(namespace_state, now)
        yield from lost
        if not requests:
            break
        yield from enqueue_and_wait(requests)
    if shares.owed:
        amounts = "; ".join(f"{shard.id}: {in_tokens(owed.served.amounts)}" for shard, owed in shares.owed.items())
        yield Log(
            __name__, logging.WARNING, "the store is away, so these amounts are never counted: %s", values=(amounts,)
        )


def _place(cached: CachedShard) -> Place:
    return cached.id.entity_id, cached.id.resource


def _shards(namespace_state: NamespaceState, home: CachedShard) -> list[CachedShard]:
    others = range(1, home.shard_count)
    return [home, *(cached_shard(namespace_state, *_place(home), shard=each) for each in others)]
