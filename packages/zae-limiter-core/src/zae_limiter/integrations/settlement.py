"""Settle the lease of a call by its usage: a limit with weights by them, another one by the tokens of all kinds."""

from collections.abc import Mapping

from ..aio.lease import Lease
from ..sync.lease import SyncLease
from ..values.token_usage import MOST_TOKENS, TokenUsage


def settle_sync(lease: SyncLease, tokens: str | None, usage: TokenUsage) -> None:
    """Settle what a call used. ``tokens`` names the limit that its estimate was taken from, if any."""
    amounts = _unweighted(lease.weights, tokens, usage)
    if amounts or lease.weights:
        lease.settle(usage, **amounts)


async def settle(lease: Lease, tokens: str | None, usage: TokenUsage) -> None:
    """Settle what a call used, as ``settle_sync`` does."""
    amounts = _unweighted(lease.weights, tokens, usage)
    if amounts or lease.weights:
        await lease.settle(usage, **amounts)


async def settle_at_least(lease: Lease, tokens: str | None, usage: TokenUsage) -> None:
    """Settle what a call has used until now: its estimate stays where it is larger, because more may have been used."""
    estimated = lease.consumed
    await settle(lease, tokens, usage)
    used = lease.consumed
    await lease.settle(**{name: amount for name, amount in estimated.items() if used[name] < amount})


def _unweighted(weights: Mapping[str, Mapping[str, float]], tokens: str | None, usage: TokenUsage) -> dict[str, int]:
    return {tokens: min(usage.total, MOST_TOKENS)} if tokens and tokens not in weights else {}
