"""Opening late: a namespace whose store was away when the repository was opened.

Its id is not known, so no key of it can be made: ``NamespaceState.namespace_id`` raises until a call has asked for it.
The first call that can asks, and those that come meanwhile wait for its answer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...exceptions import RateLimiterUnavailable, ZAELimiterError
from ...operations.errors import StoreError, Unreachable
from ...runtime.named_tuple import NamedTuple
from ..bucket_queue import Outcome, RunQueue, Waiter
from ..public_errors import with_public_errors
from ..steps import Enqueue, Flow
from .namespace_state import NamespaceState

T = TypeVar("T")


class OpenedNamespace(NamedTuple):
    """The id of a namespace, and whether its table's schema has suffixes in the indexes."""

    id: str
    spread: bool


class NotOpened(StoreError):
    """The store answered, and the namespace cannot be opened; ``problem`` is the public error."""

    def __init__(self, problem: ZAELimiterError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def open_later(namespace_state: NamespaceState, find: Callable[[], Flow[OpenedNamespace]]) -> NamespaceState:
    """Return a namespace state that ``find`` finds with the first call that needs it; that call raises what
    ``open`` raises.
    """
    namespace_state.opening = RunQueue(partial(_open, namespace_state, find))
    return namespace_state


def opened(namespace_state: NamespaceState) -> Flow[None]:
    """Find the id of the namespace if it is not known. Raises ``StoreError`` in an outage, and the public error of any
    other problem.
    """
    queue = namespace_state.opening
    if queue is None:
        return
    waiter = Waiter(queue)
    yield Enqueue(waiter)
    error = None if waiter.outcome is None else waiter.outcome.error
    if isinstance(error, NotOpened):
        raise error.problem
    if error is not None:
        raise error


def in_namespace(namespace_state: NamespaceState, flow: Flow[T]) -> Flow[T]:
    """Run a flow that needs the namespace, and return its result. Raises each ``StoreError`` as an
    ``InfrastructureError``.
    """
    if namespace_state.opening is not None:  # else no step of the flow has to pass through one more generator
        flow = _behind(namespace_state, flow)
    return with_public_errors(namespace_state.stack, flow)


def _behind(namespace_state: NamespaceState, flow: Flow[T]) -> Flow[T]:
    yield from opened(namespace_state)
    return (yield from flow)


def known_id(namespace_state: NamespaceState) -> str:
    """Return the id of the namespace. Raises ``RateLimiterUnavailable`` while it is not known."""
    try:
        return namespace_state.namespace_id
    except Unreachable as error:
        raise RateLimiterUnavailable(str(error)) from error


def _open(
    namespace_state: NamespaceState, find: Callable[[], Flow[OpenedNamespace]], waiters: Sequence[Waiter]
) -> Flow[None]:
    """Find the id once, and settle all waiters."""
    error: StoreError | None = None
    try:
        if namespace_state.opening is not None:
            found = yield from find()
            namespace_state.identify(found.id, spread=found.spread)
    except RateLimiterUnavailable as outage:
        cause = outage.__cause__
        error = cause if isinstance(cause, StoreError) else Unreachable(str(outage))
    except ZAELimiterError as problem:
        error = NotOpened(problem)
    for waiter in waiters:
        waiter.outcome = Outcome("failed" if error else "admitted", None, namespace_state.now(), error)
