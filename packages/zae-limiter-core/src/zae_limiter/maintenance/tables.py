"""Open a table for its upkeep, split and merge its shards, read its usage, and copy it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ..clock.system import Clock
from ..engines.dynamodb.aws.identity import CallerIdentity
from ..engines.dynamodb.options import ClientOptions
from ..engines.dynamodb.sync.store import SyncDynamoDBStore
from ..engines.engine import SyncStore
from ..exceptions import RateLimiterUnavailable
from ..flows.bucket.merging import merge_bucket
from ..flows.bucket.splitting import split_shard as _split_shard
from ..flows.process.late_opening import in_namespace
from ..flows.process.namespace_state import NamespaceState, Settings
from ..flows.public_errors import with_public_errors
from ..flows.records import copying, registry
from ..flows.records.copying import CopyForecast
from ..flows.records.counted import StreamState, state_at
from ..flows.records.usage import Span, next_page, next_spans, open_pages, validate_usage
from ..flows.steps import Flow
from ..observers import emf
from ..operations.values import Scan
from ..runtime.named_tuple import NamedTuple
from ..schema.items import BucketId
from ..schema.usage import SPAN_MINUTES
from ..settings import Options
from ..sync.driver import SyncDriver
from ..sync.store import store_of
from ..values.limits import Limit
from ..values.namespaces import Namespace
from ..values.usage import UsageSnapshot
from ..wiring import clock_over, namespace_state_of, new_namespace

if TYPE_CHECKING:
    from ..sync.repository import SyncRepository

T = TypeVar("T")
METRICS_NAMESPACE: Final = emf.NAMESPACE


class RunFlow(Protocol):
    """Run a flow and return its result. Raises ``StoreError``, and what the flow raises."""

    def __call__(self, flow: Flow[T]) -> T: ...


class Upkeep(NamedTuple):
    """The means to keep up one table: threads may share ``run``; the table's answers correct ``clock``."""

    run: RunFlow
    clock: Clock


def open_store(stack: str, *, connect_timeout: float, read_timeout: float) -> SyncStore:
    """Return a store over the table of a stack; region, endpoint and credentials are found as the SDK finds them.

    Nothing is sent yet. ``SyncRepository.over`` opens a namespace over it, and closes it with the repository.
    """
    return SyncDynamoDBStore(stack, connect_timeout=connect_timeout, read_timeout=read_timeout)


def caller_arn(*, region: str | None = None, profile: str | None = None) -> str | None:
    """Return the ARN of the caller of AWS; ``None`` if STS does not answer in time, or the endpoint is not AWS's."""
    return CallerIdentity(ClientOptions(region=region, profile=profile)).arn()


def open_upkeep(stack: str) -> Upkeep:
    """Return the means to run flows on the table of a stack, with one store and its clock; nothing is sent yet."""
    store = SyncDynamoDBStore(stack)
    return Upkeep(SyncDriver(store).run, store.clock)


def split_shard(bucket: BucketId, *, stack: str, now: Callable[[], int], among: int | None = None) -> Flow[int]:
    """Split a shard once, shard 0 of the bucket before any other; the flow returns the number of shards split.

    ``now`` is in epoch milliseconds. Nothing happens if the shard is missing, is one of 64, or is no longer one of
    ``among``, if that is given. Raises ``StoreError``.
    """
    namespace_state = NamespaceState("", bucket.namespace_id, stack=stack, now=now, settings=Settings())
    return _split_shard(namespace_state, bucket, among=among)


def in_bucket(limit: Limit) -> Limit:
    """Return a limit as a bucket has it: with the usable burst, without ``shadow``, ``prefetch``, ``weights`` and
    ``schedule``.
    """
    return limit._rule


def merge_shards(bucket: BucketId, *, stack: str, now: Callable[[], int]) -> Flow[int]:
    """Merge all shards of a bucket into one; the flow returns how many have gone.

    ``now`` is in epoch milliseconds. Raises ``StoreError``, also if the bucket is written too often for it.
    """
    namespace_state = NamespaceState("", bucket.namespace_id, stack=stack, now=now, settings=Settings())
    return merge_bucket(namespace_state, bucket.other(0))


def open_registered(store: SyncStore, options: Options) -> "SyncRepository":
    """Return a repository over the namespace of ``options``, and register it if there is none, or only a deleted one.

    Unlike ``SyncRepository.over`` it logs nothing, because a new namespace is expected. Versions are not checked.
    """
    from ..sync.repository import SyncRepository

    options, clock = options.over(store.capabilities), clock_over(store, options)
    driver = SyncDriver(store, operation_timeout=options.operation_timeout, clock=clock)
    registered = driver.run(
        with_public_errors(options.stack_name, registry.register(new_namespace(options.namespace_name, clock)))
    )
    reads_spread = not store.capabilities.plain_indexes
    state = namespace_state_of(options, registered.name, registered.namespace_id, clock, reads_spread=reads_spread)
    return SyncRepository(store, state, options, clock, driver=driver)


def open_table(options: Options) -> "SyncRepository":
    """Return a repository over the table of ``options`` for what belongs to no namespace: versions, the registry.

    It opens no namespace: the one that ``options`` name may be deleted, and stays so.
    """
    return over_table(store_of(options), options)


def over_table(store: SyncStore, options: Options) -> "SyncRepository":
    """Return what ``open_table`` does, over a store."""
    from ..sync.repository import SyncRepository

    clock = clock_over(store, options)
    reads_spread = not store.capabilities.plain_indexes
    state = namespace_state_of(options, options.namespace_name, "", clock, reads_spread=reads_spread)
    return SyncRepository(store, state, options, clock)


def run(table: "SyncRepository", flow: Flow[T]) -> T:
    """Run a flow and return its result. Raises ``InfrastructureError`` and what the flow raises."""
    return table.driver.run(with_public_errors(table.namespace_state.stack, flow))


def usage_pages(
    repository: "SyncRepository", resource: str | None, start: datetime, end: datetime
) -> Iterator[Sequence[UsageSnapshot]]:
    """Yield the hourly snapshots of a namespace, or of a resource, a page at a time: what
    ``get_usage_snapshots`` returns page by page, without a second read of rows that a page has left over.

    Raises ``ValidationError``, and with each page what a list of the repository raises.
    """
    state, asked = repository.namespace_state, validate_usage(None, resource, "hourly", start, end)
    pages = repository.driver.run(in_namespace(state, open_pages(state, asked)))
    while not pages.ended:
        yield repository.driver.run(in_namespace(state, next_page(pages)))


def usage_spans(repository: "SyncRepository", resource: str | None, start: datetime) -> Iterator[Span]:
    """Yield what was admitted and refused from an instant on, by five minutes, the one of the instant included, of a
    namespace or a resource. An aggregator keeps that for as long as hours; a store that counts usage itself does not.

    Reads what ``usage_pages`` reads. Raises ``ValidationError``, and what a list of the repository raises.
    """
    first = start.replace(minute=start.minute // SPAN_MINUTES * SPAN_MINUTES, second=0, microsecond=0)
    hour = first.replace(minute=0)
    state, asked = repository.namespace_state, validate_usage(None, resource, "hourly", hour, None)
    pages = repository.driver.run(in_namespace(state, open_pages(state, asked)))
    while not pages.ended:
        found = repository.driver.run(in_namespace(state, next_spans(pages)))
        yield from (each for each in found if each.at >= first)


def usage_state(repository: "SyncRepository", places: Sequence[tuple[str, str]]) -> StreamState:
    """Return how far the usage of buckets is counted, each at an entity and a resource: see ``flows.records.counted``.

    Costs one read for the first 33 places, up to three queries more where nothing was counted lately, and without
    places the queries of a list of the namespace; nothing where the store counts usage itself, so that nothing waits.
    Raises what a list of the repository raises.
    """
    if repository._store.capabilities.usage:
        return StreamState()
    state = repository.namespace_state
    return repository.driver.run(in_namespace(state, state_at(state, places)))


def forecast_copy(source: "SyncRepository", target: "SyncRepository", names: Collection[str]) -> list[CopyForecast]:
    """Return what a copy of these namespaces would write, or of all in use if there are no ``names``; write nothing.

    Raises ``NamespaceNotFoundError``, ``NamespaceStateError`` for a namespace that the target has and that is not
    empty, ``VersionError``, ``InfrastructureError``.
    """
    for table in (target, source):
        run(table, copying.check_schema(table.namespace_state.stack))
    forecasts = run(source, copying.survey(names))
    for each in forecasts:
        each.is_copied = run(target, copying.is_copied(each.namespace))
    return forecasts


def copy(
    source: "SyncRepository",
    target: "SyncRepository",
    forecasts: Sequence[CopyForecast],
    *,
    report: Callable[[int], None],
) -> list[Namespace]:
    """Copy the namespaces that are not copied yet, and return them as they are in the target.

    They cannot be opened before the copy is complete. ``report`` gets the number of items written so far. A repeated
    call after an interruption purges what is there and begins anew; so does this one, some times, after a lost answer.
    Raises the errors of ``forecast_copy``.
    """
    wanted = [each.namespace for each in forecasts if not each.is_copied]
    for number in range(2, copying.BEGINNINGS + 1):
        try:
            return _copy(source, target, wanted, report)
        except RateLimiterUnavailable as error:
            if not isinstance(error.__cause__, copying.InDoubt):
                raise
            run(target, copying.log_beginning(number, error.__cause__))
    return _copy(source, target, wanted, report)


def _copy(
    source: "SyncRepository", target: "SyncRepository", wanted: Sequence[Namespace], report: Callable[[int], None]
) -> list[Namespace]:
    """Copy the namespaces under new ids, once."""
    new = [new_namespace(each.name, target._clock) for each in wanted]
    for old, each in zip(wanted, new, strict=True):
        run(target, copying.begin(old, each))
    ids = {old.namespace_id: each.namespace_id for old, each in zip(wanted, new, strict=True)}
    spread = target.namespace_state.settings.reads_spread and run(target, copying.has_suffixes())
    scan, count = (Scan(copying.ITEMS_PER_PAGE) if ids else None), 0
    while scan is not None:
        items, scan = run(source, copying.page(scan))
        count += run(target, copying.write(items, ids, spread=spread))
        report(count)
    for each in new:
        run(target, copying.finish(each))
    return new
