"""Record what a lease has really used, for the end of its block, and tell whether more would exceed a limit.

Amounts by weight: a limit with ``weights`` counts the tokens of a ``TokenUsage`` by them, exact to the millitoken, and
any other amount as it is.
"""

from collections.abc import Iterator, Mapping

from ...exceptions import LeaseExpiredError, ValidationError
from ...operations.values import NOTHING, sums
from ...rules.balances import force_consume
from ...rules.sharding import calculate_balance, calculate_next_token, calculate_wait
from ...values.limits import MILLI, LimitStatus, check_amounts
from ...values.token_usage import TokenUsage
from ..process.namespace_state import NamespaceState
from .claims import Claim, Grant


def check_open(grant: Grant) -> None:
    """Raise ``LeaseExpiredError`` after the end of the block."""
    if not grant.open:
        raise LeaseExpiredError(grant.request.entity_id, grant.request.resource)


def checked(grant: Grant, field: str, amounts: Mapping[str, int], *, signed: bool = False) -> dict[str, int]:
    """Return the amounts in millitokens. Raises ``ValidationError`` for a bad amount, or a limit that the lease
    lacks.
    """
    check_open(grant)
    milli = check_amounts(field, amounts, signed=signed)
    known = sorted({name for claim in grant.claims for name in claim.config.by_name})
    for name in milli:
        if grant.claims and name not in known:
            raise ValidationError(field, name, f"no such limit in this lease: there are {', '.join(known)}")
    return milli


def adjust(grant: Grant, field: str, amounts: Mapping[str, int]) -> None:
    """Record corrections for the end of the block. Raises ``ValidationError`` if the lease would hold less than 0."""
    milli = checked(grant, field, amounts, signed=True)
    with grant.lock:
        check_open(grant)
        for name, amount in milli.items():
            held = grant.consumed.get(name, 0)
            if held + amount < 0:
                problem = f"the lease holds {held // MILLI}: no more can go back"
                raise ValidationError(field, f"{name}={amount // MILLI}", problem)
        grant.consumed = sums(grant.consumed, milli)
        grant.corrections = sums(grant.corrections, milli)


def settle(grant: Grant, amounts: Mapping[str, int], usage: TokenUsage | None = None) -> None:
    """Record the corrections after which the lease holds these amounts, and what ``usage`` counts for the limits with
    weights that ``amounts`` leave out. Raises ``ValidationError``.
    """
    milli = weighed(grant, "settle", amounts, usage)
    with grant.lock:
        check_open(grant)
        change = {name: amount - grant.consumed.get(name, 0) for name, amount in milli.items()}
        grant.consumed = sums(grant.consumed, change)
        grant.corrections = sums(grant.corrections, change)
        grant.settled |= change.keys()


def weighed(grant: Grant, field: str, amounts: Mapping[str, int], usage: object) -> dict[str, int]:
    """Return the amounts, and what ``usage`` counts for the other limits, in millitokens. Raises ``ValidationError``.

    A lease that does not know its limits, because the store was unavailable, has no weights.
    """
    milli = checked(grant, field, amounts)
    if usage is None:
        return milli
    if not isinstance(usage, TokenUsage):
        problem = "must be a TokenUsage: zae_limiter.integrations.usage.read_usage makes one of a provider's answer"
        raise ValidationError(f"usage of {field}", usage, problem)
    weights = grant.weights
    if grant.claims and not weights and not amounts:
        raise ValidationError(f"usage of {field}", usage, "no limit of this lease has weights: name limits and amounts")
    return {name: each.weigh(usage) for name, each in weights.items()} | milli


def release(grant: Grant, amounts: Mapping[str, int]) -> None:
    """Record a give-back for the end of the block. Raises the errors of ``adjust``."""
    checked(grant, "release", amounts)
    adjust(grant, "release", {name: -amount for name, amount in amounts.items()})


def learn(namespace_state: NamespaceState, grant: Grant) -> None:
    """Remember what a call was settled for, where its amounts were estimates."""
    for name, key in (grant.request.learns or {}).items():
        if name in grant.settled:
            namespace_state.settled_amounts.add(key, grant.consumed[name], namespace_state.now())


def would_exceed(
    namespace_state: NamespaceState, grant: Grant, amounts: Mapping[str, int], usage: TokenUsage | None
) -> tuple[LimitStatus, ...]:
    """Return the limits that would be in debt, as far as this process has seen, if the lease held these amounts."""
    milli = weighed(grant, "would_exceed", amounts, usage)
    with grant.lock:
        taken = sums(grant.consumed, {name: -amount for name, amount in grant.corrections.items()})
    more = {name: amount - taken.get(name, 0) for name, amount in milli.items()}
    return tuple(status for claim in grant.claims for status in _exceeded(namespace_state, claim, more))


def _exceeded(namespace_state: NamespaceState, claim: Claim, more: Mapping[str, int]) -> Iterator[LimitStatus]:
    """Yield the enforced limits of a bucket that have less than ``more`` now, in the last seen states of its shards."""
    now_ms, hold = namespace_state.now(), claim.cached.queue.hold
    states = namespace_state.repaired_states(claim.cached, now_ms)
    held = NOTHING if hold is None else hold.left(now_ms)
    for name, limit in claim.config.enforced.items():
        if not states or more.get(name, 0) <= 0:
            continue
        parts = [state.part(limit, now_ms) for state in states]
        first = parts[0]
        parts[0] = first._replace(tokens_milli=force_consume(*first, -held.get(name, 0), now_ms))
        available = calculate_balance(parts, now_ms)
        if more[name] > available:
            yield LimitStatus(
                entity_id=claim.cached.id.entity_id,
                resource=claim.cached.id.resource,
                limit_name=name,
                limit=limit,
                available=available // MILLI,
                requested=-(-more[name] // MILLI),
                exceeded=True,
                retry_after_seconds=calculate_wait(parts, more[name], now_ms),
                next_token_seconds=calculate_next_token(parts, now_ms),
            )
