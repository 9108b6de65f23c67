"""Settle the lease of a call by its usage: a limit with weights by them, another one by the tokens of all kinds.
Explain an estimate that can never pass.

A draw that has the amounts of the call is settled with it, one with ``by_usage`` or weights by those; any other keeps
its amounts.
The answer is there when a price is missing, so what ``by_usage`` raises is logged, and the draw keeps its estimate.
``most`` is the bound of ``Lease.settle``, in tokens, so it holds for no money: a usage is what a provider says.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..aio.lease import DrawLease, Lease, LeaseCalls
from ..sync.lease import SyncDrawLease, SyncLease, SyncLeaseCalls
from ..values.refusal import RateLimitExceeded
from ..values.token_usage import MOST_TOKENS, TokenUsage
from .tokens import estimate

Tokens: TypeAlias = str | Collection[str] | None
log = logging.getLogger(__name__)


def settle_sync(lease: SyncLease, tokens: Tokens, usage: TokenUsage, most: int | None = None) -> None:
    """Settle what a call used. ``tokens`` names the limits that its estimate was taken from."""
    for each in (lease, *(draw for draw in lease.draws if draw.as_called)):
        amounts = _unweighted(each, tokens, usage)
        if amounts or each.weights:
            each.settle(usage, most, **amounts)
    for draw in lease.draws:
        if draw._goes_by_usage:
            with _kept(draw):
                draw.settle(usage)


async def settle(lease: Lease, tokens: Tokens, usage: TokenUsage, most: int | None = None) -> None:
    """Settle what a call used, as ``settle_sync`` does."""
    for each in (lease, *(draw for draw in lease.draws if draw.as_called)):
        amounts = _unweighted(each, tokens, usage)
        if amounts or each.weights:
            await each.settle(usage, most, **amounts)
    for draw in lease.draws:
        if draw._goes_by_usage:
            with _kept(draw):
                await draw.settle(usage)


def settle_at_least_sync(lease: SyncLease, tokens: Tokens, usage: TokenUsage, most: int | None = None) -> None:
    """Settle what a call has used until now, as ``settle_at_least`` does."""
    settled = (lease, *lease.draws)
    estimated = [each.consumed for each in settled]
    settle_sync(lease, tokens, usage, most)
    for each, amounts in zip(settled, estimated, strict=True):
        used = each.consumed
        each.settle(**{name: amount for name, amount in amounts.items() if used[name] < amount})


async def settle_at_least(lease: Lease, tokens: Tokens, usage: TokenUsage, most: int | None = None) -> None:
    """Settle what a call has used until now: its estimate stays where it is larger, because more may have been used."""
    settled = (lease, *lease.draws)
    estimated = [each.consumed for each in settled]
    await settle(lease, tokens, usage, most)
    for each, amounts in zip(settled, estimated, strict=True):
        used = each.consumed
        await each.settle(**{name: amount for name, amount in amounts.items() if used[name] < amount})


@contextmanager
def _kept(draw: DrawLease | SyncDrawLease) -> Iterator[None]:
    """Let a draw keep its estimate where its ``by_usage`` fails."""
    try:
        yield
    except Exception:
        log.exception("%s/%s keeps its estimate: its by_usage failed", draw.entity_id, draw.resource)


def _unweighted(held: LeaseCalls | SyncLeaseCalls, tokens: Tokens, usage: TokenUsage) -> dict[str, int]:
    names = (tokens,) if isinstance(tokens, str) else tokens or ()
    known = [name for name in names if name in held.consumed and name not in held.weights]
    return dict.fromkeys(known, min(usage.total, MOST_TOKENS))


def assumed_answer(error: RateLimitExceeded, tokens: str, request: Mapping[str, Any], by: Callable[..., object]) -> str:
    """Return a sentence about the part of the refused estimate that was assumed; empty if the refusal is for another.

    ``tokens`` is the limit that the estimate was taken from, ``by`` the function that made it.
    """
    worst = error.primary_violation
    if by is not estimate or worst.limit_name != tokens or not math.isinf(worst.retry_after_seconds):
        return ""
    assumed = estimate(request) - estimate(request, answer=0)
    if not assumed:
        return ""
    return (
        f"{assumed} of the {worst.requested} {tokens} are assumed for the answer, because the request does not say how "
        f"long it may be: set max_tokens, or give estimate=partial(estimate, answer=...)"
    )
