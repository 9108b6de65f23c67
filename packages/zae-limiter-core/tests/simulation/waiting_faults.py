"""Deliberate faults of callers that wait.

Never: the list of faults (mutants).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from zae_limiter.exceptions import RateLimitExceeded
from zae_limiter.flows.acquire.claims import AcquireRequest, Grant
from zae_limiter.flows.process.namespace_state import NamespaceState
from zae_limiter.flows.process.waiting_line import Turn, WaitingLine
from zae_limiter.flows.steps import Flow


def in_line_for_longer(real: Callable[..., Flow[Grant]]) -> Callable[..., Flow[Grant]]:
    def acquire_in_line(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[Grant]:
        return real(namespace_state, replace(request, max_wait=request.max_wait + 1))

    return acquire_in_line


def give_up(self: object, refusal: RateLimitExceeded) -> None:
    """The first refusal is the last."""
    raise refusal


def own_amounts(self: WaitingLine, turn: Turn, now_ms: int) -> Mapping[str, int]:
    return self._amounts[turn]
