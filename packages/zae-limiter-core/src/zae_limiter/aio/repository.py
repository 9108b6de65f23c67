"""The async repository: a namespace of a table, and what is stored in it.

Lives here: a list of methods, each a flow and its checks. Never: a rule.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from ..clock import Clock
from ..entities import Entity
from ..flows import entities, inspect, namespaces
from ..flows import limits as stored
from ..flows.configs import CacheStats
from ..flows.inspect import Resolution
from ..flows.outward import checked_entity, checked_own_place, checked_place, checked_policy, checked_system, outward
from ..flows.scope import Scope
from ..flows.steps import Flow, play
from ..limits import Limit, OnUnavailable, check_limits
from ..naming import check_identifier, check_resource
from ..options import DEFAULT_NAMESPACE, BuilderBase, Options
from ..starting import iso_time, opening, scope_of
from .driver import Driver
from .store import DynamoDBStore, MemoryStore, Store

T = TypeVar("T")


class Repository:
    """One namespace of one table. Open one in a process, and share it; close it at the end."""

    def __init__(self, store: Store, scope: Scope, options: Options, clock: Clock, *, owner: bool = True) -> None:
        self._store = store
        self.driver = Driver(store)
        self.scope = scope
        self._options = options
        self._clock = clock
        self._owner = owner

    @classmethod
    async def open(
        cls,
        namespace: str | None = None,
        *,
        stack: str | None = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        config_cache_ttl: float = 60,
        register: bool = True,
        **options: Any,
    ) -> Self:
        """Connect to a namespace, which is registered where it is missing, unless ``register`` is ``False``.

        ``options`` are the other fields of ``Options``; times are in seconds. Raises ``InfrastructureNotFoundError``
        without a table, ``NamespaceNotFoundError``, ``RateLimiterUnavailable``, ``ValidationError``.
        """
        chosen = Options(
            namespace=namespace,
            stack=stack,
            region=region,
            endpoint_url=endpoint_url,
            config_cache_ttl=config_cache_ttl,
            register=register,
            **options,
        )
        return await cls.over(DynamoDBStore(chosen.stack_name, **chosen.store_options()), chosen)

    @staticmethod
    def builder() -> "RepositoryBuilder":
        """Options one by one; ``await …build()`` connects, and registers ``default`` and the namespace asked for."""
        return RepositoryBuilder()

    @classmethod
    def in_memory(cls, namespace: str = "default", *, clock: Clock | None = None, **options: Any) -> Self:
        """A repository of this process alone: no network, no account; gone when it is."""
        chosen = Options(namespace=namespace, clock=clock, **options)
        store, time = MemoryStore(), chosen.make_clock()
        namespace_id = play(opening(chosen, namespace, time), store.table.execute)
        return cls(store, scope_of(chosen, namespace, namespace_id, time), chosen, time)

    @classmethod
    async def over(cls, store: Store, options: Options) -> Self:
        """Connect over a store of your own, which is closed where that fails. Raises as ``open`` does."""
        driver, time = Driver(store), options.make_clock()
        try:
            if options.create_table:
                await driver.run(namespaces.create_table(options.stack_name))
            namespace_id = await driver.run(opening(options, options.namespace_name, time))
        except BaseException:
            await store.close()
            raise
        return cls(store, scope_of(options, options.namespace_name, namespace_id, time), options, time)

    async def namespace(self, name: str) -> Self:
        """Another namespace of the same table, over the same client; registered where it is missing."""
        namespace_id = await self.driver.run(opening(self._options, name, self._clock))
        scope = scope_of(self._options, name, namespace_id, self._clock)
        return type(self)(self._store, scope, self._options, self._clock, owner=False)

    @property
    def name(self) -> str:
        """The namespace, by name."""
        return self.scope.namespace

    @property
    def namespace_id(self) -> str:
        """The namespace, as its keys begin."""
        return self.scope.namespace_id

    async def close(self) -> None:
        """Wait for the writes under way, and close the client if this repository opened it."""
        await self.driver.close()
        if self._owner:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def ping(self) -> bool:
        """Whether the store answers."""
        return await self.driver.run(namespaces.ping())

    # limits

    async def set_system_defaults(self, limits: Sequence[Limit], on_unavailable: OnUnavailable | None = None) -> None:
        """Replace the limits that hold where nothing else does; ``on_unavailable`` stays where it is not given.

        With ``on_unavailable``, ``limits`` may be empty. Raises ``ValidationError``.
        """
        checked = checked_system(limits, checked_policy(on_unavailable))
        await self._run(stored.set_system(self.scope, checked, on_unavailable))

    async def get_system_defaults(self) -> tuple[list[Limit], OnUnavailable | None]:
        """The system's limits, and what it says for a store that is away."""
        return await self._run(stored.get_system(self.scope))

    async def delete_system_defaults(self) -> None:
        """Remove the system config as a whole."""
        await self._run(stored.delete(self.scope, stored.system_key(self.scope)))

    async def set_resource_defaults(self, resource: str, limits: Sequence[Limit]) -> None:
        """Replace the limits of a resource."""
        check_resource("resource", resource)
        await self._run(stored.set_resource(self.scope, resource, check_limits("limits", limits)))

    async def get_resource_defaults(self, resource: str) -> list[Limit]:
        """The limits of a resource; none where none are set."""
        check_resource("resource", resource)
        return await self._run(stored.get_limits(stored.resource_key(self.scope, resource)))

    async def delete_resource_defaults(self, resource: str) -> None:
        """Remove the limits of a resource."""
        check_resource("resource", resource)
        await self._run(stored.delete(self.scope, stored.resource_key(self.scope, resource)))

    async def set_limits(self, entity_id: str, limits: Sequence[Limit], resource: str = "_default_") -> None:
        """Replace an entity's own limits on a resource, or on all."""
        place = checked_own_place(entity_id, resource)
        await self._run(stored.set_entity(self.scope, *place, check_limits("limits", limits)))

    async def get_limits(self, entity_id: str, resource: str = "_default_") -> list[Limit]:
        """An entity's own limits on a resource, or on all; none where none are set."""
        place = checked_own_place(entity_id, resource)
        return await self._run(stored.get_limits(stored.entity_key(self.scope, *place)))

    async def delete_limits(self, entity_id: str, resource: str = "_default_") -> None:
        """Remove an entity's own limits on a resource, or on all."""
        place = checked_own_place(entity_id, resource)
        await self._run(stored.delete(self.scope, stored.entity_key(self.scope, *place)))

    async def resolve_limits(self, entity_id: str, resource: str) -> Resolution:
        """The limits that hold for an entity on a resource, what to do without the store, and which level won."""
        place = checked_place(entity_id, resource)
        return await self._run(inspect.resolve_limits(self.scope, place.entity_id, place.resource))

    async def invalidate_config_cache(self) -> None:
        """Have everything read again."""
        self.scope.configs.invalidate()

    def get_cache_stats(self) -> CacheStats:
        """How often the config cache knew the answer."""
        return self.scope.configs.stats()

    # entities

    async def create_entity(
        self,
        entity_id: str,
        name: str | None = None,
        parent_id: str | None = None,
        cascade: bool = False,  # noqa: FBT001 - the public signature
        metadata: Mapping[str, str] | None = None,
    ) -> Entity:
        """A new entity; with ``cascade`` its acquires also consume from the parent.

        Raises ``EntityExistsError``, ``EntityNotFoundError`` for an unknown parent, ``ValidationError``.
        """
        new = checked_entity(entity_id, name, parent_id, cascade=cascade, metadata=metadata)
        return await self._run(entities.create_entity(self.scope, new, created_at=iso_time(self._clock)))

    async def get_entity(self, entity_id: str) -> Entity | None:
        """The entity, ``None`` where there is none."""
        return await self._run(entities.get_entity(self.scope, check_identifier("entity_id", entity_id)))

    async def get_children(self, parent_id: str) -> list[Entity]:
        """The entities whose parent this is, by id."""
        return await self._run(entities.get_children(self.scope, check_identifier("parent_id", parent_id)))

    async def _run(self, flow: Flow[T]) -> T:
        return await self.driver.run(outward(self.scope, flow))


class RepositoryBuilder(BuilderBase):
    """Options one by one."""

    async def build(self) -> Repository:
        """Connect; registers ``default`` and the namespace asked for. Raises as ``Repository.open`` does."""
        options = self._options
        store = DynamoDBStore(options.stack_name, **options.store_options())
        repository = await Repository.over(store, options)
        if options.namespace_name != DEFAULT_NAMESPACE:
            await repository.namespace(DEFAULT_NAMESPACE)
        return repository
