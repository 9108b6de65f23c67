"""The sync repository: a namespace of a table, and what is stored in it.

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
from .driver import SyncDriver
from .store import SyncDynamoDBStore, SyncMemoryStore, SyncStore

T = TypeVar("T")


class SyncRepository:
    """One namespace of one table. Open one in a process, and share it; close it at the end."""

    def __init__(self, store: SyncStore, scope: Scope, options: Options, clock: Clock, *, owner: bool = True) -> None:
        self._store = store
        self.driver = SyncDriver(store)
        self.scope = scope
        self._options = options
        self._clock = clock
        self._owner = owner

    @classmethod
    def open(
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
        return cls.over(SyncDynamoDBStore(chosen.stack_name, **chosen.store_options()), chosen)

    @staticmethod
    def builder() -> "SyncRepositoryBuilder":
        """Options one by one; ``…build()`` connects, and registers ``default`` and the namespace asked for."""
        return SyncRepositoryBuilder()

    @classmethod
    def in_memory(cls, namespace: str = "default", *, clock: Clock | None = None, **options: Any) -> Self:
        """A repository of this process alone: no network, no account; gone when it is."""
        chosen = Options(namespace=namespace, clock=clock, **options)
        store, time = SyncMemoryStore(), chosen.make_clock()
        namespace_id = play(opening(chosen, namespace, time), store.table.execute)
        return cls(store, scope_of(chosen, namespace, namespace_id, time), chosen, time)

    @classmethod
    def over(cls, store: SyncStore, options: Options) -> Self:
        """Connect over a store of your own, which is closed where that fails. Raises as ``open`` does."""
        driver, time = SyncDriver(store), options.make_clock()
        try:
            if options.create_table:
                driver.run(namespaces.create_table(options.stack_name))
            namespace_id = driver.run(opening(options, options.namespace_name, time))
        except BaseException:
            store.close()
            raise
        return cls(store, scope_of(options, options.namespace_name, namespace_id, time), options, time)

    def namespace(self, name: str) -> Self:
        """Another namespace of the same table, over the same client; registered where it is missing."""
        namespace_id = self.driver.run(opening(self._options, name, self._clock))
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

    def close(self) -> None:
        """Wait for the writes under way, and close the client if this repository opened it."""
        self.driver.close()
        if self._owner:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ping(self) -> bool:
        """Whether the store answers."""
        return self.driver.run(namespaces.ping())

    # limits

    def set_system_defaults(self, limits: Sequence[Limit], on_unavailable: OnUnavailable | None = None) -> None:
        """Replace the limits that hold where nothing else does; ``on_unavailable`` stays where it is not given.

        With ``on_unavailable``, ``limits`` may be empty. Raises ``ValidationError``.
        """
        checked = checked_system(limits, checked_policy(on_unavailable))
        self._run(stored.set_system(self.scope, checked, on_unavailable))

    def get_system_defaults(self) -> tuple[list[Limit], OnUnavailable | None]:
        """The system's limits, and what it says for a store that is away."""
        return self._run(stored.get_system(self.scope))

    def delete_system_defaults(self) -> None:
        """Remove the system config as a whole."""
        self._run(stored.delete(self.scope, stored.system_key(self.scope)))

    def set_resource_defaults(self, resource: str, limits: Sequence[Limit]) -> None:
        """Replace the limits of a resource."""
        check_resource("resource", resource)
        self._run(stored.set_resource(self.scope, resource, check_limits("limits", limits)))

    def get_resource_defaults(self, resource: str) -> list[Limit]:
        """The limits of a resource; none where none are set."""
        check_resource("resource", resource)
        return self._run(stored.get_limits(stored.resource_key(self.scope, resource)))

    def delete_resource_defaults(self, resource: str) -> None:
        """Remove the limits of a resource."""
        check_resource("resource", resource)
        self._run(stored.delete(self.scope, stored.resource_key(self.scope, resource)))

    def set_limits(self, entity_id: str, limits: Sequence[Limit], resource: str = "_default_") -> None:
        """Replace an entity's own limits on a resource, or on all."""
        place = checked_own_place(entity_id, resource)
        self._run(stored.set_entity(self.scope, *place, check_limits("limits", limits)))

    def get_limits(self, entity_id: str, resource: str = "_default_") -> list[Limit]:
        """An entity's own limits on a resource, or on all; none where none are set."""
        place = checked_own_place(entity_id, resource)
        return self._run(stored.get_limits(stored.entity_key(self.scope, *place)))

    def delete_limits(self, entity_id: str, resource: str = "_default_") -> None:
        """Remove an entity's own limits on a resource, or on all."""
        place = checked_own_place(entity_id, resource)
        self._run(stored.delete(self.scope, stored.entity_key(self.scope, *place)))

    def resolve_limits(self, entity_id: str, resource: str) -> Resolution:
        """The limits that hold for an entity on a resource, what to do without the store, and which level won."""
        place = checked_place(entity_id, resource)
        return self._run(inspect.resolve_limits(self.scope, place.entity_id, place.resource))

    def invalidate_config_cache(self) -> None:
        """Have everything read again."""
        self.scope.configs.invalidate()

    def get_cache_stats(self) -> CacheStats:
        """How often the config cache knew the answer."""
        return self.scope.configs.stats()

    # entities

    def create_entity(
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
        return self._run(entities.create_entity(self.scope, new, created_at=iso_time(self._clock)))

    def get_entity(self, entity_id: str) -> Entity | None:
        """The entity, ``None`` where there is none."""
        return self._run(entities.get_entity(self.scope, check_identifier("entity_id", entity_id)))

    def get_children(self, parent_id: str) -> list[Entity]:
        """The entities whose parent this is, by id."""
        return self._run(entities.get_children(self.scope, check_identifier("parent_id", parent_id)))

    def _run(self, flow: Flow[T]) -> T:
        return self.driver.run(outward(self.scope, flow))


class SyncRepositoryBuilder(BuilderBase):
    """Options one by one."""

    def build(self) -> SyncRepository:
        """Connect; registers ``default`` and the namespace asked for. Raises as ``SyncRepository.open`` does."""
        options = self._options
        store = SyncDynamoDBStore(options.stack_name, **options.store_options())
        repository = SyncRepository.over(store, options)
        if options.namespace_name != DEFAULT_NAMESPACE:
            repository.namespace(DEFAULT_NAMESPACE)
        return repository
