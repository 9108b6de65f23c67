"""A lease: consume more in its block, settle it; at the end of the block write corrections, or give everything back.

A ``usage`` is what a provider says of one call, and its debt is everybody's below the same parents. So a settlement by
one is bounded, with all that is named beside it: the provider may lie, or count wrongly. What a program settles by
numbers alone is its own word, and is taken as it is.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ... import values
from ...exceptions import LeaseExpiredError, ValidationError
from ...operations.errors import BudgetSpent, NotApplied, RaceLost, StoreError
from ...operations.values import sums
from ...runtime.dataclass import replace
from ...values.limit_status import LimitStatus
from ...values.limits import MAX_TOKENS, MILLI, check_amounts
from ...values.refusal import RateLimitExceeded
from ...values.resolution import Config
from ...values.token_usage import TokenUsage
from ..bucket.serving import cached_shard, resolve
from ..bucket.view import View
from ..bucket_queue import BucketRequest, RunQueue
from ..process.namespace_state import NamespaceState
from ..process.queueing import enqueue_and_wait, give_back_all
from ..slots import SlotWork, freeing, freeing_all
from ..steps import Flow, Log
from .acquire import ROUNDS, first_error, refusal_by_answers
from .claims import Claim, Grant, unknown_limit
from .copies import refuse_by_copies
from .correcting import corrections_of, send_again
from .counting import count_refusal
from .disabling import refuse_if_disabled
from .outage import for_each, give_to_share, let_corrections_through, let_through, to_share
from .path import current_config
from .statuses import Owed, statuses_after
from .taking import ASKS_AGAIN, take_together, until_decided

if TYPE_CHECKING:
    from decimal import Decimal

MOST_ESTIMATES: Final = 100
MOST_SETTLED: Final = 10_000_000  # tokens: the longest prompts are of a few millions


def check_open(grant: Grant) -> None:
    """Raise ``LeaseExpiredError`` after the end of the block."""
    if not grant.open:
        raise LeaseExpiredError(grant.request.entity_id, grant.request.resource)


def checked(
    grant: Grant, field: str, amounts: "Mapping[str, int | Decimal]", *, signed: bool = False
) -> dict[str, int]:
    """Return the amounts in millitokens. Raises ``ValidationError`` for a bad amount, or a limit that the lease
    lacks.
    """
    check_open(grant)
    given = check_amounts(field, amounts, signed=signed)
    if type(given) is not dict:
        values.money_amounts.refuse_tokens(field, given, [claim.config.by_name for claim in grant.claims])
    milli = grant.without_ignored(given)
    known = {name for claim in grant.claims for name in claim.config.by_name}
    if grant.claims and not milli.keys() <= known:
        known |= {name for claim in grant.claims for name in claim.unlimited_names}
        for name in milli.keys() - known:
            raise unknown_limit(field, name, "in this lease", known)
    return milli


def adjust(grant: Grant, field: str, amounts: "Mapping[str, int | Decimal]") -> None:
    """Record corrections for the end of the block. Raises ``ValidationError`` if the lease would hold less than 0."""
    milli = checked(grant, field, amounts, signed=True)
    _refuse_slots(grant, field, milli)
    with grant.lock:
        check_open(grant)
        refuse_more_than_held(grant, field, {name: -amount for name, amount in milli.items()})
        note_correction(grant, milli)


def settle(
    grant: Grant, amounts: "Mapping[str, int | Decimal]", usage: object = None, most: int | None = None
) -> Mapping[str, tuple[int, int]]:
    """Record the corrections after which the lease holds these amounts, whatever it held, and what ``usage`` weighs of
    other limits. Return what was claimed and what was taken of limits beyond their bound, in tokens. Raises
    ``ValidationError``.
    """
    milli, beyond = settlement(grant, amounts, usage, most)
    with grant.lock:
        check_open(grant)
        note_settlement(grant, milli, beyond)
    return beyond


def settlement(
    grant: Grant, amounts: "Mapping[str, int | Decimal]", usage: object = None, most: int | None = None
) -> tuple[Mapping[str, int], Mapping[str, tuple[int, int]]]:
    """Return what ``settle`` records, in millitokens by limit, and what it returns. Raises ``ValidationError``."""
    claimed = weighed(grant, "settle", amounts, usage)
    milli = claimed if usage is None and most is None else bound(grant, claimed, most)
    return milli, {name: (claimed[name] // MILLI, n // MILLI) for name, n in milli.items() if n < claimed[name]}


def note_settlement(grant: Grant, milli: Mapping[str, int], beyond: Mapping[str, object]) -> None:
    """Record the corrections of a settlement."""
    with grant.lock:
        grant.bounded |= beyond.keys()
        change = {name: amount - grant.consumed.get(name, 0) for name, amount in milli.items()}
        note_correction(grant, change)
        grant.settled |= change.keys()


def would_exceed(
    namespace_state: NamespaceState, grant: Grant, amounts: "Mapping[str, int | Decimal]", usage: object
) -> tuple[LimitStatus, ...]:
    """Return the limits that would be in debt, as far as this process has seen, if the lease held these amounts."""
    milli = weighed(grant, "would_exceed", amounts, usage)
    return exceeded(namespace_state, grant, milli if usage is None else bound(grant, milli, None))


def weighed(grant: Grant, field: str, amounts: "Mapping[str, int | Decimal]", usage: object) -> dict[str, int]:
    """Return what a call has used, in millitokens: the amounts, and what ``usage`` counts of other limits. Raises
    ``ValidationError``.
    """
    if isinstance(usage, TokenUsage) and (of_usage := grant.request.by_usage) is not None:
        found = of_usage(usage)
        if not isinstance(found, Mapping):
            raise ValidationError("by_usage of a draw", found, "must return amounts by limit, like {'usd': 12_300}")
        amounts = {**found, **amounts}
    milli = checked(grant, field, amounts)
    _refuse_slots(grant, field, milli)
    return milli if usage is None else grant.without_ignored(weigh(grant, field, usage, beside=milli)) | milli


def weigh(grant: Grant, field: str, usage: object, *, beside: Mapping[str, int]) -> dict[str, int]:
    """Return what ``usage`` counts for the limits that have weights, in millitokens.

    Raises ``ValidationError`` if there are none, and no amounts ``beside`` it. A lease that does not know its limits,
    because the store was unavailable, has none.
    """
    if not isinstance(usage, TokenUsage):
        problem = "must be a TokenUsage: zae_limiter.integrations.usage.read_usage makes one of a provider's answer"
        raise ValidationError(f"usage of {field}", usage, problem)
    weights = grant.weights
    if grant.claims and not weights and not beside:
        raise ValidationError(f"usage of {field}", usage, "no limit of this lease has weights: name limits and amounts")
    return {name: each.weigh(usage) for name, each in weights.items()}


def check_most(field: str, most: object) -> None:
    """Raise ``ValidationError`` unless ``most`` bounds a settlement: ``None``, or tokens."""
    if most is not None and (type(most) is not int or not 0 <= most <= MAX_TOKENS):
        raise ValidationError(field, most, f"must be a whole number of tokens from 0 to {MAX_TOKENS}")


def bound(grant: Grant, milli: Mapping[str, int], most: int | None) -> dict[str, int]:
    """Return the amounts of a settlement by a usage, each no larger than ``most`` tokens and what the lease has taken.

    Without ``most``: than ``MOST_SETTLED`` tokens and ``MOST_ESTIMATES`` times what it has taken.
    """
    check_most("most of settle", most)
    times, least = (MOST_ESTIMATES, MOST_SETTLED) if most is None else (1, most)
    taken = taken_of(grant)
    return {name: min(amount, max(times * taken.get(name, 0), least * MILLI)) for name, amount in milli.items()}


def taken_of(grant: Grant) -> Mapping[str, int]:
    """Return what a lease has taken, in millitokens by limit, without its corrections."""
    with grant.lock:
        return sums(grant.consumed, {name: -amount for name, amount in grant.corrections.items()})


def refuse_more_than_held(grant: Grant, field: str, given: Mapping[str, int]) -> None:
    """Raise ``ValidationError`` if a lease is to give back more than it holds, in millitokens by limit."""
    for name, amount in given.items():
        held = grant.consumed.get(name, 0)
        if amount > held:
            shown = f"{name}={(amount if field == 'release' else -amount) // MILLI}"
            raise ValidationError(field, shown, f"the lease holds {held // MILLI}: no more can go back")


def note_correction(grant: Grant, change: Mapping[str, int]) -> None:
    """Record what the end of the block is to take more, or less where it is negative, in millitokens by limit."""
    grant.consumed = sums(grant.consumed, change)
    grant.corrections = sums(grant.corrections, change)


def learn(namespace_state: NamespaceState, grant: Grant) -> None:
    """Remember what a call was settled for, where its amounts were estimates."""
    for name, key in (grant.request.learns or {}).items():
        if name in grant.settled:
            namespace_state.settled_amounts.add(key, grant.consumed[name], namespace_state.now())


def exceeded(namespace_state: NamespaceState, grant: Grant, milli: Mapping[str, int]) -> tuple[LimitStatus, ...]:
    """Return the limits that would be in debt, as far as this process has seen, if the lease held these amounts."""
    if grant.unavailable is not None:
        return ()
    taken = taken_of(grant)
    more = {name: amount - taken.get(name, 0) for name, amount in milli.items()}
    return tuple(status for claim in grant.claims for status in _exceeded(namespace_state, claim, more))


def _exceeded(namespace_state: NamespaceState, claim: Claim, more: Mapping[str, int]) -> Iterator[LimitStatus]:
    """Yield the enforced limits of a bucket that have less than ``more`` now, in the last seen states of its shards; a
    bucket that is not there is as a new one.
    """
    now_ms = namespace_state.now()
    view = View.of(namespace_state.repaired_states(claim.home, now_ms), claim.config, now_ms)
    view = view._replace(mine=claim.home.held())
    for name in claim.config.enforced:
        if (amount := more.get(name, 0)) > 0 and amount > view.available(name):
            # in debt, though no shard may be short; a part of a token counts as one
            yield replace(view.status(claim, name, amount), exceeded=True, requested=-(-amount // MILLI))


def release(grant: Grant, amounts: "Mapping[str, int | Decimal]") -> list[BucketRequest]:
    """Record a give-back for the end of the block; return the requests that free slots now. Raises the errors of
    ``adjust``.
    """
    milli = checked(grant, "release", amounts)
    slots, requests = slot_names(grant, milli), list[BucketRequest]()
    with grant.lock:
        check_open(grant)
        refuse_more_than_held(grant, "release", milli)
        note_correction(grant, {name: -amount for name, amount in milli.items() if name not in slots})
        grant.consumed = sums(grant.consumed, {name: -milli[name] for name in slots})
        for claim in grant.claims if slots else ():
            held = claim.taken_slots
            if frees := [each for name in slots for each in freeing(held, name, milli[name])]:
                requests.append(BucketRequest(claim.home, config=claim.config))
                requests[-1].slots = SlotWork(frees=frees)
    return requests


def slot_names(grant: Grant, names: Iterable[str]) -> list[str]:
    """Return those of the names that are limits with slots, in any bucket of the lease."""
    configs = [claim.config.by_name for claim in grant.claims]
    return [name for name in names if any(name in each and each[name]._has_slots for each in configs)]


def _refuse_slots(grant: Grant, field: str, names: Iterable[str]) -> None:
    """Raise ``ValidationError`` if one of the names is a limit with slots: these are not estimates to correct."""
    for name in slot_names(grant, names):
        way = "lease.consume takes more of them, lease.release frees some, the end of the block frees the rest"
        raise ValidationError(field, name, f"has slots, which are not corrected: {way}")


def free_slots(requests: Sequence[BucketRequest]) -> Flow[None]:
    """Send the requests of ``release``. If the store fails, the slots come back when they expire."""
    with suppress(BudgetSpent):  # they stay in their queues, and are written when the store answers
        yield from enqueue_and_wait(requests)
        yield from _first_problem(requests)


def consume(
    namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int], *, unused: bool = False
) -> Flow[None]:
    """Take more from the same buckets at once, from all of them or none. Raises the errors of ``acquire``.

    Raises ``LeaseExpiredError``, and gives the tokens back, if the block has ended meanwhile. ``unused``: the end of
    the block gives them back, unless the lease settles for them.
    """
    error: StoreError | None
    try:
        error = yield from _take_more(namespace_state, grant, amounts, unused=unused)
    except BudgetSpent as late:
        error = late
    except RateLimitExceeded as refusal:
        yield from count_refusal(namespace_state, refusal)
        raise
    if error is not None:
        yield from _go_uncounted(namespace_state, grant, amounts, error, unused=unused)


def _take_more(
    namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int], *, unused: bool
) -> Flow[StoreError | None]:
    """Take more, and return the store's error, if it failed. Raises ``RateLimitExceeded`` if they are not there."""
    claims, asked_again, rounds = grant.claims, 0, 0
    while rounds < ROUNDS:
        more = for_each(claims, amounts)
        try:
            if (yield from _take_of_all(namespace_state, grant, more, amounts, unused=unused)):
                return first_error(more)
        except RateLimitExceeded as refusal:
            if asked_again == ASKS_AGAIN or not (yield from until_decided(namespace_state, more, refusal)):
                raise
            asked_again += 1
            continue
        rounds += 1
        try:
            claims = yield from _by_current_limits(namespace_state, grant, amounts)
        except StoreError as failure:
            return failure
    return RaceLost(f"the limits changed during {ROUNDS} attempts")


def _take_of_all(
    namespace_state: NamespaceState, grant: Grant, more: Sequence[Claim], amounts: Mapping[str, int], *, unused: bool
) -> Flow[bool]:
    """Take the amounts of these claims; return ``False`` if their limits have to be read again."""
    mine = [held for held in grant.claims if any(held.home is claim.home for claim in more)]
    try:
        refuse_by_copies(namespace_state, grant.request, more)
        yield from take_together(namespace_state, more)
        admitted = all(claim.admitted for claim in more)
        if admitted and (yield from _join(namespace_state, grant, mine, more, amounts, unused=unused)):
            return True
        bucket_requests = [bucket_request for claim in more for bucket_request in claim.last]
        yield from give_back_all(bucket_requests)
        check_open(grant)
        if any(map(_is_outdated, bucket_requests)):
            return False
        if first_error(more) is None:
            raise (yield from refusal_by_answers(namespace_state, grant.request, more))
        return True
    finally:
        for claim in more:
            claim.decide()


def _by_current_limits(namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int]) -> Flow[list[Claim]]:
    """Return the claims with the limits as they are now. Raises ``ValidationError``, ``AccessDisabled``."""
    claims: list[Claim] = []
    for claim in grant.claims:
        home = cached_shard(namespace_state, claim.home.id.entity_id, claim.home.id.resource)
        resolved = yield from resolve(namespace_state, home, bucket_too=True)
        config = current_config(namespace_state, grant.request, home, resolved)
        claims.append(replace(claim, resolved=resolved, config=config))
    levels = dict[str, tuple[Config, Sequence[str]]]()
    for claim in claims:
        claim.levels = levels
        levels[claim.path[-1]] = claim.config, claim.resolved.parent_ids
    refuse_if_disabled(namespace_state, grant.request, for_each(claims, amounts))
    limited = claims[0].limited
    if not amounts.keys() <= {*limited}.union(*(claim.unlimited_names for claim in claims)):
        raise ValidationError("consume", [*amounts], "no longer limits of this bucket: acquire again")
    return claims


def _go_uncounted(
    namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int], error: StoreError, *, unused: bool
) -> Flow[None]:
    """Add the amounts, uncounted or from a share, if the policy allows it. Raises the errors of ``let_through``."""
    policy = yield from let_through(namespace_state, grant.request, error, for_each(grant.claims, amounts))
    with grant.lock:
        if grant.open:
            grant.unavailable = error
            _hold(grant, amounts, unused=unused)
            grant.uncounted = sums(grant.uncounted, amounts)
            grant.shared = sums(grant.shared, amounts) if policy == "share" else grant.shared
            return
    if policy == "share":
        give_to_share(namespace_state, grant, amounts)
    check_open(grant)


def _join(
    namespace_state: NamespaceState,
    grant: Grant,
    mine: Sequence[Claim],
    more: Sequence[Claim],
    amounts: Mapping[str, int],
    *,
    unused: bool,
) -> Flow[bool]:
    """Add the new requests to the lease, keep the slots that they took, and return ``True``; return ``False`` if its
    block has ended meanwhile.
    """
    with grant.lock:
        if not grant.open:
            return False
        for claim, part in zip(mine, more, strict=True):
            claim.requests += part.last
        _hold(grant, amounts, unused=unused)
    for claim in more:
        yield from grant.keep_slots(claim, namespace_state.now)
    return True


def _hold(grant: Grant, amounts: Mapping[str, int], *, unused: bool) -> None:
    """Add what was taken; the end of the block gives it back if it is ``unused``. Under the grant's lock."""
    if unused:
        grant.corrections = sums(grant.corrections, {name: -amount for name, amount in amounts.items()})
    else:
        grant.consumed = sums(grant.consumed, amounts)


def statuses(namespace_state: NamespaceState, grant: Grant) -> list[LimitStatus]:
    """Return the statuses of the limits that the lease holds, as they are once its corrections are written."""
    return statuses_after(
        namespace_state,
        [(claim, _owed(namespace_state, claim, _to_write(each))) for each in grant.all for claim in each.claims],
    )


def _owed(namespace_state: NamespaceState, claim: Claim, corrections: Mapping[str, int]) -> Owed:
    """Return the corrections by shard, without those of shadow limits that are only counted."""
    owed: dict[RunQueue, Mapping[str, int]] = {}
    for made in corrections_of(namespace_state, claim, corrections) if corrections else ():
        owed[made.queue] = sums(owed.get(made.queue, {}), made.moved)
    return owed


def correct(namespace_state: NamespaceState, grant: Grant) -> Flow[None]:
    """Write the corrections, one write per shard. In an outage the policy decides, as for ``acquire``."""
    for each in grant.all:
        learn(namespace_state, each)
        give_to_share(namespace_state, each, to_share(each))
    made = [
        (claim, bucket_request)
        for each in grant.all
        for claim in each.claims
        for bucket_request in corrections_of(namespace_state, claim, _to_write(each))
    ]
    made += _free_at_end(grant, made, namespace_state.now())
    error: StoreError | None
    try:
        yield from enqueue_and_wait([each for _, each in made])
        made += yield from send_again(namespace_state, grant, made)
        yield from enqueue_and_wait([bucket_request for _, bucket_request in made if bucket_request.outcome is None])
        error = yield from _first_problem([bucket_request for _, bucket_request in made])
    except BudgetSpent as late:  # they stay in their queues, and are written when the store answers
        error = late
    if error is not None:
        not_written = [
            (claim, bucket_request.net)
            for claim, bucket_request in made
            if bucket_request.outcome is not None and isinstance(bucket_request.outcome.error, NotApplied)
        ]
        asked = [claim for each in grant.all for claim in for_each(each.claims, _to_write(each))]
        yield from let_corrections_through(namespace_state, grant.request, error, asked, not_written)
        grant.unavailable = error


def _free_at_end(
    grant: Grant, made: Sequence[tuple[Claim, BucketRequest]], now_ms: int
) -> list[tuple[Claim, BucketRequest]]:
    """Let the corrections of a lease, or requests of their own, free its slots; return the requests of their own."""
    new: list[tuple[Claim, BucketRequest]] = []
    for claim in grant.all_claims if grant.holds_slots else ():
        if frees := freeing_all(claim.taken_slots, now_ms):
            queue_of = claim.home
            request = next((each for of, each in made if of is claim and each.queue is queue_of), None)
            if request is None:
                request = BucketRequest(queue_of, config=claim.config)
                new.append((claim, request))
            request.slots = SlotWork(frees=frees)
    return new


def _first_problem(requests: Iterable[BucketRequest]) -> Flow[StoreError | None]:
    """Return the first error of a request that corrects more than slots. Slots that could not be freed come back by
    themselves: log them.
    """
    problem = None
    for request in requests:
        error = None if request.outcome is None else request.outcome.error
        if error is not None and (request.given or request.unchecked or request.counts.amounts):
            problem = problem or error
        elif error is not None and request.slots is not None:
            names = ", ".join(sorted(request.slots.limits))
            yield Log(
                __name__,
                logging.WARNING,
                "slots of %s were not freed, and come back by themselves: %s",
                values=(names, error),
            )
    return problem


def roll_back(namespace_state: NamespaceState, grant: Grant) -> Flow[None]:
    """Give back all that the lease took, and drop its corrections: its call did not take place, and is not counted. If
    the budget is spent first, the rest stays queued.
    """
    for each in grant.all:
        give_to_share(namespace_state, each, each.shared)
    with suppress(BudgetSpent):
        yield from give_back_all(grant.requests)


def _to_write(grant: Grant) -> dict[str, int]:
    """Return the part of each correction to write. Uncounted amounts are not in the store, and cannot come back."""
    return {
        name: amount if amount > 0 else min(0, amount + grant.uncounted.get(name, 0))
        for name, amount in grant.corrections.items()
    }


def _is_outdated(bucket_request: BucketRequest) -> bool:
    """Return whether the bucket has other limits by now, or no longer has the shard, because it expired."""
    return bucket_request.outcome is not None and bucket_request.outcome.verdict == "outdated"
