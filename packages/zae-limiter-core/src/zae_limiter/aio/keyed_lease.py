# `just variants` writes the blocking variant of this module.
"""The lease of a call with an idempotency key. The rules are in flows.acquire.repeats."""

from collections.abc import Callable
from typing import Any, Self, TypeVar, cast

from ..exceptions import InfrastructureError, LeaseExpiredError
from ..flows.acquire import repeats
from ..flows.acquire.claims import Grant
from ..flows.acquire.repeats import Try
from ..flows.acquire.requests import AcquireRequest
from ..flows.bucket_queue import in_tokens
from ..runtime.unused import Place
from .lease import Lease, _log
from .observed_lease import ObservedLease

K = TypeVar("K", bound="Keyed")


class Keyed(Lease):
    """A lease whose entry and end go by a key."""

    __slots__ = ()

    _try: Try

    async def __aenter__(self) -> Self:
        if not self._call.enter():  # a lease can be entered once, whatever happens
            raise LeaseExpiredError(self._request.entity_id, self._request.resource)
        state, this = self._namespace_state, self._try
        this.request = self._request  # a run may have shortened its wait
        taken = await self._run(repeats.enter(state, this))
        try:
            # a run of its own: what this one takes back if it is cut off are not the tokens of the acquire, which may
            # be those of the key by then
            self._granted = await self._run(repeats.claim(state, this, taken))
        except BaseException:
            taken.close()
            await self._roll_back(taken)
            raise
        return self

    async def _correct(self, grant: Grant, error: BaseException | None) -> None:
        corrected = grant.corrected
        try:
            await self._run(repeats.settle(self._namespace_state, self._try, grant))
        except InfrastructureError as problem:
            if error is None and corrected:
                raise
            grant.lost = problem
            _log(self._namespace_state, grant, "the end of its block was not written", problem)

    async def _roll_back(self, grant: Grant) -> None:
        try:
            await self._run(repeats.leave(self._namespace_state, self._try, grant))
        except InfrastructureError as problem:
            grant.lost = problem
            _log(self._namespace_state, grant, f"{in_tokens(grant.consumed)} were not given back", problem)


class KeyedLease(Keyed):
    """A lease with a key."""

    __slots__ = ("_try",)


class ObservedKeyedLease(ObservedLease, Keyed):
    """A lease with a key that notifies observers."""

    __slots__ = ("_try",)


def keyed(make: Any, request: AcquireRequest, called_at: Place, key: str | None, life: float | None) -> Lease:
    """Return the lease that ``make``, a partial of the limiter's class of leases, would make, with a key. Raises
    ``ValidationError``.
    """
    kind: Callable[..., Keyed] = ObservedKeyedLease if make.func is ObservedLease else KeyedLease
    return of_try(kind, make, Try(request, cast("str", key), life), called_at)


def of_try(kind: Callable[..., K], make: Any, this: Try, called_at: Place) -> K:
    """Return the lease of a try, of a ``kind`` in place of that which ``make`` would make."""
    lease = kind(*make.args, this.request, called_at, **make.keywords)
    lease._try = this
    return lease
