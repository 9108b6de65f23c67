"""How a lease is corrected, and what it was settled for: by weights, for estimates that learn, against its buckets.

A ``usage`` is what a provider says of one call, and its debt is everybody's below the same parents. So a settlement by
one is bounded, with all that is named beside it: the provider may lie, or count wrongly. What a program settles by
numbers alone is its own word, and is taken as it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ...exceptions import ValidationError
from ...operations.values import sums
from ...values.limit_status import LimitStatus
from ...values.limits import MAX_TOKENS, MILLI
from ...values.token_usage import TokenUsage
from ..bucket.view import View
from ..process.namespace_state import NamespaceState
from .claims import Claim, Grant

MOST_ESTIMATES: Final = 100
MOST_SETTLED: Final = 10_000_000  # tokens: the longest prompts are of a few millions


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
    view = View.of(namespace_state.repaired_states(claim.cached, now_ms), claim.config, now_ms)
    view = view._replace(mine=claim.cached.queue.held())
    for name in claim.config.enforced:
        if (amount := more.get(name, 0)) > 0 and amount > view.available(name):
            # in debt, though no shard may be short; a part of a token counts as one
            yield replace(view.status(claim, name, amount), exceeded=True, requested=-(-amount // MILLI))
