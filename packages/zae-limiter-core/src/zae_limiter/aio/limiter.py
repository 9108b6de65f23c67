"""The async rate limiter."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self, TypeVar

from ..entities import UNCHANGED, Entity, Unchanged
from ..flows.acquire import inspection as inspect
from ..flows.acquire.claims import AcquireRequest
from ..flows.acquire.inspection import Resolution
from ..flows.acquire.requests import validate_place, validate_request, with_public_errors
from ..flows.records.bulk_configs import BulkResult
from ..flows.steps import Flow
from ..flows.validation import OwnPlace
from ..limits import Limit, OnUnavailable, check_limits
from .lease import Lease
from .repository import Repository

T = TypeVar("T")


class RateLimiter:
    """Token buckets of one repository. ``default_limits`` hold where no level of the repository has any."""

    def __init__(self, repository: Repository, *, default_limits: Sequence[Limit] | None = None) -> None:
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
    ) -> Lease:
        """``async with`` it to take tokens of every named limit, or of none; the block gets a ``Lease``.

        ``limits`` override the stored ones for this call. ``cascade`` also consumes from the entity's parent. An
        exception or a cancellation in the block gives everything back, unless ``rollback`` is ``False`` or the lease is
        kept. Raises ``ValidationError`` here or on entry; on entry ``RateLimitExceeded``, ``RateLimiterUnavailable``.
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
        )
        return Lease(self.repository.driver, self.repository.namespace_state, request)

    async def available(self, entity_id: str, resource: str) -> dict[str, int]:
        """Whole tokens in the entity's own bucket, by limit; negative in debt. Reads the store.

        Raises ``RateLimiterUnavailable``, and ``ValidationError`` if no level has limits.
        """
        return await self._run(inspect.available(self.repository.namespace_state, self._place(entity_id, resource)))

    async def time_until_available(self, entity_id: str, resource: str, consume: Mapping[str, int]) -> float:
        """Seconds until such an acquire can pass, ``math.inf`` if never; includes the parent if the entity cascades.

        Reads the store. Raises ``RateLimiterUnavailable``, ``ValidationError``.
        """
        request = validate_request(entity_id, resource, consume, default_limits=self._default_limits)
        return await self._run(inspect.time_until_available(self.repository.namespace_state, request))

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

    # the repository's methods for limits and entities

    async def set_system_defaults(
        self,
        limits: Sequence[Limit] | None,
        on_unavailable: OnUnavailable | None = None,
        *,
        principal: str | None = None,
    ) -> None:
        """See ``Repository.set_system_defaults``."""
        return await self.repository.set_system_defaults(limits, on_unavailable, principal=principal)

    async def get_system_defaults(self) -> tuple[list[Limit], OnUnavailable | None]:
        """See ``Repository.get_system_defaults``."""
        return await self.repository.get_system_defaults()

    async def delete_system_defaults(self, *, principal: str | None = None) -> None:
        """See ``Repository.delete_system_defaults``."""
        return await self.repository.delete_system_defaults(principal=principal)

    async def set_resource_defaults(
        self, resource: str, limits: Sequence[Limit], *, principal: str | None = None
    ) -> None:
        """See ``Repository.set_resource_defaults``."""
        return await self.repository.set_resource_defaults(resource, limits, principal=principal)

    async def get_resource_defaults(self, resource: str) -> list[Limit]:
        """See ``Repository.get_resource_defaults``."""
        return await self.repository.get_resource_defaults(resource)

    async def delete_resource_defaults(self, resource: str, *, principal: str | None = None) -> None:
        """See ``Repository.delete_resource_defaults``."""
        return await self.repository.delete_resource_defaults(resource, principal=principal)

    async def set_limits(
        self, entity_id: str, limits: Sequence[Limit], resource: str = "_default_", *, principal: str | None = None
    ) -> None:
        """See ``Repository.set_limits``."""
        return await self.repository.set_limits(entity_id, limits, resource, principal=principal)

    async def get_limits(self, entity_id: str, resource: str = "_default_") -> list[Limit]:
        """See ``Repository.get_limits``."""
        return await self.repository.get_limits(entity_id, resource)

    async def delete_limits(self, entity_id: str, resource: str = "_default_", *, principal: str | None = None) -> None:
        """See ``Repository.delete_limits``."""
        return await self.repository.delete_limits(entity_id, resource, principal=principal)

    async def list_resources_with_defaults(self) -> list[str]:
        """See ``Repository.list_resources_with_defaults``."""
        return await self.repository.list_resources_with_defaults()

    async def list_entities_with_custom_limits(self, resource: str) -> list[str]:
        """See ``Repository.list_entities_with_custom_limits``."""
        return await self.repository.list_entities_with_custom_limits(resource)

    async def list_resources_with_entity_configs(self) -> list[str]:
        """See ``Repository.list_resources_with_entity_configs``."""
        return await self.repository.list_resources_with_entity_configs()

    async def set_many_limits(
        self, changes: Mapping[OwnPlace, Sequence[Limit]], *, principal: str | None = None
    ) -> BulkResult[OwnPlace]:
        """See ``Repository.set_many_limits``."""
        return await self.repository.set_many_limits(changes, principal=principal)

    async def delete_many_limits(
        self, places: Iterable[OwnPlace], *, principal: str | None = None
    ) -> BulkResult[OwnPlace]:
        """See ``Repository.delete_many_limits``."""
        return await self.repository.delete_many_limits(places, principal=principal)

    async def resolve_limits(self, entity_id: str, resource: str) -> Resolution:
        """See ``Repository.resolve_limits``."""
        return await self.repository.resolve_limits(entity_id, resource)

    async def create_entity(
        self,
        entity_id: str,
        name: str | None = None,
        parent_id: str | None = None,
        cascade: bool = False,  # noqa: FBT001 - the public signature
        metadata: Mapping[str, str] | None = None,
        *,
        principal: str | None = None,
    ) -> Entity:
        """See ``Repository.create_entity``."""
        return await self.repository.create_entity(entity_id, name, parent_id, cascade, metadata, principal=principal)

    async def get_entity(self, entity_id: str) -> Entity | None:
        """See ``Repository.get_entity``."""
        return await self.repository.get_entity(entity_id)

    async def update_entity(
        self,
        entity_id: str,
        *,
        name: str | Unchanged | None = UNCHANGED,
        parent_id: str | Unchanged | None = UNCHANGED,
        cascade: bool | Unchanged = UNCHANGED,
        metadata: Mapping[str, str] | Unchanged | None = UNCHANGED,
        principal: str | None = None,
    ) -> Entity:
        """See ``Repository.update_entity``."""
        return await self.repository.update_entity(
            entity_id, name=name, parent_id=parent_id, cascade=cascade, metadata=metadata, principal=principal
        )

    async def delete_entity(self, entity_id: str, *, principal: str | None = None) -> None:
        """See ``Repository.delete_entity``."""
        return await self.repository.delete_entity(entity_id, principal=principal)

    async def get_children(self, parent_id: str) -> list[Entity]:
        """See ``Repository.get_children``."""
        return await self.repository.get_children(parent_id)

    def _place(self, entity_id: str, resource: str) -> AcquireRequest:
        return validate_place(entity_id, resource, default_limits=self._default_limits)

    async def _run(self, flow: Flow[T]) -> T:
        return await self.repository.driver.run(with_public_errors(self.repository.namespace_state, flow))
