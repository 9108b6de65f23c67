# Generated from aio/repository.py by `just variants`: edit that one.
"""The sync repository: a namespace of a table, and its contents."""

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from .. import values
from ..clock.system import Clock
from ..engines.engine import SyncStore
from ..engines.memory.store import SyncMemoryStore
from ..engines.meter import Meter
from ..exceptions import NamespaceNotFoundError, RateLimiterUnavailable, StoreRefusedError
from ..flows.acquire.counting import count_the_rest, owes
from ..flows.process.late_opening import OpenedNamespace, known_id
from ..flows.process.namespace_state import NamespaceState
from ..flows.records import opening as namespaces
from ..flows.steps import Flow
from ..operations.errors import Unreachable
from ..runtime import endings
from ..settings import DEFAULT_NAMESPACE, BuilderBase, InMemoryOptions, OpenOptions, Options, SQLiteOptions
from ..wiring import (
    clock_over,
    connecting,
    late_namespace_state,
    namespace_state_of,
    open_in_memory,
    opening,
    quiet,
    refuse_construction,
)
from .buckets import SyncBucketMethods
from .driver import SyncDriver
from .entities import SyncDirectoryMethods
from .history import SyncHistoryMethods
from .limits import SyncLevelMethods
from .namespaces import SyncNamespaceMethods
from .store import store_of


class SyncRepository(
    SyncLevelMethods, SyncDirectoryMethods, SyncHistoryMethods, SyncBucketMethods, SyncNamespaceMethods
):
    """One namespace of one table. Open one repository in a process, share it, and close it at the end."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Return a repository of its parts. Raises ``TypeError`` without them, which says how to open one."""
        refuse_construction(cls.__name__, given, named)
        return super().__new__(cls)

    def __init__(
        self,
        store: SyncStore,
        namespace_state: NamespaceState,
        options: Options,
        clock: Clock,
        *,
        driver: SyncDriver | None = None,
        owner: bool = True,
    ) -> None:
        driver = driver or SyncDriver(store, operation_timeout=options.operation_timeout, clock=clock)
        super().__init__(driver, namespace_state, options, clock)
        if store.capabilities.lossy:
            namespace_state.sign_writes()
        namespace_state.prefetches.least = max(namespace_state.prefetches.least, store.capabilities.prefetch_from)
        self._store = store
        self._owner = owner
        endings.register(self, type(self)._at_exit)

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
        **options: Unpack[OpenOptions],
    ) -> Self:
        """Connect to a namespace. A missing one is registered, with a warning, unless ``register`` is ``False``.

        ``options`` are the other fields of ``Options``; times are in seconds. If the store is away,
        ``on_unavailable="allow"`` or ``"share"`` opens nevertheless: the first call that reaches it looks for the
        namespace, and raises what ``open`` raises. Raises ``InfrastructureNotFoundError`` without a table,
        ``NamespaceNotFoundError``, ``RateLimiterUnavailable``, ``StoreRefusedError``, ``ValidationError``.
        """
        if unknown := options.keys() - OpenOptions.__annotations__.keys():
            from ..renamed import refuse_arguments

            refuse_arguments(f"{cls.__name__}.open", sorted(unknown))
        chosen = Options(
            namespace=namespace,
            stack=stack,
            region=region,
            endpoint_url=endpoint_url,
            config_cache_ttl=config_cache_ttl,
            register=register,
            **options,
        )
        try:
            return cls.over(store_of(chosen), chosen)
        except StoreRefusedError as refusal:  # a setting is wrong: the message says which one, and no frame does
            raise quiet(refusal) from None

    @staticmethod
    def builder() -> "SyncRepositoryBuilder":
        """Return a builder that takes options one by one.

        ``…build()`` connects, and registers ``default`` and the requested namespace.
        """
        return SyncRepositoryBuilder()

    @classmethod
    def in_memory(
        cls, namespace: str = "default", *, clock: Clock | None = None, **options: Unpack[InMemoryOptions]
    ) -> Self:
        """Return a repository in the memory of this process: no network, no account.

        It has no hot items, so buckets split only if ``split_above`` is given.
        """
        chosen = Options(namespace=namespace, clock=clock, **options)
        store = SyncMemoryStore(meter=Meter() if chosen.count_units else None)
        time = clock_over(store, chosen)
        namespace_id = open_in_memory(chosen, namespace, time, store.table)
        namespace_state = namespace_state_of(chosen, namespace, namespace_id, time)
        namespace_state.take_from(None if chosen.count_units else store.table)
        return cls(store, namespace_state, chosen, time)

    @classmethod
    def sqlite(
        cls,
        path: str | PathLike[str],
        namespace: str | None = None,
        *,
        clock: Clock | None = None,
        **options: Unpack[SQLiteOptions],
    ) -> Self:
        """Connect to a namespace in a file, which all processes of this host may share: no network, no account.

        A missing file is made, a missing namespace is registered. Raises ``RateLimiterUnavailable`` if the file is
        locked for too long, or its disk is full; ``StoreRefusedError`` if it cannot be used; and the other errors of
        ``open``.
        """
        from ..engines.sqlite.place import url_of  # it loads sqlite3, which no other engine needs

        url = url_of(path)
        return cls.open(namespace, store=url, clock=clock, **options)

    @classmethod
    def over(cls, store: SyncStore, options: Options) -> Self:
        """Connect over a store of your own, which is closed on failure. Raises the errors of ``open``."""
        options, time = options.over(store.capabilities), clock_over(store, options)
        driver = SyncDriver(store, operation_timeout=options.operation_timeout, clock=time)
        try:
            find = partial(connecting, options, time)
            namespace_state = _open(driver, store, options, options.namespace_name, time, find)
        except BaseException:
            store.close()
            raise
        if namespace_state.opening is not None:
            driver.begin_outage(Unreachable("it was away when the repository was opened"))
        return cls(store, namespace_state, options, time, driver=driver)

    def namespace(self, name: str) -> Self:
        """Return another namespace of the same table, over the same client; a missing one is registered."""
        find = partial(opening, self._options, name, self._clock)
        namespace_state = _open(self.driver, self._store, self._options, name, self._clock, find)
        namespace_state.take_from(self.namespace_state.own_table)
        return type(self)(self._store, namespace_state, self._options, self._clock, driver=self.driver, owner=False)

    @property
    def name(self) -> str:
        """The name of the namespace."""
        return self.namespace_state.namespace

    @property
    def namespace_id(self) -> str:
        """The id of the namespace, with which its keys begin. Raises ``RateLimiterUnavailable`` while it is not known.

        It is not if the store was away when the repository was opened, and no call has reached it since.
        """
        return known_id(self.namespace_state)

    def close(self) -> None:
        """Refuse new calls, wait for the writes under way, at most for the time of a request, and close the client.

        Refusals of the namespace that no write has counted are counted, also for at most that time. A repository of
        ``namespace(…)`` does only this and waits: the repository that opened the client closes it for all.
        """
        last = count_the_rest(self.namespace_state)
        if not self._owner:
            return self.driver.drain(last)
        self.driver.close(last)
        self._store.close()
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            from ..renamed import refuse_attribute

            refuse_attribute(self, name)

    def ping(self) -> bool:
        """Return whether the namespace is open, and the store answers a read and a write of a bucket now.

        The write changes nothing; it asks for all that an acquire needs, such as the permission, and space on the disk.
        ``False`` at once while the breaker is open.
        """
        return self.driver.run(namespaces.ping(self.namespace_state))

    def get_store_stats(self) -> "values.stats.StoreStats":
        """Return the state of the breaker, and counts of failed requests and of dropped rows, in this process."""
        return self.driver.health.stats()

    def invalidate_config_cache(self) -> None:
        """Drop all cached configs, so that they are read again."""
        self.namespace_state.configs.invalidate()

    def get_cache_stats(self) -> "values.stats.CacheStats":
        """Return the hits and misses of the config cache."""
        return self.namespace_state.configs.stats()

    def _at_exit(self) -> None:
        """Write the pending counts at the end of a program that did not ``close``, as far as threads are not needed."""
        if owes(self.namespace_state):
            self.driver.at_exit(count_the_rest(self.namespace_state))


def _open(
    driver: SyncDriver,
    store: SyncStore,
    options: Options,
    name: str,
    clock: Clock,
    find: Callable[[], Flow[OpenedNamespace]],
) -> NamespaceState:
    """Return the state of a namespace, which is opened later if the store is away and the policy is ``allow``."""
    reads_spread = not store.capabilities.plain_indexes
    try:
        found = driver.run(find())
    except RateLimiterUnavailable as outage:
        return late_namespace_state(options, name, clock, find, outage, reads_spread=reads_spread)
    return namespace_state_of(options, name, found.id, clock, reads_spread=reads_spread, spread=found.spread)


class SyncRepositoryBuilder(BuilderBase):
    """Options one by one."""

    def build(self) -> SyncRepository:
        """Connect; registers ``default`` and the requested namespace. Raises the errors of ``SyncRepository.open``.

        If the store is away, and ``on_unavailable`` is not ``block``, ``default`` is left to another process.
        """
        options = self._options
        try:
            repository = SyncRepository.over(store_of(options), options)
        except StoreRefusedError as refusal:
            raise quiet(refusal) from None
        if options.namespace_name != DEFAULT_NAMESPACE and repository.namespace_state.opening is None:
            try:
                repository.namespace(DEFAULT_NAMESPACE)
            except NamespaceNotFoundError:
                pass  # it was deleted, and stays deleted
            except BaseException:
                repository.close()
                raise
        return repository
