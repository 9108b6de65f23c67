"""The async rate limiter."""

from collections.abc import Mapping, Sequence
from typing import Self

from ..flows.acquire import inspection
from ..flows.acquire.claims import AcquireRequest
from ..flows.acquire.requests import validate_place, validate_request
from ..limits import Limit, OnUnavailable, check_limits
from .entities import EntityMethods
from .lease import Lease
from .limits import LimitMethods
from .repository import Repository


class RateLimiter(LimitMethods, EntityMethods):
    """Token buckets of one repository. ``default_limits`` apply if no level of the repository has limits."""

    def __init__(self, repository: Repository, *, default_limits: Sequence[Limit] | None = None) -> None:
        super().__init__(repository.driver, repository.namespace_state, repository._options, repository._clock)
        self.repository = repository
        self._default_limits = () if default_limits is None else check_limits("default_limits", default_limits)

    def acquire(
        self,
        entity_id: str,
        resource: str,
        consume: Mapping[str, int],
        limits: Sequence[Limit] | None = None,
        *,
        cascade: bool = False,
        on_unavailable: OnUnavailable | None = None,
        rollback: bool = True,
        max_wait: float = 0.0,
    ) -> Lease:
        """``async with`` it to take tokens of every named limit, or of none; the block gets a ``Lease``.

        ``limits`` override the stored ones for this call. ``cascade`` also consumes from the entity's parent. An
        exception or a cancellation in the block gives everything back, unless ``rollback`` is ``False`` or the lease is
        kept. ``max_wait``: if tokens are short, wait for them so many seconds at most; who came first is served first.
        Raises ``ValidationError`` here or on entry; on entry ``RateLimitExceeded``, ``RateLimiterUnavailable``.
        """
        request = validate_request(
            entity_id,
            resource,
            consume,
            limits=limits,
            default_limits=self._default_limits,
            cascade=cascade,
            on_unavailable=on_unavailable,
            rollback=rollback,
            max_wait=max_wait,
        )
        return Lease(self.driver, self.namespace_state, request)

    async def available(self, entity_id: str, resource: str) -> dict[str, int]:
        """Whole tokens in the entity's own bucket, by limit; negative in debt. Reads the store.

        Raises ``RateLimiterUnavailable``, and ``ValidationError`` if no level has limits.
        """
        return await self._run(inspection.available(self.namespace_state, self._place(entity_id, resource)))

    async def time_until_available(self, entity_id: str, resource: str, consume: Mapping[str, int]) -> float:
        """Seconds until such an acquire can pass, ``math.inf`` if never; includes the parent if the entity cascades.

        Reads the store. Raises ``RateLimiterUnavailable``, ``ValidationError``.
        """
        request = validate_request(entity_id, resource, consume, default_limits=self._default_limits)
        return await self._run(inspection.time_until_available(self.namespace_state, request))

    async def is_available(self, entity_id: str, resource: str, consume: Mapping[str, int]) -> bool:
        """Whether such an acquire would pass now. Raises the errors of ``time_until_available``."""
        return await self.time_until_available(entity_id, resource, consume) == 0

    async def close(self) -> None:
        """Close the repository."""
        await self.repository.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _place(self, entity_id: str, resource: str) -> AcquireRequest:
        return validate_place(entity_id, resource, default_limits=self._default_limits)
