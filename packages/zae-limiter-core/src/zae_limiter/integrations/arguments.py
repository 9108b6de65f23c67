"""Validate an integration's arguments: constants at setup, the results of callables at each request."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any, TypeVar

from ..aio.limiter import RateLimiter
from ..exceptions import InvalidIdentifierError, ValidationError
from ..flows.acquire.requests import EachCallOptions, check_names, validate_request
from ..sync.limiter import SyncRateLimiter
from ..values.estimates import Amount
from ..wiring import check_key_of_calls, of_call, with_key
from .answers import InvalidClientId
from .leases import REFUNDS, Refund, with_end

Kind = type[RateLimiter] | type[SyncRateLimiter]
T = TypeVar("T")


class Rule:
    """The arguments of an acquire for each request: values, or functions of the request.

    Raises ``ValidationError`` for those that no request could be limited with.
    """

    def __init__(
        self,
        kind: Kind,
        limiter: object,
        identity: object,
        resource: object,
        cost: object,
        draws: Any,
        refund: Refund,
        options: EachCallOptions,
        key: Any = None,
    ) -> None:
        check_opened(kind, limiter)
        if not callable(cost):
            check_cost(cost)
        check_refund(refund)
        check_options(options, identity, resource, draws, key)
        self._cost, self._place = cost, (limiter, identity, resource, draws, key)
        self.refund, self._options = refund, with_end(options)
        self._life = self._options.pop("key_life", None)

    def lease_of(self, *request: Any) -> Any:
        """Return the lease for a request, which is not entered yet; ``None`` for one that costs nothing."""
        if not (cost := check_cost(of_call(self._cost, request, {}))):
            return None
        limiter, identity, resource, draws, key = (of_call(each, request, {}) for each in self._place)
        return self.acquire(limiter, identity, resource, cost, draws, key)

    async def lease_of_async(self, request: Any) -> Any:
        """Return what ``lease_of`` does; functions of the request may be ``async``."""
        if not (cost := check_cost(await resolve(self._cost, request))):
            return None
        limiter, identity, resource, draws, key = [await resolve(each, request) for each in self._place]
        return self.acquire(limiter, identity, resource, cost, draws, key)

    def acquire(
        self,
        limiter: Any,
        identity: object,
        resource: object,
        cost: Mapping[str, Amount],
        draws: object,
        key: object = None,
    ) -> Any:
        """Return a lease by what was found for a request. Raises ``InvalidClientId``."""
        with ids_of_client():
            return limiter.acquire(identity, resource, cost, draws=draws, **with_key(key, self._life), **self._options)


def check_options(options: EachCallOptions, identity: object, resource: object, draws: Any, key: object) -> None:
    """Raise ``ValidationError`` for options that no call could be limited with; what is a function is not asked."""
    check_names(options, EachCallOptions, "draws", "idempotency_key")
    check_key_of_calls(key, options.get("key_life"))
    own: Any = {name: value for name, value in options.items() if name != "key_life"}
    entity: Any = "entity-of-no-draw" if callable(identity) else identity
    constant: Any = "resource-of-no-draw" if callable(resource) else resource
    validate_request(entity, constant, {"limit": 1}, draws=() if callable(draws) else draws, **own)


async def resolve(given: T | Callable[[Any], T | Awaitable[T]], request: Any) -> T:
    """Return a value, or what a function of the request returns, which may be ``async``."""
    found = given(request) if callable(given) else given
    return await found if isawaitable(found) else found


@contextmanager
def ids_of_client() -> Iterator[None]:
    """Raise ``InvalidClientId`` in place of the error of an ``acquire`` whose ids or key a request has chosen.

    Constants were checked at setup, so an invalid text comes from a request. Anything but a text, such as the ``None``
    of a forgotten ``return``, is a mistake of the application, and so is every other error.
    """
    try:
        yield
    except InvalidIdentifierError as error:
        if error.field in ("entity_id", "resource", "idempotency_key") and isinstance(error.value, str):
            raise InvalidClientId(*error.args) from None
        raise


def check_opened(kind: Kind, limiter: object) -> None:
    """Raise ``ValidationError`` unless ``limiter`` is of a kind, or a function that may return one."""
    if not (isinstance(limiter, kind) or callable(limiter)):
        raise ValidationError("limiter", limiter, f"must be a {kind.__name__}, or a function that returns one")


def check_either(limiter: object) -> None:
    """Raise ``ValidationError`` unless ``limiter`` is one of either variant."""
    if not isinstance(limiter, RateLimiter | SyncRateLimiter):
        raise ValidationError("limiter", limiter, "must be a RateLimiter or a SyncRateLimiter")


def check_refund(refund: object) -> None:
    """Raise ``ValidationError`` unless ``refund`` is one of ``REFUNDS``."""
    if refund not in REFUNDS:
        raise ValidationError("refund", refund, f"must be one of {', '.join(REFUNDS)}")


def calls_cost(requests: str | None, tokens: str | None, slots: str | None) -> dict[str, int]:
    """Return what each call of a model takes beside its estimate: one of ``requests`` and one of ``slots``.

    Raises ``ValidationError`` if ``slots`` is the limit of something else, too.
    """
    if slots is not None and slots in (requests, tokens):
        raise ValidationError("slots", slots, "is named as requests or tokens, too: slots are a limit of their own")
    return {name: 1 for name in (requests, slots) if name}


def check_cost(cost: Any) -> Mapping[str, Amount]:
    """Return the tokens by limit. Raises ``ValidationError`` unless it is a mapping: ``None`` is a forgotten
    ``return``.
    """
    if isinstance(cost, Mapping):
        return cost
    raise ValidationError("cost", cost, "must map limits to amounts, like {'rpm': 1}; {} costs nothing")
